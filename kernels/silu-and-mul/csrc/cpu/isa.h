#pragma once

#include <stdint.h>

// What a file for one instruction set exports. This header and loops.h are compiled with flags of several instruction
// sets. If they defined an inline function with external linkage, the linker would keep one copy of it for all files,
// perhaps the AVX-512 one, and an older CPU would crash in plain code. So there is none: not here, not in the C
// headers they include, and what they do define is in an anonymous namespace or has no body. For the same reason, the
// tables are constinit: filling one when the library is loaded would run code of its instruction set.
namespace silu_and_mul {

// out[i] = silu(gate[i]) * up[i] for i < size. No alignment is required. `out` may be `gate` or `up`.
using Loop = void (*)(const void* gate, const void* up, void* out, int64_t size);

struct Isa {
  const char* name;
  Loop float32;
  Loop float16;
  Loop bfloat16;
};

extern const Isa kPlain;
#if defined(__x86_64__)
extern const Isa kAvx2;
extern const Isa kAvx512;
#endif

}  // namespace silu_and_mul
