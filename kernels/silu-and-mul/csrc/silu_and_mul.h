#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// What binding.cpp, after all checks, asks a backend to do.
namespace silu_and_mul {

enum class DType { kFloat32, kFloat16, kBFloat16 };

// out[r][i] = silu(gate[r][i]) * up[r][i]. Rows are contiguous; the strides between them are in elements. `out` either
// overlaps neither input, or its elements are those of one input, in the same places.
struct Problem {
  const void* gate;
  const void* up;
  void* out;
  int64_t rows;
  int64_t columns;
  int64_t in_stride;
  int64_t out_stride;
  DType dtype;
};

// On at most so many threads. An empty name chooses the best instruction set; an unknown one throws std::out_of_range.
void run_cpu(const Problem& problem, int64_t threads, std::string_view isa);

// The name of the instruction set at that place, best first, among those that this CPU can run; null after the last.
const char* cpu_isa(size_t index);

// On a stream of that device. Returns null, or the text of the error.
const char* run_cuda(const Problem& problem, int device, void* stream);

}  // namespace silu_and_mul
