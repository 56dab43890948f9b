//! On a GPU: the host side of `device/`.

use kernelyard_cuda::{Device, Launch};
use kernelyard_rs::{dispatch_float, Arg, FloatType, Result};

kernelyard_cuda::image!(static IMAGE);

/// Threads in a block.
const BLOCK: u32 = 256;
/// Bytes that a thread takes.
const WIDTH: usize = 16;

pub(crate) fn relu(out: &Arg, x: &Arg) -> Result<()> {
    out.contiguous()?;
    x.contiguous()?;
    let float = x.float()?;
    let device = Device::of(&[out, x])?;
    let name = match float {
        FloatType::F32 => "relu_f32",
        FloatType::F16 => "relu_f16",
        FloatType::BF16 => "relu_bf16",
    };
    let entry = IMAGE.entry(&device, name, &[])?;
    dispatch_float!(float, T => {
        let threads = x.numel().div_ceil(WIDTH / size_of::<T>());
        let launch = Launch::grid(threads.div_ceil(BLOCK as usize), 1, 1).block(BLOCK, 1, 1);
        let arguments = (out.pointer::<T>()?, x.pointer::<T>()?, x.numel() as u64);
        // SAFETY: both have so many elements, and share no memory.
        unsafe { entry.launch(launch, arguments) }
    })
}
