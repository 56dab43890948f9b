#pragma once

#include <torch/csrc/stable/tensor.h>

// What a backend provides. torch_binding.cpp has checked the arguments: x, y and their gradients are contiguous matrices
// of rows × columns, neither of which is 0, in one dtype (float32, float16 or bfloat16) and on one device, and the
// weight has one value of that dtype for each column. Sums are taken in float32.
namespace rms_norm {

// y = x * rstd * weight, where rstd = 1 / sqrt(mean(x^2) + eps) of the row; rstd is float32, one for each row.
void forward(
    const torch::stable::Tensor& x, const torch::stable::Tensor& weight, double eps, const torch::stable::Tensor& y,
    const torch::stable::Tensor& rstd);

// The gradients of x, and of the weight (float32, zero when this is called).
void backward(
    const torch::stable::Tensor& grad, const torch::stable::Tensor& x, const torch::stable::Tensor& weight,
    const torch::stable::Tensor& rstd, const torch::stable::Tensor& x_grad, const torch::stable::Tensor& weight_grad);

}  // namespace rms_norm
