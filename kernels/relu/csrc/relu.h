#pragma once

#include <torch/csrc/stable/tensor.h>

// What a backend provides: plain elementwise loops. torch_binding.cpp has already checked the arguments and arranged
// that all tensors of a call share dtype and device and lay out their elements in the same order without gaps, so that
// element i of each one is at data_ptr()[i]. `out` may be one of the inputs, but never overlaps one partially.
namespace relu {

// out = max(x, 0); NaN stays NaN.
void forward(const torch::stable::Tensor& x, const torch::stable::Tensor& out);

// out = grad where result > 0 or result is NaN, else 0.
void backward(
    const torch::stable::Tensor& grad, const torch::stable::Tensor& result, const torch::stable::Tensor& out);

}  // namespace relu
