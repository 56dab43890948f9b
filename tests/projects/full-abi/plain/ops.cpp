#include <torch/all.h>

#if __has_include(<scale.h>)
#error "the other component's include folder"
#endif

torch::Tensor plain(const torch::Tensor& x) {
  TORCH_CHECK_VALUE(x.numel() > 0, NAME, ": x is empty");
  return x * SCALE;
}
