// The operators: checks, allocation and strides. Everything that is the same for all backends lives here.

#include <cstdint>
#include <string>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include "registration.h"
#include "relu.h"

namespace {

using torch::headeronly::IntHeaderOnlyArrayRef;
using torch::stable::Tensor;

std::string to_string(IntHeaderOnlyArrayRef values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  }
  return text + "]";
}

void check_matches(const char* name, const Tensor& tensor, const char* other_name, const Tensor& other) {
  STD_TORCH_CHECK(
      tensor.device() == other.device(), "relu: ", name, " and ", other_name, " must be on the same device");
  STD_TORCH_CHECK(
      tensor.scalar_type() == other.scalar_type(), "relu: ", name, " has dtype ",
      torch::headeronly::toString(tensor.scalar_type()), ", but ", other_name, " has dtype ",
      torch::headeronly::toString(other.scalar_type()));
  STD_TORCH_CHECK(
      tensor.sizes() == other.sizes(), "relu: ", name, " has shape ", to_string(tensor.sizes()), ", but ", other_name,
      " has shape ", to_string(other.sizes()));
}

// Whether equal indices are at equal offsets; the stride of a dimension of size 1 is never used.
bool same_layout(const Tensor& a, const Tensor& b) {
  for (int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) {
      return false;
    }
  }
  return true;
}

// Whether the tensor covers a stretch of memory without gaps or repetition. empty_like keeps the strides of exactly
// such tensors (contiguous ones, and permutations of those), and makes dense ones for all others.
bool is_dense(const Tensor& tensor) {
  return tensor.is_contiguous() || same_layout(tensor, torch::stable::empty_like(tensor));
}

bool overlaps_partially(const Tensor& a, const Tensor& b) {
  const auto begin_a = reinterpret_cast<std::uintptr_t>(a.data_ptr());
  const auto begin_b = reinterpret_cast<std::uintptr_t>(b.data_ptr());
  const auto size = static_cast<std::uintptr_t>(a.numel()) * a.element_size();
  return begin_a != begin_b && begin_a < begin_b + size && begin_b < begin_a + size;
}

Tensor relu_forward(const Tensor& x) {
  Tensor out = torch::stable::empty_like(x);
  if (same_layout(x, out)) {
    relu::forward(x, out);
  } else {
    // Torch's copy handles every strided layout; what remains is in place, so no second buffer is needed.
    torch::stable::copy_(out, x);
    relu::forward(out, out);
  }
  return out;
}

void relu_out(const Tensor& x, Tensor out) {
  check_matches("out", out, "x", x);
  for (int64_t d = 0; d < out.dim(); ++d) {
    STD_TORCH_CHECK(
        out.stride(d) != 0 || out.size(d) <= 1,
        "relu: several elements of out share one memory location (it is an expanded tensor); pass out.clone()");
  }
  if (same_layout(x, out) && is_dense(out) && !overlaps_partially(x, out)) {
    relu::forward(x, out);
  } else {
    torch::stable::copy_(out, relu_forward(x));
  }
}

Tensor relu_backward(const Tensor& grad, const Tensor& result) {
  check_matches("grad", grad, "result", result);
  Tensor out = torch::stable::empty_like(result);
  Tensor gate = result;
  if (!same_layout(result, out)) {
    gate = torch::stable::empty_like(result);
    torch::stable::copy_(gate, result);
  }
  if (same_layout(grad, out)) {
    relu::backward(grad, gate, out);
  } else {
    // The usual case here: an expanded gradient, such as that of sum().
    torch::stable::copy_(out, grad);
    relu::backward(out, gate, out);
  }
  return out;
}

}  // namespace

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("relu(Tensor x) -> Tensor");
  // Returns nothing: torch.compile can functionalise a custom operator that mutates an argument only if it does not
  // return that argument as well.
  ops.def("relu_out(Tensor x, Tensor(a!) out) -> ()");
  ops.def("relu_backward(Tensor grad, Tensor result) -> Tensor");
}

#if defined(CUDA_KERNEL)
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
#else
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
#endif
  ops.impl("relu", TORCH_BOX(&relu_forward));
  ops.impl("relu_out", TORCH_BOX(&relu_out));
  ops.impl("relu_backward", TORCH_BOX(&relu_backward));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
