// Named like the other source, on purpose.
namespace {
__global__ void local(float* x) { x[threadIdx.x] -= 1; }
}  // namespace

void far(float* x) { local<<<1, 32>>>(x); }
