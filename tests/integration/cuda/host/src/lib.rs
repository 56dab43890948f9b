//! A host crate that does what tests ask for.

use std::time::Instant;

use kernelyard_cuda::{Device, Launch};
use kernelyard_rs::tvm_ffi::String;
use kernelyard_rs::{export, Arg, Result, TensorView};

kernelyard_cuda::image!(static IMAGE);

fn size(extent: i64) -> usize {
    extent as usize
}

/// Launch the instantiation for the dtype of `x` and for `d`; give the tuned number of the code that is run.
#[allow(clippy::too_many_arguments)] // They are what the device code takes, and the grid.
fn scale(
    out: TensorView,
    x: TensorView,
    d: i64,
    factor: f64,
    x_blocks: i64,
    y_blocks: i64,
    z_blocks: i64,
) -> Result<i64> {
    let (out, x) = (Arg::new("out", out), Arg::new("x", x));
    out.same_shape(&x)?.same_dtype(&x)?;
    let device = Device::of(&[&out, &x])?;
    let entry = IMAGE.entry(&device, "scale", &[("T", x.dtype().into()), ("D", d.into())])?;
    let (to, from) = (out.pointer::<kernelyard_rs::f16>()?, x.pointer::<kernelyard_rs::f16>()?);
    let arguments = (to, from.cast_const(), x.numel() as i32, -1i64, factor as f32, factor);
    let launch = Launch::grid(size(x_blocks), size(y_blocks), size(z_blocks));
    // SAFETY: nothing is run.
    unsafe { entry.launch(launch, arguments) }?;
    Ok(entry.tuned("BM"))
}

/// Launch an entry that is not generic, with threads and shared memory.
fn plain(name: String, out: TensorView, threads: i64, shared: i64) -> Result<()> {
    let out = Arg::new("out", out);
    let device = Device::of(&[&out])?;
    let entry = IMAGE.entry(&device, name.as_str(), &[])?;
    let launch = Launch::grid(1, 2, 3).block(threads as u32, 1, 1).shared(size(shared));
    // SAFETY: nothing is run.
    unsafe { entry.launch(launch, (out.pointer::<f32>()?, out.numel() as u32)) }
}

/// Launch the same entry with other arguments than it takes.
fn mistaken(out: TensorView) -> Result<()> {
    let out = Arg::new("out", out);
    let device = Device::of(&[&out])?;
    // SAFETY: nothing is run.
    unsafe { IMAGE.entry(&device, "plain", &[])?.launch(Launch::grid(1, 1, 1), (out.pointer::<f32>()?, 1i64)) }
}

/// A number that the device code does not have.
fn untuned(out: TensorView) -> Result<i64> {
    let device = Device::of(&[&Arg::new("out", out)])?;
    Ok(IMAGE.entry(&device, "plain", &[])?.tuned("BM"))
}

/// The nanoseconds that a launch takes, from the tensors to the driver.
fn nanoseconds(out: TensorView, x: TensorView, count: i64) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..count {
        scale(out, x, 128, 1.0, 1, 1, 1)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

export!(scale(out, x, d, factor, x_blocks, y_blocks, z_blocks));
export!(plain(name, out, threads, shared));
export!(mistaken(out));
export!(untuned(out));
export!(nanoseconds(out, x, count));
