// Bound by memory bandwidth: one comparison per element. SSE2 and NEON, which compilers use by default, keep up with
// main memory and the L3 cache, so the loops are plain C++ that the compiler vectorises. Wider instructions would help
// (up to 2x) only tensors that stay in the L2 cache; silu-and-mul shows how to choose them at run time.

#include "relu.h"

#include <cstdint>

#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/core/ScalarType.h>

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// The two operations for one dtype. Written with comparisons that are false for NaN, so that NaN passes through.
template <class T>
struct Plain {
  using Value = T;
  // Not max(v, 0): like torch's CPU kernel, this keeps -0.0.
  static T relu(T v) { return v < T{0} ? T{0} : v; }
  static T relu_backward(T grad, T result) { return result <= T{0} ? T{0} : grad; }
};

// 16-bit floats as their bits. Baseline x86 converts them one by one, in software; but for a fixed sign, the order of
// floats is the order of their bits, so integer comparisons do. Read as signed integers, floats with the sign bit are
// -0.0 (INT16_MIN) < tiny < ... < -inf < NaNs < 0. (& and |, as && and || would bring in branches.)
template <std::int16_t kMinusInf>
struct Float16 {
  using Value = std::int16_t;
  static Value relu(Value v) { return ((v > INT16_MIN) & (v <= kMinusInf)) ? Value{0} : v; }
  static Value relu_backward(Value grad, Value result) {
    return ((result == 0) | (result <= kMinusInf)) ? Value{0} : grad;
  }
};

// The loops are functions of their own because their pointers must be locals: int8 stores may alias anything, so if the
// pointers were read through a closure, they would be read again after each store.
//
// `omp simd` says that no iteration depends on another. That holds also if `out` is an input, where the compiler's own
// check for overlap would choose the scalar loop.

template <class DType, class T = typename DType::Value>
void relu_loop(const T* x, T* out, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    out[i] = DType::relu(x[i]);
  }
}

template <class DType, class T = typename DType::Value>
void relu_backward_loop(const T* grad, const T* result, T* out, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    out[i] = DType::relu_backward(grad[i], result[i]);
  }
}

// Calls body.operator()<type as above>().
template <class Body>
void dispatch_floating(ScalarType dtype, const Body& body) {
  switch (dtype) {
    case ScalarType::Double: return body.template operator()<Plain<double>>();
    case ScalarType::Float: return body.template operator()<Plain<float>>();
    case ScalarType::Half: return body.template operator()<Float16<static_cast<std::int16_t>(0xfc00)>>();
    case ScalarType::BFloat16: return body.template operator()<Float16<static_cast<std::int16_t>(0xff80)>>();
    default: STD_TORCH_CHECK(false, "relu: x has unsupported dtype ", torch::headeronly::toString(dtype));
  }
}

template <class Body>
void dispatch(ScalarType dtype, const Body& body) {
  switch (dtype) {
    case ScalarType::Long: return body.template operator()<Plain<std::int64_t>>();
    case ScalarType::Int: return body.template operator()<Plain<std::int32_t>>();
    case ScalarType::Short: return body.template operator()<Plain<std::int16_t>>();
    case ScalarType::Char: return body.template operator()<Plain<std::int8_t>>();
    case ScalarType::Byte: return body.template operator()<Plain<std::uint8_t>>();
    default: return dispatch_floating(dtype, body);
  }
}

// Runs body(begin, end) on torch's own threads. A task below this size costs more to hand over than to do.
template <class Body>
void parallel(const Tensor& out, const Body& body) {
  constexpr int64_t kTaskBytes = 128 * 1024;
  const auto grain = kTaskBytes / static_cast<int64_t>(out.element_size());
  torch::stable::parallel_for(0, out.numel(), grain, body);
}

}  // namespace

void relu::forward(const Tensor& x, const Tensor& out) {
  dispatch(x.scalar_type(), [&]<class DType>() {
    using T = typename DType::Value;
    const T* x_data = static_cast<const T*>(x.const_data_ptr());
    T* out_data = static_cast<T*>(out.mutable_data_ptr());
    parallel(out, [=](int64_t begin, int64_t end) { relu_loop<DType>(x_data + begin, out_data + begin, end - begin); });
  });
}

void relu::backward(const Tensor& grad, const Tensor& result, const Tensor& out) {
  dispatch_floating(grad.scalar_type(), [&]<class DType>() {
    using T = typename DType::Value;
    const T* grad_data = static_cast<const T*>(grad.const_data_ptr());
    const T* result_data = static_cast<const T*>(result.const_data_ptr());
    T* out_data = static_cast<T*>(out.mutable_data_ptr());
    parallel(out, [=](int64_t begin, int64_t end) {
      relu_backward_loop<DType>(grad_data + begin, result_data + begin, out_data + begin, end - begin);
    });
  });
}
