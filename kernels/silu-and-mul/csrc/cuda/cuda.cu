// Bound by memory bandwidth: per element two loads, one store, and some twenty instructions. What matters is therefore
// the width of the accesses (16 bytes per thread where the alignment allows) and having enough of them in flight.

#include <algorithm>
#include <bit>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "../silu_and_mul.h"

namespace silu_and_mul {
namespace {

constexpr int kPackBytes = 16;
constexpr unsigned kThreads = 256;

__device__ float to_float(float v) { return v; }
__device__ float to_float(__half v) { return __half2float(v); }
__device__ float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }

template <class T>
__device__ T from_float(float v);
template <>
__device__ float from_float(float v) {
  return v;
}
template <>
__device__ __half from_float(float v) {
  return __float2half_rn(v);
}
template <>
__device__ __nv_bfloat16 from_float(float v) {
  return __float2bfloat16_rn(v);
}

// In float, and rounded once. silu(x) = x / (1 + e^-x); with t = e^-|x|, which cannot overflow, this is x / (1 + t) for
// x >= 0 and x t / (1 + t) for x < 0. -inf gives NaN, as in PyTorch.
__device__ float silu_and_mul(float x, float up) {
  const float t = expf(-fabsf(x));
  return (x < 0.0f ? x * t : x) / (1.0f + t) * up;
}

template <class T, int kSize>
struct Pack {
  T values[kSize];
};

// With the intrinsics for plain cached accesses: an assignment through a pointer is split into its members.
template <class T, int kSize>
__device__ Pack<T, kSize> load(const T* from) {
  Pack<T, kSize> pack;
  if constexpr (sizeof(pack) == kPackBytes) {
    const uint4 bits = __ldca(reinterpret_cast<const uint4*>(from));
    memcpy(&pack, &bits, kPackBytes);
  } else {
    static_assert(kSize == 1);
    pack.values[0] = *from;
  }
  return pack;
}

template <class T, int kSize>
__device__ void store(T* to, const Pack<T, kSize>& pack) {
  if constexpr (sizeof(pack) == kPackBytes) {
    uint4 bits;
    memcpy(&bits, &pack, kPackBytes);
    __stwb(reinterpret_cast<uint4*>(to), bits);
  } else {
    *to = pack.values[0];
  }
}

// x runs over the columns of a row, y over rows, so that there is no division. `out` may be one of the inputs: each
// element is read and written by the same thread, in this order.
template <class T, int kSize>
__global__ void __launch_bounds__(kThreads) rows_kernel(
    const T* gate, const T* up, T* out, int64_t rows, int64_t columns, int64_t in_stride, int64_t out_stride) {
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  const int64_t first_column = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kSize;
  const int64_t row_step = static_cast<int64_t>(gridDim.y) * blockDim.y;
  const int64_t column_step = static_cast<int64_t>(gridDim.x) * blockDim.x * kSize;
  for (int64_t row = first_row; row < rows; row += row_step) {
    for (int64_t column = first_column; column < columns; column += column_step) {
      const auto gates = load<T, kSize>(gate + row * in_stride + column);
      const auto ups = load<T, kSize>(up + row * in_stride + column);
      Pack<T, kSize> result;
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        result.values[i] = from_float<T>(silu_and_mul(to_float(gates.values[i]), to_float(ups.values[i])));
      }
      store<T, kSize>(out + row * out_stride + column, result);
    }
  }
}

template <class T, int kSize>
void launch(const Problem& problem, cudaStream_t stream) {
  const int64_t packs = problem.columns / kSize;
  // A block is as wide as a row if that is narrow, and then takes several rows.
  const auto width = static_cast<unsigned>(std::min<uint64_t>(std::bit_ceil(static_cast<uint64_t>(packs)), kThreads));
  const dim3 block(width, kThreads / width);
  constexpr int64_t kMaxBlocksX = 0x7fffffff;
  constexpr int64_t kMaxBlocksY = 0xffff;
  const dim3 grid(
      static_cast<unsigned>(std::min<int64_t>((packs + block.x - 1) / block.x, kMaxBlocksX)),
      static_cast<unsigned>(std::min<int64_t>((problem.rows + block.y - 1) / block.y, kMaxBlocksY)));
  rows_kernel<T, kSize><<<grid, block, 0, stream>>>(
      static_cast<const T*>(problem.gate), static_cast<const T*>(problem.up), static_cast<T*>(problem.out),
      problem.rows, problem.columns, problem.in_stride, problem.out_stride);
}

template <class T>
void launch(const Problem& problem, cudaStream_t stream) {
  constexpr int kSize = kPackBytes / sizeof(T);
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % kPackBytes == 0; };
  if (aligned(problem.gate) && aligned(problem.up) && aligned(problem.out) && problem.columns % kSize == 0 &&
      problem.in_stride % kSize == 0 && problem.out_stride % kSize == 0) {
    launch<T, kSize>(problem, stream);
  } else {
    launch<T, 1>(problem, stream);
  }
}

class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    cudaGetDevice(&previous_);
    cudaSetDevice(device);
  }
  ~DeviceGuard() { cudaSetDevice(previous_); }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = 0;
};

}  // namespace

const char* run_cuda(const Problem& problem, int device, void* stream_handle) {
  if (problem.rows == 0 || problem.columns == 0) {
    return nullptr;  // A grid of zero blocks is a launch error.
  }
  const DeviceGuard guard(device);
  const auto stream = static_cast<cudaStream_t>(stream_handle);
  switch (problem.dtype) {
    case DType::kFloat32: launch<float>(problem, stream); break;
    case DType::kFloat16: launch<__half>(problem, stream); break;
    case DType::kBFloat16: launch<__nv_bfloat16>(problem, stream); break;
  }
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace silu_and_mul
