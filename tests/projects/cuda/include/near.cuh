#pragma once

template <class T>
__global__ void scale(T* x) {
  x[threadIdx.x] *= FACTOR;
}
