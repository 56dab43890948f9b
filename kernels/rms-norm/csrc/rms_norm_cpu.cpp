// Bound by memory bandwidth in float32 and bfloat16: a row fits the L1 or L2 cache, so main memory sees each element
// once. float16 is bound by its conversion, which baseline x86 does in software.

#include "rms_norm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// Rows that one task takes: enough work to be worth handing over.
constexpr int64_t kTaskElements = 16 * 1024;
// Columns of the weight's gradient that one task sums over all rows: whole cache lines, so that no two tasks share one.
constexpr int64_t kTaskColumns = 256;

float to_float(float v) { return v; }
float to_float(c10::Half v) { return static_cast<float>(v); }
// Its bits are the upper half of a float's, which compilers vectorise.
float to_float(c10::BFloat16 v) { return std::bit_cast<float>(static_cast<uint32_t>(v.x) << 16); }

template <class T>
void forward_row(const T* x, const T* weight, float eps, T* y, float* rstd, int64_t columns) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < columns; ++i) {
    const float v = to_float(x[i]);
    sum += v * v;
  }
  const float scale = 1 / std::sqrt(sum / static_cast<float>(columns) + eps);
  *rstd = scale;
#pragma omp simd
  for (int64_t i = 0; i < columns; ++i) {
    y[i] = static_cast<T>(to_float(x[i]) * scale * to_float(weight[i]));
  }
}

// With n = x * rstd and g = grad * weight, the gradient of x is rstd * (g - n * mean(g * n)).
template <class T>
void backward_row(const T* grad, const T* x, const T* weight, float rstd, T* x_grad, int64_t columns) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < columns; ++i) {
    sum += to_float(grad[i]) * to_float(weight[i]) * to_float(x[i]);
  }
  const float mean = sum * rstd / static_cast<float>(columns);
#pragma omp simd
  for (int64_t i = 0; i < columns; ++i) {
    x_grad[i] = static_cast<T>(rstd * (to_float(grad[i]) * to_float(weight[i]) - to_float(x[i]) * rstd * mean));
  }
}

template <class T>
void weight_columns(
    const T* grad, const T* x, const float* rstd, float* weight_grad, int64_t rows, int64_t stride, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row) {
    const T* grad_row = grad + row * stride;
    const T* x_row = x + row * stride;
    const float scale = rstd[row];
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) {
      weight_grad[i] += to_float(grad_row[i]) * to_float(x_row[i]) * scale;
    }
  }
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
    case ScalarType::Half: return body.template operator()<c10::Half>();
    default: return body.template operator()<c10::BFloat16>();
  }
}

}  // namespace

void rms_norm::forward(const Tensor& x, const Tensor& weight, double eps, const Tensor& y, const Tensor& rstd) {
  const int64_t rows = x.size(0), columns = x.size(1);
  dispatch(x.scalar_type(), [&]<class T>() {
    const T *x_data = in<T>(x), *weight_data = in<T>(weight);
    T* y_data = out<T>(y);
    float* rstd_data = out<float>(rstd);
    const int64_t grain = std::max<int64_t>(1, kTaskElements / columns);
    torch::stable::parallel_for(0, rows, grain, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        forward_row(
            x_data + row * columns, weight_data, static_cast<float>(eps), y_data + row * columns, rstd_data + row,
            columns);
      }
    });
  });
}

void rms_norm::backward(
    const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& rstd, const Tensor& x_grad,
    const Tensor& weight_grad) {
  const int64_t rows = x.size(0), columns = x.size(1);
  dispatch(x.scalar_type(), [&]<class T>() {
    const T *grad_data = in<T>(grad), *x_data = in<T>(x), *weight_data = in<T>(weight);
    const float* rstd_data = in<float>(rstd);
    T* x_grad_data = out<T>(x_grad);
    float* weight_grad_data = out<float>(weight_grad);
    const int64_t grain = std::max<int64_t>(1, kTaskElements / columns);
    torch::stable::parallel_for(0, rows, grain, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * columns;
        backward_row(grad_data + at, x_data + at, weight_data, rstd_data[row], x_grad_data + at, columns);
      }
    });
    const int64_t blocks = (columns + kTaskColumns - 1) / kTaskColumns;
    torch::stable::parallel_for(0, blocks, 1, [=](int64_t begin, int64_t end) {
      const int64_t at = begin * kTaskColumns;
      weight_columns(
          grad_data + at, x_data + at, rstd_data, weight_grad_data + at, rows, columns,
          std::min(columns, end * kTaskColumns) - at);
    });
  });
}
