//! `max(x, 0)`: the smallest kernel in Rust, for the CPU, or for CUDA where the feature `cuda` asks for that.

#[cfg(not(feature = "cuda"))]
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;

#[cfg(not(feature = "cuda"))]
use cpu as backend;
#[cfg(feature = "cuda")]
use cuda as backend;
use kernelyard_rs::{export, Arg, Result, TensorView};

/// Write `max(x, 0)` to `out`; NaN stays NaN.
fn relu(out: TensorView, x: TensorView) -> Result<()> {
    let (out, x) = (Arg::new("out", out), Arg::new("x", x));
    x.float()?;
    out.same_shape(&x)?.same_dtype(&x)?.disjoint(&x)?;
    backend::relu(&out, &x)
}

export!(relu(out, x));
