// The exported functions, and all checks of their arguments.

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <stdexcept>
#include <string_view>

#if defined(CUDA_KERNEL)
#include <tvm/ffi/extra/c_env_api.h>
#endif

#include "../csrc/silu_and_mul.h"

namespace {

using silu_and_mul::DType;
using silu_and_mul::Problem;
using tvm::ffi::TensorView;

constexpr DLDeviceType kDeviceType =
#if defined(CUDA_KERNEL)
    kDLCUDA;
#else
    kDLCPU;
#endif

DType check_dtype(DLDataType dtype) {
  if (dtype.lanes == 1 && dtype.code == kDLFloat && dtype.bits == 32) return DType::kFloat32;
  if (dtype.lanes == 1 && dtype.code == kDLFloat && dtype.bits == 16) return DType::kFloat16;
  if (dtype.lanes == 1 && dtype.code == kDLBfloat && dtype.bits == 16) return DType::kBFloat16;
  TVM_FFI_THROW(TypeError) << "silu_and_mul: x must have dtype float32, float16 or bfloat16";
  TVM_FFI_UNREACHABLE();
}

// Reads the tensor as a matrix, and returns the distance of its rows in elements; 0 if there is only one.
int64_t check_rows(const char* name, const TensorView& tensor) {
  if (tensor.size(-1) > 1 && tensor.stride(-1) != 1) {
    TVM_FFI_THROW(ValueError) << "silu_and_mul: the last dimension of " << name << " must be contiguous";
  }
  int64_t row_stride = 0;
  int64_t rows = 1;
  for (int32_t d = tensor.ndim() - 2; d >= 0; --d) {
    if (tensor.size(d) == 1) continue;
    if (rows == 1) {
      row_stride = tensor.stride(d);
    } else if (tensor.stride(d) != row_stride * rows) {
      TVM_FFI_THROW(ValueError) << "silu_and_mul: the rows of " << name << " must be at equal distances";
    }
    rows *= tensor.size(d);
  }
  return row_stride;
}

// Two matrices overlap harmlessly if each element of `out` is in the place of the input element that it is made from.
void check_overlap(const Problem& problem, int64_t element_size) {
  const auto begin = [](const void* p) { return reinterpret_cast<intptr_t>(p); };
  const int64_t in_size = ((problem.rows - 1) * problem.in_stride + 2 * problem.columns) * element_size;
  const int64_t out_size = ((problem.rows - 1) * problem.out_stride + problem.columns) * element_size;
  const intptr_t distance = begin(problem.out) - begin(problem.gate);
  if (distance >= in_size || -distance >= out_size) {
    return;
  }
  if (problem.rows == 1 || problem.in_stride == problem.out_stride) {
    if (problem.out == problem.gate || problem.out == problem.up) {
      return;
    }
    // Side by side in the rows of one larger matrix.
    const int64_t pitch = problem.in_stride * element_size;
    if (problem.rows > 1 && pitch > 0) {
      const int64_t column = (distance % pitch + pitch) % pitch;
      if (column >= 2 * problem.columns * element_size && column + problem.columns * element_size <= pitch) {
        return;
      }
    }
  }
  TVM_FFI_THROW(ValueError) << "silu_and_mul: out overlaps x, other than by being exactly one half of it";
}

Problem check(const TensorView& x, const TensorView& out) {
  if (x.device().device_type != kDeviceType) {
    TVM_FFI_THROW(ValueError) << "silu_and_mul: x must be on a " << (kDeviceType == kDLCPU ? "CPU" : "CUDA")
                              << " device; this is a build for that backend";
  }
  if (out.device().device_type != x.device().device_type || out.device().device_id != x.device().device_id) {
    TVM_FFI_THROW(ValueError) << "silu_and_mul: out must be on the device of x";
  }
  const DType dtype = check_dtype(x.dtype());
  if (out.dtype() != x.dtype()) {
    TVM_FFI_THROW(TypeError) << "silu_and_mul: out must have the dtype of x";
  }
  if (x.ndim() == 0 || x.size(-1) % 2 != 0) {
    TVM_FFI_THROW(ValueError) << "silu_and_mul: the last dimension of x must have an even size, but x has shape "
                              << x.shape();
  }
  bool same_shape = out.ndim() == x.ndim() && out.size(-1) == x.size(-1) / 2;
  int64_t rows = 1;
  for (int32_t d = 0; d < x.ndim() - 1; ++d) {
    same_shape = same_shape && out.size(d) == x.size(d);
    rows *= x.size(d);
  }
  if (!same_shape) {
    TVM_FFI_THROW(ValueError) << "silu_and_mul: out has shape " << out.shape() << ", but x has shape " << x.shape()
                              << ", whose last dimension must be twice that of out";
  }

  const int64_t columns = out.size(-1);
  const int64_t element_size = x.dtype().bits / 8;
  const char* gate = static_cast<const char*>(x.data_ptr()) + x.byte_offset();
  const Problem problem{
      .gate = gate,
      .up = gate + columns * element_size,
      .out = static_cast<char*>(out.data_ptr()) + out.byte_offset(),
      .rows = rows,
      .columns = columns,
      .in_stride = rows * columns == 0 ? 0 : check_rows("x", x),
      .out_stride = rows * columns == 0 ? 0 : check_rows("out", out),
      .dtype = dtype,
  };
  if (rows * columns != 0) {
    if (rows > 1 && problem.out_stride < columns) {
      TVM_FFI_THROW(ValueError) << "silu_and_mul: the rows of out overlap each other (it is an expanded tensor)";
    }
    check_overlap(problem, element_size);
  }
  return problem;
}

#if defined(CUDA_KERNEL)

void silu_and_mul_cuda(TensorView x, TensorView out) {
  const Problem problem = check(x, out);
  const int device = x.device().device_id;
  // Torch's current stream: tvm-ffi sets it for a call with torch tensors.
  void* stream = TVMFFIEnvGetStream(kDLCUDA, device);
  if (const char* error = silu_and_mul::run_cuda(problem, device, stream)) {
    TVM_FFI_THROW(RuntimeError) << "silu_and_mul: " << error;
  }
}

#else

void silu_and_mul_cpu(TensorView x, TensorView out, int64_t threads, tvm::ffi::String isa) {
  const Problem problem = check(x, out);
  try {
    silu_and_mul::run_cpu(problem, threads, std::string_view(isa.data(), isa.size()));
  } catch (const std::out_of_range&) {
    TVM_FFI_THROW(ValueError) << "silu_and_mul: isa is '" << isa << "', which this CPU or this build does not have";
  }
}

tvm::ffi::Array<tvm::ffi::String> cpu_isas() {
  tvm::ffi::Array<tvm::ffi::String> names;
  for (size_t i = 0; const char* name = silu_and_mul::cpu_isa(i); ++i) {
    names.push_back(name);
  }
  return names;
}

#endif

}  // namespace

#if defined(CUDA_KERNEL)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(silu_and_mul_cuda, silu_and_mul_cuda);
#else
TVM_FFI_DLL_EXPORT_TYPED_FUNC(silu_and_mul_cpu, silu_and_mul_cpu);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(cpu_isas, cpu_isas);
#endif
