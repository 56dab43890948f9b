//! CUDA: the device code is a tile program, in the crate in `device`.

use std::f64::consts::LOG2_E;

use kernelyard_cuda::{Device, Launch};
use kernelyard_rs::tvm_ffi::{Array, String, TYPE_ERROR, Tensor, VALUE_ERROR};
use kernelyard_rs::{Arg, Element, FloatType, Result, TensorView, bf16, export, f16};

use crate::call::Call;

kernelyard_cuda::image!(static IMAGE);

/// Rows of q, k and v must start at multiples of so many bytes, for that wide are the device code's accesses.
const ALIGNMENT: usize = 16;
/// The most queries and keys, so that the device code's sums of positions and sizes of windows are less than 2^31.
const MOST: usize = 1 << 29;

export!(device_type());
export!(fwd(q, k, v, alibi_slopes, softmax_scale, is_causal, window_size_left, window_size_right, softcap));

/// The type of the device that this build is for, as in PyTorch.
fn device_type() -> Result<String> {
    Ok("cuda".into())
}

/// Returns `[out, lse]`. The arguments are those of the reference kernel.
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
) -> Result<Array<Tensor>> {
    let call =
        Call::new(q, k, v, alibi_slopes, softmax_scale, is_causal, window_size_left, window_size_right, softcap)?;
    match call.float {
        FloatType::F16 => run::<f16>(&call),
        FloatType::BF16 => run::<bf16>(&call),
        FloatType::F32 => Err(call.q.error(TYPE_ERROR, "has dtype float32; must be float16 or bfloat16")),
    }
}

fn run<T: Element>(call: &Call) -> Result<Array<Tensor>> {
    let device = device(call)?;
    let results = call.results::<T>()?;
    if call.q.numel() > 0 {
        launch::<T>(call, &device, &results.out(), &results.lse())?;
    }
    Ok(results.into_array())
}

/// The device that all tensors are on.
fn device(call: &Call) -> Result<Device> {
    let Call { q, k, v, slopes, .. } = call;
    match slopes {
        Some(slopes) => Device::of(&[q, k, v, slopes]),
        None => Device::of(&[q, k, v]),
    }
}

fn launch<T: Element>(call: &Call, device: &Device, out: &Arg, lse: &Arg) -> Result<()> {
    let Call { q, k, v, slopes, batch, heads, key_heads, dim, window, .. } = call;
    for (tensor, length) in [(q, window.queries), (k, window.keys)] {
        if length > MOST {
            return Err(tensor.error(VALUE_ERROR, &format!("has {length} positions; must have {MOST} at most")));
        }
    }
    let (q_batch, q_row, q_head) = strides::<T>(q)?;
    let (k_batch, k_row, k_head) = strides::<T>(k)?;
    let (v_batch, v_row, v_head) = strides::<T>(v)?;
    // The device code computes these strides, in 32 bits.
    strides::<T>(out)?;
    let (slopes_pointer, slopes_batch, slopes_head) =
        slopes.as_ref().map_or(Ok((std::ptr::null_mut(), 0, 0)), alibi)?;
    let logits = Logits::of(call);
    let keys = [("T", call.float.into()), ("D", class(*dim).into()), ("GENERAL", logits.general.into())];
    let entry = IMAGE.entry(device, "forward", &keys)?;
    let tiles = window.queries.div_ceil(entry.tuned("BM") as usize);
    let blocks = [tiles, *heads, *batch].into_iter().fold(1, usize::saturating_mul);
    // A window as wide as all positions is no limit.
    let unlimited = window.queries + window.keys;
    let arguments = (
        out.pointer::<T>()?,
        lse.pointer::<f32>()?,
        q.pointer::<T>()?,
        address::<T>(k)?,
        address::<T>(v)?,
        slopes_pointer,
        // A grid with more blocks than an i32 counts is refused, so what this conversion would lose does not matter.
        *heads as i32,
        (heads / key_heads) as i32,
        window.queries as i32,
        window.keys as i32,
        *dim as i32,
        q_batch,
        q_head,
        q_row,
        k_batch,
        k_head,
        k_row,
        v_batch,
        v_head,
        v_row,
        i32::from(slopes.is_some()),
        slopes_batch,
        slopes_head,
        window.left.unwrap_or(unlimited) as i32,
        window.right.unwrap_or(unlimited) as i32,
        logits.scale,
        logits.softcap,
    );
    // SAFETY: the shapes and strides are those of the tensors, whose rows are aligned as the device code needs them; out
    // and lse are new, and used by nothing else until they are returned.
    unsafe { entry.launch(Launch::grid(blocks, 1, 1), arguments) }
}

