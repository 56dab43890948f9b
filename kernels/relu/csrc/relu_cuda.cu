// Bound by memory bandwidth: one comparison per element. What matters is therefore the width of the accesses (16 bytes
// per thread, the widest there is) and having enough of them in flight, which full occupancy gives.

#include "relu.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/macros.h>
#include <torch/headeronly/core/ScalarType.h>

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

constexpr int kThreads = 256;
constexpr int kPackBytes = 16;

template <class T>
struct Pack {
  static constexpr int kSize = kPackBytes / sizeof(T);
  T values[kSize];
};

// With the intrinsics for plain cached accesses: an assignment through a pointer is split into its members.
template <class T>
__device__ Pack<T> load(const T* from) {
  const uint4 bits = __ldca(reinterpret_cast<const uint4*>(from));
  Pack<T> pack;
  memcpy(&pack, &bits, kPackBytes);
  return pack;
}

template <class T>
__device__ void store(T* to, const Pack<T>& pack) {
  uint4 bits;
  memcpy(&bits, &pack, kPackBytes);
  __stwb(reinterpret_cast<uint4*>(to), bits);
}

// The 16-bit floats have comparisons of their own only from capability 5.3 and 8.0 on; through float they need none.
__device__ float to_compute(__half v) { return __half2float(v); }
__device__ float to_compute(__nv_bfloat16 v) { return __bfloat162float(v); }
template <class T>
__device__ T to_compute(T v) {
  return v;
}

// `v <= 0` is false for NaN, so that NaN passes through.

struct Relu {
  template <class T>
  __device__ T operator()(T x) const {
    // -0.0 becomes 0.0, as from the max instruction that torch's CUDA kernel uses. (Its CPU kernel keeps -0.0.)
    return to_compute(x) <= 0 ? T(0) : x;
  }
};

struct ReluBackward {
  template <class T>
  __device__ T operator()(T grad, T result) const {
    return to_compute(result) <= 0 ? T(0) : grad;
  }
};

// [0, size) as `head` single elements, up to a 16-byte boundary, then `packs` packs, then single elements again.
struct Split {
  int64_t size;
  int64_t head;
  int64_t packs;
};

// Vector accesses are possible only if all pointers reach a 16-byte boundary at the same element. If they do not, there
// are no packs, and all elements are single ones.
template <class T>
Split split(int64_t size, std::initializer_list<const void*> pointers) {
  const auto misalignment = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % kPackBytes; };
  const auto first = misalignment(*pointers.begin());
  if (!std::all_of(pointers.begin(), pointers.end(), [&](const void* p) { return misalignment(p) == first; })) {
    return {size, 0, 0};
  }
  const int64_t head = std::min<int64_t>(size, (kPackBytes - first) % kPackBytes / sizeof(T));
  return {size, head, (size - head) / Pack<T>::kSize};
}

// out = op(in...). `out` may be one of the inputs: each element is read and written by the same thread, in this order.
template <class T, class Op, class... Inputs>
__global__ void __launch_bounds__(kThreads) elementwise(Split split, Op op, T* out, const Inputs*... in) {
  constexpr int kSize = Pack<T>::kSize;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;

  for (int64_t i = first; i < split.packs; i += step) {
    const int64_t at = split.head + i * kSize;
    const auto apply = [&](const auto&... packs) {
      Pack<T> result;
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        result.values[j] = op(packs.values[j]...);
      }
      return result;
    };
    store(out + at, apply(load(in + at)...));
  }

  for (int64_t i = first; i < split.size - split.packs * kSize; i += step) {
    const int64_t at = i < split.head ? i : i + split.packs * kSize;
    out[at] = op(in[at]...);
  }
}

template <class T, class Op, class... Inputs>
void launch(const Op& op, const Tensor& out, const Inputs&... inputs) {
  const int64_t size = out.numel();
  if (size == 0) {
    return;  // A grid of zero blocks is a launch error.
  }
  const int32_t device = out.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  int processors = 0;
  STD_CUDA_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));

  T* out_data = static_cast<T*>(out.mutable_data_ptr());
  const Split parts = split<T>(size, {out_data, inputs.const_data_ptr()...});
  // Enough threads to fill the device once; each then takes several packs of a large tensor.
  const int64_t work = std::max(parts.packs, size - parts.packs * Pack<T>::kSize);
  const int64_t blocks = std::min<int64_t>((work + kThreads - 1) / kThreads, processors * (2048 / kThreads));
  elementwise<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      parts, op, out_data, static_cast<const T*>(inputs.const_data_ptr())...);
  STD_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

void relu::forward(const Tensor& x, const Tensor& out) {
  switch (x.scalar_type()) {
    case ScalarType::Double: return launch<double>(Relu{}, out, x);
    case ScalarType::Float: return launch<float>(Relu{}, out, x);
    case ScalarType::Half: return launch<__half>(Relu{}, out, x);
    case ScalarType::BFloat16: return launch<__nv_bfloat16>(Relu{}, out, x);
    case ScalarType::Long: return launch<int64_t>(Relu{}, out, x);
    case ScalarType::Int: return launch<int32_t>(Relu{}, out, x);
    case ScalarType::Short: return launch<int16_t>(Relu{}, out, x);
    case ScalarType::Char: return launch<int8_t>(Relu{}, out, x);
    case ScalarType::Byte: return launch<uint8_t>(Relu{}, out, x);
    default: STD_TORCH_CHECK(false, "relu: x has unsupported dtype ", torch::headeronly::toString(x.scalar_type()));
  }
}

void relu::backward(const Tensor& grad, const Tensor& result, const Tensor& out) {
  switch (grad.scalar_type()) {
    case ScalarType::Double: return launch<double>(ReluBackward{}, out, grad, result);
    case ScalarType::Float: return launch<float>(ReluBackward{}, out, grad, result);
    case ScalarType::Half: return launch<__half>(ReluBackward{}, out, grad, result);
    case ScalarType::BFloat16: return launch<__nv_bfloat16>(ReluBackward{}, out, grad, result);
    default:
      STD_TORCH_CHECK(false, "relu: grad has unsupported dtype ", torch::headeronly::toString(grad.scalar_type()));
  }
}
