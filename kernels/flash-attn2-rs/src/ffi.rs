//! What tvm-ffi sees. Arguments are checked here, and nowhere else.

use half::{bf16, f16};
use tvm_ffi::function_internal::AsPackedCallable;
use tvm_ffi::{
    Any, AnyView, Array, DLDataType, DLDataTypeCode, DLDataTypeExt, DLDevice, DLDeviceType, Error, RUNTIME_ERROR,
    Result, TYPE_ERROR, Tensor, TensorView, VALUE_ERROR, ensure, tvm_ffi_dll_export_typed_func,
};

use crate::attention::{DIM_STEP, MAX_DIM, Problem};
use crate::element::Element;
use crate::isa::{Isa, Solve};
use crate::tensor::{Heads, Sink, Typed};
use crate::window::Window;

tvm_ffi_dll_export_typed_func!(fwd, Fwd);
tvm_ffi_dll_export_typed_func!(simd_paths, simd_paths);

/// Multiply-adds that one thread does faster than several, for waking them takes some 20 µs.
const SERIAL: usize = 1_000_000;

/// The instruction sets that this CPU has, the fastest last.
fn simd_paths() -> Result<Array<tvm_ffi::String>> {
    Ok(Array::new(Isa::detect().into_iter().map(|isa| isa.name().into()).collect()))
}

/// `fwd(q, k, v, alibi_slopes, softmax_scale, is_causal, window_size_left, window_size_right, softcap, num_threads,
/// simd)`, which returns `[out, lse]`. These are more arguments than tvm-ffi's typed functions take.
struct Fwd;

impl AsPackedCallable<(), ()> for Fwd {
    fn call_packed(&self, arguments: &[AnyView]) -> Result<Any> {
        let &[q, k, v, slopes, scale, causal, left, right, softcap, threads, simd] = arguments else {
            return Err(Error::new(TYPE_ERROR, &format!("fwd takes 11 arguments, not {}", arguments.len()), ""));
        };
        let call = Call {
            q: argument("q", q)?,
            k: argument("k", k)?,
            v: argument("v", v)?,
            slopes: argument("alibi_slopes", slopes)?,
            scale: argument("softmax_scale", scale)?,
            causal: argument("is_causal", causal)?,
            left: argument("window_size_left", left)?,
            right: argument("window_size_right", right)?,
            softcap: argument("softcap", softcap)?,
            threads: argument("num_threads", threads)?,
            isa: isa(&argument::<tvm_ffi::String>("simd", simd)?)?,
        };
        let dtype = call.q.dtype();
        if dtype == f32::DTYPE {
            call.run::<f32>()
        } else if dtype == f16::DTYPE {
            call.run::<f16>()
        } else if dtype == bf16::DTYPE {
            call.run::<bf16>()
        } else {
            let message = format!("q must be float32, float16 or bfloat16, not {}", dtype.to_string());
            Err(Error::new(TYPE_ERROR, &message, ""))
        }
    }
}

fn argument<'a, A: TryFrom<AnyView<'a>, Error = Error>>(name: &str, value: AnyView<'a>) -> Result<A> {
    A::try_from(value).map_err(|error| Error::new(error.kind(), &format!("{name}: {}", error.message()), ""))
}

/// The instruction set of that name, or the fastest.
fn isa(name: &str) -> Result<Isa> {
    let all = Isa::detect();
    let found = all.iter().rfind(|isa| name == "auto" || name == isa.name());
    found.copied().ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|isa| isa.name()).collect();
        Error::new(VALUE_ERROR, &format!("simd must be auto or one of {}, not {name}", names.join(", ")), "")
    })
}

/// An element type, as DLPack calls it.
trait Dtype {
    const DTYPE: DLDataType;
}

const fn dtype(code: DLDataTypeCode, bits: u8) -> DLDataType {
    DLDataType { code: code as u8, bits, lanes: 1 }
}

impl Dtype for f32 {
    const DTYPE: DLDataType = dtype(DLDataTypeCode::kDLFloat, 32);
}

