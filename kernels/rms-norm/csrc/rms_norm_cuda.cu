// Bound by memory bandwidth: a few instructions per element. The forward reads x and writes y once; the backward reads
// grad and x and writes the gradient of x once. So rows are kept in registers between the sum and its use, accesses are
// 16 bytes wide, and the weight's gradient is summed in registers by the blocks that have the rows anyway. Rows that are
// too long for the registers, or not aligned, are read twice, the second time mostly from the caches.

#include "rms_norm.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/core/ScalarType.h>

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

constexpr int kWarp = 32;
constexpr int kMaxThreads = 512;
constexpr int kPackBytes = 16;
// The packs of a row that a thread keeps.
constexpr int kMaxPacks = 4;

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

// The sum over all threads of a block, for each of them. In a loop the barriers also keep the next call from
// overwriting what this one still reads.
__device__ float block_sum(float value) {
  __shared__ float of_warp[kWarp];
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  __syncthreads();
  if (lane == 0) {
    of_warp[warp] = value;
  }
  __syncthreads();
  value = lane < blockDim.x / kWarp ? of_warp[lane] : 0.0f;
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

// Calls body(pack, column) for each pack of a row that is this thread's. kPacks is how many there are at most, so that
// what is indexed by `pack` can be in registers; 0 is any number.
template <int kSize, int kPacks, class Body>
__device__ void for_each_pack(int columns, const Body& body) {
  if constexpr (kPacks > 0) {
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      const int column = (pack * blockDim.x + threadIdx.x) * kSize;
      if (column < columns) {
        body(pack, column);
      }
    }
  } else {
    for (int column = threadIdx.x * kSize; column < columns; column += blockDim.x * kSize) {
      body(0, column);
    }
  }
}

template <class T, int kSize, int kPacks>
__global__ void __launch_bounds__(kMaxThreads) forward_kernel(
    const T* x, const T* weight, float eps, T* y, float* rstd, int64_t rows, int columns) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* x_row = x + row * columns;
    T* y_row = y + row * columns;
    Pack<T, kSize> kept[kPacks == 0 ? 1 : kPacks];
    float sum = 0;
    for_each_pack<kSize, kPacks>(columns, [&](int pack, int column) {
      kept[pack] = load<T, kSize>(x_row + column);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const float v = to_float(kept[pack].values[i]);
        sum += v * v;
      }
    });
    const float scale = 1.0f / sqrtf(block_sum(sum) / columns + eps);
    if (threadIdx.x == 0) {
      rstd[row] = scale;
    }
    for_each_pack<kSize, kPacks>(columns, [&](int pack, int column) {
      const auto values = kPacks == 0 ? load<T, kSize>(x_row + column) : kept[pack];
      const auto weights = load<T, kSize>(weight + column);
      Pack<T, kSize> result;
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        result.values[i] = from_float<T>(to_float(values.values[i]) * scale * to_float(weights.values[i]));
      }
      store<T, kSize>(y_row + column, result);
    });
  }
}

// With n = x * rstd and g = grad * weight, the gradient of x is rstd * (g - n * mean(g * n)), and that of the weight the
// sum of grad * n over the rows. Each block leaves its share of that sum in its row of `shares`, unless rows are too
// long to have the sums in registers.
template <class T, int kSize, int kPacks>
__global__ void __launch_bounds__(kMaxThreads) backward_kernel(
    const T* grad, const T* x, const T* weight, const float* rstd, T* x_grad, float* shares, int64_t rows,
    int columns) {
  constexpr int kKept = kPacks == 0 ? 1 : kPacks;
  float share[kKept][kSize] = {};
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t at = row * columns;
    const float scale = rstd[row];
    Pack<T, kSize> kept_grad[kKept], kept_x[kKept];
    float sum = 0;
    for_each_pack<kSize, kPacks>(columns, [&](int pack, int column) {
      kept_grad[pack] = load<T, kSize>(grad + at + column);
      kept_x[pack] = load<T, kSize>(x + at + column);
      const auto weights = load<T, kSize>(weight + column);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const float product = to_float(kept_grad[pack].values[i]) * to_float(kept_x[pack].values[i]) * scale;
        sum += product * to_float(weights.values[i]);
        share[pack][i] += product;
      }
    });
    const float mean = block_sum(sum) / columns;
    for_each_pack<kSize, kPacks>(columns, [&](int pack, int column) {
      const auto grads = kPacks == 0 ? load<T, kSize>(grad + at + column) : kept_grad[pack];
      const auto values = kPacks == 0 ? load<T, kSize>(x + at + column) : kept_x[pack];
      const auto weights = load<T, kSize>(weight + column);
      Pack<T, kSize> result;
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const float g = to_float(grads.values[i]) * to_float(weights.values[i]);
        result.values[i] = from_float<T>(scale * (g - to_float(values.values[i]) * scale * mean));
      }
      store<T, kSize>(x_grad + at + column, result);
    });
  }
  if constexpr (kPacks > 0) {
    float* of_block = shares + static_cast<int64_t>(blockIdx.x) * columns;
    for_each_pack<kSize, kPacks>(columns, [&](int pack, int column) {
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        of_block[column + i] = share[pack][i];
      }
    });
  }
}

