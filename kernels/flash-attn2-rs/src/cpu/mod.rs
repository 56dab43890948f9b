//! The CPU: [`isa`] chooses the code for this one, and [`attention`] is the algorithm, written once over the operations of
//! [`simd`].

mod attention;
mod element;
mod isa;
mod simd;
mod tensor;

use kernelyard_rs::tvm_ffi::{Array, Error, String, Tensor, VALUE_ERROR};
use kernelyard_rs::{Arg, Element, Result, TensorView, View, dispatch_float, export, parallel};

use crate::call::Call;
use crate::cpu::attention::Problem;
use crate::cpu::isa::{Isa, Solve};
use crate::cpu::tensor::Typed;

/// Multiply-adds that the calling thread does before others would have woken up.
const SERIAL: usize = 1_000_000;

export!(device_type());
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

/// The type of the device that this build is for, as in PyTorch.
fn device_type() -> Result<String> {
    Ok("cpu".into())
}

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
    let call =
        Call::new(q, k, v, alibi_slopes, softmax_scale, is_causal, window_size_left, window_size_right, softcap)?;
    let isa = isa(&simd)?;
    if let Ok(threads @ 1..) = usize::try_from(num_threads) {
        parallel::set_threads(threads);
    }
    dispatch_float!(call.float, T => run::<T>(&call, isa))
}

fn run<T: Solve>(call: &Call, isa: Isa) -> Result<Array<Tensor>> {
    let problem = problem(call)?;
    let (q, k, v) = (rows(&call.q)?, rows(&call.k)?, rows(&call.v)?);
    let results = call.results::<T>()?;
    let (out, lse) = (results.out(), results.lse());
    if out.numel() > 0 {
        // SAFETY: both are new, and used by nothing else until they are returned.
        let tensors = unsafe { Typed { q, k, v, out: out.view_mut()?, lse: lse.view_mut()? } };
        let work = [out.numel(), call.window.keys, 2].into_iter().fold(1, usize::saturating_mul);
        T::solve(&problem, &tensors, isa, if work < SERIAL { 1 } else { parallel::threads() });
    }
    Ok(results.into_array())
}

fn problem(call: &Call) -> Result<Problem> {
    let &Call { batch, heads, key_heads, dim, window, .. } = call;
    let slopes = call.slopes.map(|slopes| slopes_of(slopes, batch, heads)).transpose()?;
    Ok(Problem { batch, heads, key_heads, dim, window, slopes, scale: call.scale as f32, softcap: call.softcap as f32 })
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
        let view = tensor.view::<f32, 1>()?;
        Ok(all.map(|(_, head)| view.at([head])).collect())
    } else {
        let view = tensor.view::<f32, 2>()?;
        Ok(all.map(|(row, head)| view.at([row, head])).collect())
    }
}
