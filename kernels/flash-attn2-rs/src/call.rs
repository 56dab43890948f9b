//! The arguments of a call. What is the same for all backends is checked here, and nowhere else.

use kernelyard_rs::tvm_ffi::{Array, DLDevice, Error, Tensor, VALUE_ERROR};
use kernelyard_rs::{Arg, Element, FloatType, Result, TensorView};

use crate::window::Window;

/// The largest headdim.
pub const MAX_DIM: usize = 256;
/// headdim must be a multiple of it.
pub const DIM_STEP: usize = 8;

/// A call whose arguments go together.
pub struct Call {
    /// `[batch, queries, heads, dim]`
    pub q: Arg,
    /// `[batch, keys, key_heads, dim]`
    pub k: Arg,
    /// `[batch, keys, key_heads, dim]`
    pub v: Arg,
    /// `[heads]` or `[batch, heads]`
    pub slopes: Option<Arg>,
    pub float: FloatType,
    pub batch: usize,
    pub heads: usize,
    pub key_heads: usize,
    pub dim: usize,
    pub window: Window,
    pub scale: f64,
    /// 0 is none.
    pub softcap: f64,
}

impl Call {
    /// Check the arguments, which are those of the reference kernel.
    #[expect(clippy::too_many_arguments)]
    pub fn new(
        q: TensorView,
        k: TensorView,
        v: TensorView,
        alibi_slopes: Option<TensorView>,
        softmax_scale: Option<f64>,
        is_causal: bool,
        window_size_left: i64,
        window_size_right: i64,
        softcap: f64,
    ) -> Result<Self> {
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
            return Err(Error::new(
                VALUE_ERROR,
                &format!("softcap: is {softcap}; must be positive, or 0 for none"),
                "",
            ));
        }
        let slopes = alibi_slopes.map(|slopes| Arg::new("alibi_slopes", slopes));
        if let Some(slopes) = &slopes {
            let by_head = [batch, heads];
            slopes.has_shape(if slopes.shape().len() == 1 { &by_head[1..] } else { &by_head })?;
        }
        let window = Window::new(queries, keys, is_causal, window_size_left, window_size_right);
        let scale = softmax_scale.unwrap_or(1.0 / (dim as f64).sqrt());
        Ok(Self { q, k, v, slopes, float, batch, heads, key_heads, dim, window, scale, softcap })
    }

    /// New tensors for out and lse, from the caller's allocator, on the device of q.
    pub fn results<T: Element>(&self) -> Result<Results> {
        let (queries, device) = (self.window.queries, self.q.device());
        let out = new::<T>(&[self.batch, queries, self.heads, self.dim], device)?;
        Ok(Results { out, lse: new::<f32>(&[self.batch, self.heads, queries], device)? })
    }
}

fn new<T: Element>(shape: &[usize], device: DLDevice) -> Result<Tensor> {
    let shape: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
    Tensor::from_env_alloc(&shape, T::DTYPE, device)
}

/// What a call returns.
pub struct Results {
    /// `[batch, queries, heads, dim]`
    out: Tensor,
    /// `[batch, heads, queries]`
    lse: Tensor,
}

impl Results {
    pub fn out(&self) -> Arg {
        Arg::new("out", (&self.out).into())
    }

    pub fn lse(&self) -> Arg {
        Arg::new("lse", (&self.lse).into())
    }

    pub fn into_array(self) -> Array<Tensor> {
        Array::new(vec![self.out, self.lse])
    }
}