// For rows that are too long for that: each thread sums one column over the rows of its block's part.
template <class T>
__global__ void __launch_bounds__(kMaxThreads) weight_kernel(
    const T* grad, const T* x, const float* rstd, float* shares, int64_t rows, int columns) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column < columns) {
    float sum = 0;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
      sum += to_float(grad[row * columns + column]) * to_float(x[row * columns + column]) * rstd[row];
    }
    shares[static_cast<int64_t>(blockIdx.y) * columns + column] = sum;
  }
}

// In a fixed order, so that the result does not depend on which block ends first.
__global__ void __launch_bounds__(kMaxThreads) add_kernel(
    const float* shares, float* weight_grad, int64_t count, int columns) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column < columns) {
    float sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      sum += shares[i * columns + column];
    }
    weight_grad[column] = sum;
  }
}

struct Launch {
  cudaStream_t stream;
  int processors;
};

Launch prepare(const Tensor& tensor) {
  const int32_t device = tensor.get_device_index();
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  Launch launch{static_cast<cudaStream_t>(stream), 0};
  STD_CUDA_CHECK(cudaDeviceGetAttribute(&launch.processors, cudaDevAttrMultiProcessorCount, device));
  return launch;
}

int round_up(int64_t value, int64_t step) { return static_cast<int>((value + step - 1) / step * step); }

// Calls body.operator()<kSize, kPacks>(threads) with what fits the length and the alignment of the rows.
template <class T, class Body>
void choose(int columns, std::initializer_list<const void*> pointers, const Body& body) {
  constexpr int kSize = kPackBytes / sizeof(T);
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % kPackBytes == 0; };
  const bool vectors = columns % kSize == 0 && std::all_of(pointers.begin(), pointers.end(), aligned);
  if (!vectors) {
    return body.template operator()<1, 0>(std::min(kMaxThreads, round_up(columns, kWarp)));
  }
  const int packs = columns / kSize;
  const int threads = std::min(kMaxThreads, round_up(packs, kWarp));
  if (packs <= threads) return body.template operator()<kSize, 1>(threads);
  if (packs <= 2 * threads) return body.template operator()<kSize, 2>(threads);
  if (packs <= kMaxPacks * threads) return body.template operator()<kSize, kMaxPacks>(threads);
  return body.template operator()<kSize, 0>(threads);
}

template <class T>
const T* in(const Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}

template <class T>
T* out(const Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

// Calls body.operator()<the dtype's C++ type>().
template <class Body>
void dispatch(ScalarType dtype, const Body& body) {
  switch (dtype) {
    case ScalarType::Float: return body.template operator()<float>();
    case ScalarType::Half: return body.template operator()<__half>();
    default: return body.template operator()<__nv_bfloat16>();
  }
}

}  // namespace

void rms_norm::forward(const Tensor& x, const Tensor& weight, double eps, const Tensor& y, const Tensor& rstd) {
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  const Launch on = prepare(x);
  const int64_t rows = x.size(0);
  const int columns = static_cast<int>(x.size(1));
  dispatch(x.scalar_type(), [&]<class T>() {
    const T *x_data = in<T>(x), *weight_data = in<T>(weight);
    T* y_data = out<T>(y);
    float* rstd_data = out<float>(rstd);
    choose<T>(columns, {x_data, weight_data, y_data}, [&]<int kSize, int kPacks>(int threads) {
      constexpr int64_t kMaxBlocks = 0x7fffffff;
      forward_kernel<T, kSize, kPacks><<<static_cast<unsigned>(std::min(rows, kMaxBlocks)), threads, 0, on.stream>>>(
          x_data, weight_data, static_cast<float>(eps), y_data, rstd_data, rows, columns);
    });
  });
  STD_CUDA_KERNEL_LAUNCH_CHECK();
}

void rms_norm::backward(
    const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& rstd, const Tensor& x_grad,
    const Tensor& weight_grad) {
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  const Launch on = prepare(x);
  const int64_t rows = x.size(0);
  const int columns = static_cast<int>(x.size(1));
  const unsigned column_blocks = (columns + kMaxThreads - 1) / kMaxThreads;
  // As many blocks as the device can hold, so that there are few shares to add.
  const int64_t blocks = std::min<int64_t>(rows, on.processors * 4);
  const Tensor shares = torch::stable::new_empty(weight_grad, {blocks, columns});
  float* shares_data = out<float>(shares);
  dispatch(x.scalar_type(), [&]<class T>() {
    const T *grad_data = in<T>(grad), *x_data = in<T>(x), *weight_data = in<T>(weight);
    const float* rstd_data = in<float>(rstd);
    T* x_grad_data = out<T>(x_grad);
    const auto count = static_cast<unsigned>(blocks);
    choose<T>(columns, {grad_data, x_data, weight_data, x_grad_data}, [&]<int kSize, int kPacks>(int threads) {
      backward_kernel<T, kSize, kPacks><<<count, threads, 0, on.stream>>>(
          grad_data, x_data, weight_data, rstd_data, x_grad_data, shares_data, rows, columns);
      STD_CUDA_KERNEL_LAUNCH_CHECK();
      if constexpr (kPacks == 0) {
        weight_kernel<T><<<dim3(column_blocks, std::min(count, 0xffffu)), kMaxThreads, 0, on.stream>>>(
            grad_data, x_data, rstd_data, shares_data, rows, columns);
        STD_CUDA_KERNEL_LAUNCH_CHECK();
      }
    });
  });
  add_kernel<<<column_blocks, kMaxThreads, 0, on.stream>>>(shares_data, out<float>(weight_grad), blocks, columns);
  STD_CUDA_KERNEL_LAUNCH_CHECK();
}
