// Choice of the instruction set, and threads. Compiled for the baseline of the platform.

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "../silu_and_mul.h"
#include "isa.h"

namespace silu_and_mul {
namespace {

// What this CPU and its operating system can run, best first. Asked once.
const std::vector<const Isa*>& isas() {
  static const std::vector<const Isa*> found = [] {
    std::vector<const Isa*> list;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
      list.push_back(&kAvx512);
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
      list.push_back(&kAvx2);
    }
#endif
    list.push_back(&kPlain);
    return list;
  }();
  return found;
}

const Isa& find_isa(std::string_view name) {
  for (const Isa* isa : isas()) {
    if (name.empty() || name == isa->name) {
      return *isa;
    }
  }
  throw std::out_of_range(std::string(name));
}

struct Elements {
  Loop loop;
  int64_t size;
};

Elements elements(const Isa& isa, DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return {isa.float32, 4};
    case DType::kFloat16: return {isa.float16, 2};
    case DType::kBFloat16: return {isa.bfloat16, 2};
  }
  throw std::logic_error("silu_and_mul: no such dtype");
}

// Elements [begin, end) of the result, counted row by row.
void run_range(const Problem& problem, const Elements& elements, int64_t begin, int64_t end) {
  while (begin < end) {
    const int64_t row = begin / problem.columns;
    const int64_t column = begin % problem.columns;
    const int64_t count = std::min(problem.columns - column, end - begin);
    const int64_t in = (row * problem.in_stride + column) * elements.size;
    const int64_t out = (row * problem.out_stride + column) * elements.size;
    elements.loop(
        static_cast<const char*>(problem.gate) + in, static_cast<const char*>(problem.up) + in,
        static_cast<char*>(problem.out) + out, count);
    begin += count;
  }
}

}  // namespace

const char* cpu_isa(size_t index) { return index < isas().size() ? isas()[index]->name : nullptr; }

// Bound by arithmetic (the exponential and a division) as long as the data is in a cache, then by memory bandwidth.
//
// Threads are started for each call: there is no pool to use (tvm-ffi has none, and torch's is not reachable without
// linking torch), OpenMP would load a second runtime next to torch's own, and a pool of our own would be broken in a
// child after fork. A start costs about 20 us, so a thread must get several times that much to do.
void run_cpu(const Problem& problem, int64_t threads, std::string_view isa) {
  constexpr int64_t kElementsPerThread = 256 * 1024;
  const Elements elements = silu_and_mul::elements(find_isa(isa), problem.dtype);
  const int64_t total = problem.rows * problem.columns;
  const int64_t parts = std::clamp<int64_t>(total / kElementsPerThread, 1, std::max<int64_t>(threads, 1));

  const auto run_part = [&](int64_t part) {
    run_range(problem, elements, total * part / parts, total * (part + 1) / parts);
  };
  std::vector<std::thread> started;
  started.reserve(static_cast<size_t>(parts - 1));
  int64_t part = 1;
  try {
    for (; part < parts; ++part) {
      started.emplace_back(run_part, part);
    }
  } catch (const std::system_error&) {
    // No more threads allowed: the rest is done here.
  }
  run_part(0);
  for (; part < parts; ++part) {
    run_part(part);
  }
  for (std::thread& thread : started) {
    thread.join();
  }
}

}  // namespace silu_and_mul
