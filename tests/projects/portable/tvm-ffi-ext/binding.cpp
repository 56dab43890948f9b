#include "../runtime/runtime.h"

// The C ABI of tvm-ffi, spelled out: a result cell has a type index (1 is an integer) and 8 bytes.
struct Any {
  int type_index;
  unsigned padding;
  long long value;
};

#define EXPORT(NAME)                                                        \
  extern "C" int __tvm_ffi_##NAME(void*, const Any*, int, Any* result) {    \
    *result = Any{1, 0, NAME()};                                            \
    return 0;                                                               \
  }

EXPORT(exceptions)
EXPORT(threads)
EXPORT(shared_pointers)
EXPORT(files)
EXPORT(number_texts)
EXPORT(streams)
EXPORT(thread_locals)
EXPORT(openmp)
EXPORT(timed_waits)
EXPORT(mathematics)
EXPORT(parsing)
