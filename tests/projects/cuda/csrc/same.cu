#include <stdexcept>

#include "near.cuh"

#if defined(NOT_FOR_NVCC) || !defined(CUDA_KERNEL)
#error "the flags of another language, or none"
#endif

namespace {
__global__ void local(float* x) { x[threadIdx.x] += 1; }
}  // namespace

void near(float* x) {
  scale<<<1, 32>>>(x);
  local<<<1, 32>>>(x);
  if (cudaGetLastError() != cudaSuccess) {
    throw std::runtime_error(__FILE__);
  }
}