/// The size of heads that the device code was compiled for, and that has room for this one.
fn class(dim: usize) -> usize {
    dim.next_power_of_two().max(32)
}

/// How scores become logits, in units of log 2.
#[derive(Debug, PartialEq)]
struct Logits {
    /// Whether they are more than scores times a positive scale.
    general: bool,
    /// What a score is multiplied by; before it is capped, twice the argument of tanh.
    scale: f32,
    /// 0 is none.
    softcap: f32,
}

impl Logits {
    fn of(call: &Call) -> Self {
        Self::new(call.scale, call.softcap, call.slopes.is_some())
    }

    fn new(scale: f64, softcap: f64, alibi: bool) -> Self {
        let capped = softcap > 0.0;
        let factor = (LOG2_E * if capped { 2.0 * scale / softcap } else { scale }) as f32;
        // The maximum of the products is that of the scores times the scale where that is positive. If it is not, or not
        // finite, a product with infinity may not be what masks a score.
        let general = capped || alibi || !(factor > 0.0 && factor.is_finite());
        Self { general, scale: factor, softcap: (LOG2_E * softcap) as f32 }
    }
}

/// The address of the first element; null, which is aligned too, where there is no key.
fn address<T: Element>(tensor: &Arg) -> Result<*mut T> {
    if tensor.numel() == 0 { Ok(std::ptr::null_mut()) } else { tensor.pointer() }
}

/// Distances between batches, positions and heads, in elements. Of a dimension without a second, a harmless one.
fn strides<T: Element>(tensor: &Arg) -> Result<(i64, i32, i64)> {
    let (shape, strides) = (tensor.shape(), tensor.strides());
    let wrong = |what: &str| tensor.error(VALUE_ERROR, &format!("has strides {strides:?}; {what}"));
    if strides[3] != 1 {
        return Err(wrong("the last one must be 1"));
    }
    tensor.aligned(ALIGNMENT)?;
    let step = (ALIGNMENT / size_of::<T>()) as i64;
    if (0..3).any(|dim| shape[dim] > 1 && strides[dim] % step != 0) {
        return Err(wrong(&format!("all but the last must be multiples of {step}")));
    }
    let stride = |dim: usize, single: i64| if shape[dim] > 1 { strides[dim] } else { single };
    match i32::try_from(stride(1, shape[3])) {
        Ok(row @ 1..) => Ok((stride(0, 0), row, stride(2, 0))),
        _ => Err(wrong("the second must be positive, and less than 2^31")),
    }
}

/// The address of the slopes, and their distances between batches and heads.
fn alibi(slopes: &Arg) -> Result<(*mut f32, i64, i64)> {
    let strides = slopes.strides();
    let (batch, head) = if let [batch, head] = strides[..] { (batch, head) } else { (0, strides[0]) };
    Ok((slopes.pointer()?, batch, head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_headdim_has_a_class() {
        assert_eq!([8, 32, 40, 64, 72, 128, 136, 256].map(class), [32, 32, 64, 64, 128, 128, 256, 256]);
    }

    #[test]
    fn logits_are_in_units_of_log_2() {
        let log2e = LOG2_E as f32;
        assert_eq!(Logits::new(1.0, 0.0, false), Logits { general: false, scale: log2e, softcap: 0.0 });
        assert_eq!(Logits::new(1.0, 2.0, false), Logits { general: true, scale: log2e, softcap: 2.0 * log2e });
    }

    #[test]
    fn only_a_positive_scale_is_plain() {
        assert!(!Logits::new(1e-3, 0.0, false).general);
        assert!(Logits::new(1e-3, 0.0, true).general);
        for scale in [0.0, -1.0, 1e-60, f64::INFINITY, f64::NAN] {
            assert!(Logits::new(scale, 0.0, false).general, "{scale}");
        }
    }
}
