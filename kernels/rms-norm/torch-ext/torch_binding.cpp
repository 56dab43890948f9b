// The operators: checks and allocation. Everything that is the same for all backends lives here.

#include <cstdint>
#include <tuple>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include "registration.h"
#include "rms_norm.h"

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

void check(const Tensor& x, const Tensor& weight) {
  const ScalarType dtype = x.scalar_type();
  STD_TORCH_CHECK(
      dtype == ScalarType::Float || dtype == ScalarType::Half || dtype == ScalarType::BFloat16,
      "rms_norm: x has unsupported dtype ", torch::headeronly::toString(dtype));
  STD_TORCH_CHECK(x.dim() > 0, "rms_norm: x must have at least one dimension");
  STD_TORCH_CHECK(weight.device() == x.device(), "rms_norm: weight and x must be on the same device");
  STD_TORCH_CHECK(
      weight.scalar_type() == dtype, "rms_norm: weight has dtype ", torch::headeronly::toString(weight.scalar_type()),
      ", but x has dtype ", torch::headeronly::toString(dtype));
  STD_TORCH_CHECK(
      weight.dim() == 1 && weight.size(0) == x.size(x.dim() - 1),
      "rms_norm: weight must have one value for each element of the last dimension of x, which has ",
      x.size(x.dim() - 1));
}

// The matrix whose rows are normalised, as it is in memory. An empty one has no rows.
Tensor rows_of(const Tensor& tensor) {
  const int64_t columns = tensor.size(tensor.dim() - 1);
  const int64_t rows = columns == 0 ? 0 : tensor.numel() / columns;
  return torch::stable::view(torch::stable::contiguous(tensor), {rows, columns});
}

std::tuple<Tensor, Tensor> rms_norm_forward(const Tensor& x, const Tensor& weight, double eps) {
  check(x, weight);
  const Tensor in = rows_of(x);
  Tensor out = torch::stable::new_empty(x, x.sizes());
  Tensor rstd = torch::stable::new_empty(x, {in.size(0)}, ScalarType::Float);
  if (in.numel() > 0) {
    rms_norm::forward(in, torch::stable::contiguous(weight), eps, rows_of(out), rstd);
  }
  return {out, rstd};
}

std::tuple<Tensor, Tensor> rms_norm_backward(
    const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& rstd) {
  check(x, weight);
  STD_TORCH_CHECK(
      grad.device() == x.device() && grad.scalar_type() == x.scalar_type() && grad.sizes() == x.sizes(),
      "rms_norm: grad must have the shape, dtype and device of x");
  const Tensor in = rows_of(x);
  STD_TORCH_CHECK(
      rstd.device() == x.device() && rstd.scalar_type() == ScalarType::Float && rstd.is_contiguous() &&
          rstd.numel() == in.size(0),
      "rms_norm: rstd must be the one that rms_norm returned for x");
  Tensor x_grad = torch::stable::new_empty(x, x.sizes());
  Tensor weight_grad = torch::stable::new_zeros(weight, weight.sizes(), ScalarType::Float);
  if (in.numel() > 0) {
    rms_norm::backward(
        rows_of(grad), in, torch::stable::contiguous(weight), rstd, rows_of(x_grad), weight_grad);
  }
  return {x_grad, torch::stable::to(weight_grad, weight.scalar_type())};
}

}  // namespace

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("rms_norm(Tensor x, Tensor weight, float eps) -> (Tensor, Tensor)");
  ops.def("rms_norm_backward(Tensor grad, Tensor x, Tensor weight, Tensor rstd) -> (Tensor, Tensor)");
}

#if defined(CUDA_KERNEL)
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
#else
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
#endif
  ops.impl("rms_norm", TORCH_BOX(&rms_norm_forward));
  ops.impl("rms_norm_backward", TORCH_BOX(&rms_norm_backward));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