impl Dtype for f16 {
    const DTYPE: DLDataType = dtype(DLDataTypeCode::kDLFloat, 16);
}

impl Dtype for bf16 {
    const DTYPE: DLDataType = dtype(DLDataTypeCode::kDLBfloat, 16);
}

/// The arguments of one call, each of the right type.
struct Call {
    q: TensorView,
    k: TensorView,
    v: TensorView,
    slopes: Option<TensorView>,
    scale: Option<f64>,
    causal: bool,
    left: i64,
    right: i64,
    softcap: f64,
    threads: i64,
    isa: Isa,
}

impl Call {
    fn run<T: Solve + Dtype>(&self) -> Result<Any> {
        let (q, k, v) = (heads::<T>("q", &self.q)?, heads::<T>("k", &self.k)?, heads::<T>("v", &self.v)?);
        let [batch, queries, query_heads, dim] = q.shape();
        let [_, keys, key_heads, _] = k.shape();
        ensure!(
            (DIM_STEP..=MAX_DIM).contains(&dim) && dim.is_multiple_of(DIM_STEP),
            VALUE_ERROR,
            "q: headdim must be a multiple of {DIM_STEP} up to {MAX_DIM}, not {dim}"
        );
        let expected = [batch, keys, key_heads, dim];
        ensure!(k.shape() == expected, VALUE_ERROR, "k has shape {:?}, but q has {:?}", k.shape(), q.shape());
        ensure!(v.shape() == expected, VALUE_ERROR, "v has shape {:?}, but k has {:?}", v.shape(), k.shape());
        ensure!(
            query_heads == 0 || (key_heads > 0 && query_heads.is_multiple_of(key_heads)),
            VALUE_ERROR,
            "k has {key_heads} heads, which must divide the {query_heads} of q"
        );
        ensure!(self.softcap >= 0.0, VALUE_ERROR, "softcap must be 0 (none) or positive, not {}", self.softcap);
        let slopes = self.slopes.as_ref().map(|slopes| alibi_slopes(slopes, batch, query_heads)).transpose()?;

        let shape = |sizes: &[usize]| sizes.iter().map(|&size| size as i64).collect::<Vec<_>>();
        let cpu = DLDevice::new(DLDeviceType::kDLCPU, 0);
        let out = Tensor::from_env_alloc(&shape(&q.shape()), T::DTYPE, cpu)?;
        let lse = Tensor::from_env_alloc(&shape(&[batch, query_heads, queries]), f32::DTYPE, cpu)?;
        if out.numel() > 0 {
            // SAFETY: out and lse are new, contiguous, and used by nobody else until the end.
            let (out, lse) = unsafe { (sink::<T>(&out), sink::<f32>(&lse)) };
            let problem = Problem {
                batch,
                heads: query_heads,
                key_heads,
                dim,
                window: Window::new(queries, keys, self.causal, self.left, self.right),
                slopes,
                scale: self.scale.unwrap_or(1.0 / (dim as f64).sqrt()) as f32,
                softcap: self.softcap as f32,
                lse,
            };
            let work = [batch, query_heads, queries, keys, 2 * dim].into_iter().fold(1, usize::saturating_mul);
            T::solve(&problem, &Typed { q, k, v, out }, self.isa, self.threads(work))
                .map_err(|error| Error::new(RUNTIME_ERROR, &format!("cannot start threads: {error}"), ""))?;
        }
        Ok(Array::new(vec![out, lse]).into())
    }

    fn threads(&self, work: usize) -> usize {
        match usize::try_from(self.threads) {
            _ if work < SERIAL => 1,
            Ok(threads) if threads > 0 => threads,
            _ => rayon::max_num_threads().min(std::thread::available_parallelism().map_or(1, Into::into)),
        }
    }
}

