#include <torch/all.h>
#include <torch/library.h>

#include "../torch-ext/registration.h"

torch::Tensor plain(const torch::Tensor& x);
torch::Tensor fast(const torch::Tensor& x);

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("plain(Tensor x) -> Tensor");
  ops.def("fast(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
  ops.impl("plain", plain);
  ops.impl("fast", fast);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
