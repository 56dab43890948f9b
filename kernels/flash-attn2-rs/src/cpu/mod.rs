//! The functions that Python calls. Arguments are checked here, and nowhere else.

use kernelyard_rs::tvm_ffi::{Array, DLDevice, DLDeviceType, Error, String, Tensor, VALUE_ERROR};
use kernelyard_rs::{Arg, Element, Result, TensorView, View, dispatch_float, export, parallel};

use crate::attention::{DIM_STEP, MAX_DIM, Problem};
use crate::isa::{Isa, Solve};
use crate::tensor::Typed;
use crate::window::Window;

/// Multiply-adds that the calling thread does before others would have woken up.
const SERIAL: usize = 1_000_000;

export!(simd_paths());
export!(fwd(
    q,
    k,
    v,
    alibi_slopes,
    softmax_scale,
    is_causal,
    window_size_left,
    window_size_right,
    softcap,
    num_threads,
    simd
));

/// The instruction sets that this CPU has, the fastest last.
fn simd_paths() -> Result<Array<String>> {
    Ok(Array::new(Isa::detect().into_iter().map(|isa| isa.name().into()).collect()))
}

/// Returns `[out, lse]`. The first nine arguments are those of the reference kernel; `num_threads` is a number or 0, and
/// `simd` one of [`simd_paths`] or "auto".
#[expect(clippy::too_many_arguments)]
fn fwd(
    q: TensorView,
    k: TensorView,
    v: TensorView,
    alibi_slopes: Option<TensorView>,
    softmax_scale: Option<f64>,
    is_causal: bool,
    window_size_left: i64,
    window_size_right: i64,
    softcap: f64,
    num_threads: i64,
    simd: String,
) -> Result<Array<Tensor>> {
    let (q, k, v) = (Arg::new("q", q), Arg::new("k", k), Arg::new("v", v));
    let float = q.float()?;
    let [batch, queries, heads, dim] = q.dims()?;
    let [_, keys, key_heads, _] = k.dims()?;
    for tensor in [k, v] {
        tensor.same_dtype(&q)?.has_shape(&[batch, keys, key_heads, dim])?;
    }
    if dim == 0 || dim > MAX_DIM || !dim.is_multiple_of(DIM_STEP) {
        let what = format!("has headdim {dim}; must be a multiple of {DIM_STEP} up to {MAX_DIM}");
        return Err(q.error(VALUE_ERROR, &what));
    }
    if heads > 0 && (key_heads == 0 || !heads.is_multiple_of(key_heads)) {
        return Err(k.error(VALUE_ERROR, &format!("has {key_heads} heads; must divide the {heads} of q")));
    }
    if softcap.is_nan() || softcap < 0.0 {
        return Err(Error::new(VALUE_ERROR, &format!("softcap: is {softcap}; must be positive, or 0 for none"), ""));
    }
    let problem = Problem {
        batch,
        heads,
        key_heads,
        dim,
        window: Window::new(queries, keys, is_causal, window_size_left, window_size_right),
        slopes: alibi_slopes.map(|slopes| slopes_of(Arg::new("alibi_slopes", slopes), batch, heads)).transpose()?,
        scale: softmax_scale.unwrap_or(1.0 / (dim as f64).sqrt()) as f32,
        softcap: softcap as f32,
    };
    let isa = isa(&simd)?;
    if let Ok(threads @ 1..) = usize::try_from(num_threads) {
        parallel::set_threads(threads);
    }
    dispatch_float!(float, T => run::<T>(&problem, [q, k, v], isa))
}

fn run<T: Solve>(problem: &Problem, [q, k, v]: [Arg; 3], isa: Isa) -> Result<Array<Tensor>> {
    let [batch, queries, heads, dim] = q.dims()?;
    let out = new::<T>(&[batch, queries, heads, dim])?;
    let lse = new::<f32>(&[batch, heads, queries])?;
    let (out_arg, lse_arg) = (Arg::new("out", (&out).into()), Arg::new("lse", (&lse).into()));
    // SAFETY: both are new, and used by nothing else until they are returned.
    let (out_view, lse_view) = unsafe { (out_arg.view_mut()?, lse_arg.view_mut()?) };
    let tensors = Typed { q: rows(&q)?, k: rows(&k)?, v: rows(&v)?, out: out_view, lse: lse_view };
    if out.numel() > 0 {
        let work = [out.numel(), k.shape()[1] as usize, 2].into_iter().fold(1, usize::saturating_mul);
        T::solve(problem, &tensors, isa, if work < SERIAL { 1 } else { parallel::threads() });
    }
    Ok(Array::new(vec![out, lse]))
}

/// The instruction set of that name.
fn isa(name: &str) -> Result<Isa> {
    let all = Isa::detect();
    all.iter().rfind(|isa| name == "auto" || name == isa.name()).copied().ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|isa| isa.name()).collect();
        Error::new(VALUE_ERROR, &format!("simd: is {name:?}; must be auto, {}", names.join(" or ")), "")
    })
}

/// A view by rows of headdim elements.
fn rows<T: Element>(tensor: &Arg) -> Result<View<'_, T, 4>> {
    let view = tensor.view::<T, 4>()?;
    if view.has_rows() {
        return Ok(view);
    }
    let what = format!("has strides {:?}; the last one must be 1", view.strides());
    Err(tensor.error(VALUE_ERROR, &what))
}

/// Slopes `[heads]` or `[batch, heads]`, as `[batch, heads]`.
fn slopes_of(tensor: Arg, batch: usize, heads: usize) -> Result<Vec<f32>> {
    let all = (0..batch).flat_map(|row| (0..heads).map(move |head| (row, head)));
    if tensor.shape().len() == 1 {
        let view = tensor.has_shape(&[heads])?.view::<f32, 1>()?;
        Ok(all.map(|(_, head)| view.at([head])).collect())
    } else {
        let view = tensor.has_shape(&[batch, heads])?.view::<f32, 2>()?;
        Ok(all.map(|(row, head)| view.at([row, head])).collect())
    }
}

/// A new tensor, from the caller's allocator.
fn new<T: Element>(shape: &[usize]) -> Result<Tensor> {
    let shape: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
    Tensor::from_env_alloc(&shape, T::DTYPE, DLDevice::new(DLDeviceType::kDLCPU, 0))
}