/// The CPU tensor's memory, which its shape and strides say the extent of.
///
/// The slice must not outlive the call, in which the caller keeps the tensor alive and unchanged.
fn memory<'a, T: Dtype>(name: &str, tensor: &TensorView) -> Result<(&'a [T], Vec<usize>, Vec<usize>)> {
    let found = tensor.dtype();
    ensure!(found == T::DTYPE, TYPE_ERROR, "{name} must be {}, not {}", T::DTYPE.to_string(), found.to_string());
    let device = tensor.device().device_type;
    ensure!(
        matches!(device, DLDeviceType::kDLCPU | DLDeviceType::kDLCUDAHost),
        VALUE_ERROR,
        "{name} must be on the CPU"
    );
    let sizes = |numbers: &[i64]| numbers.iter().map(|&n| usize::try_from(n).ok()).collect::<Option<Vec<_>>>();
    let invalid = || Error::new(VALUE_ERROR, &format!("{name} has an impossible shape or strides"), "");
    let shape = sizes(tensor.shape()).ok_or_else(invalid)?;
    let strides = sizes(tensor.strides()).ok_or_else(invalid)?;
    if shape.contains(&0) {
        return Ok((&[], shape, strides));
    }
    let last = shape
        .iter()
        .zip(&strides)
        .try_fold(0_usize, |last, (size, stride)| last.checked_add(stride.checked_mul(size - 1)?));
    let extent = last.and_then(|last| last.checked_add(1)).ok_or_else(invalid)?;
    ensure!(extent <= isize::MAX as usize / size_of::<T>(), VALUE_ERROR, "{name} is too large");
    // SAFETY: the caller's DLTensor is valid during the call, and it is within data that the offset leads to.
    let start = unsafe {
        let offset = (*tensor.as_raw()).byte_offset as usize;
        tensor.data_ptr().cast::<u8>().add(offset).cast::<T>()
    };
    ensure!(!start.is_null() && start.is_aligned(), VALUE_ERROR, "{name} has no data, or it is not aligned");
    // SAFETY: these elements, of a type without invalid values, are what a tensor of that shape and strides consists of.
    Ok((unsafe { std::slice::from_raw_parts(start, extent) }, shape, strides))
}

/// # Safety
/// The tensor must be contiguous, of type `T`, outlive the sink, and be used by nobody else.
unsafe fn sink<'a, T: Copy>(tensor: &Tensor) -> Sink<'a, T> {
    // SAFETY: it is as the caller says.
    unsafe { Sink::new(tensor.data_ptr().cast_mut().cast::<T>(), tensor.numel()) }
}

fn heads<'a, T: Dtype + Element>(name: &str, tensor: &TensorView) -> Result<Heads<'a, T>> {
    ensure!(
        tensor.ndim() == 4,
        VALUE_ERROR,
        "{name} must have 4 dimensions [batch, seqlen, heads, headdim], not {}",
        tensor.ndim()
    );
    let (data, shape, strides) = memory(name, tensor)?;
    let shape = [shape[0], shape[1], shape[2], shape[3]];
    ensure!(strides[3] == 1 || data.is_empty(), VALUE_ERROR, "{name} must be contiguous in its last dimension");
    Ok(Heads::new(data, shape, [strides[0], strides[1], strides[2]]))
}

/// Slopes `[heads]` or `[batch, heads]`, as `[batch, heads]`.
fn alibi_slopes(tensor: &TensorView, batch: usize, heads: usize) -> Result<Vec<f32>> {
    let (data, shape, strides) = memory::<f32>("alibi_slopes", tensor)?;
    ensure!(
        shape == [heads] || shape == [batch, heads],
        VALUE_ERROR,
        "alibi_slopes must have shape [{heads}] or [{batch}, {heads}], not {shape:?}"
    );
    let (rows, columns) = if shape.len() == 1 { (0, strides[0]) } else { (strides[0], strides[1]) };
    let pairs = (0..batch).flat_map(|row| (0..heads).map(move |head| (row, head)));
    Ok(pairs.map(|(row, head)| data[row * rows + head * columns]).collect())
}
