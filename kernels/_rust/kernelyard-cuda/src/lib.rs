//! The host side of Rust kernels for CUDA: device code that the builder embeds, loaded and launched from Rust.
//!
//! - [`image!`] embeds the image of the crate;
//! - [`Device::of`] says on which device the tensors of a call are, and on which stream its caller works;
//! - [`Image::entry`] finds the entry that was compiled for a dtype and numbers, and loads it;
//! - [`Loaded::launch`] launches it, once the arguments' types, the grid and the shared memory are found to be right.
//!
//! ```no_run
//! use kernelyard_cuda::{Device, Launch};
//! use kernelyard_rs::{dispatch_float, export, Arg, Result, TensorView};
//! # mod embedded {
//! #     // A documentation test has no image.
//! #     pub static IMAGE: kernelyard_cuda::Image = kernelyard_cuda::Image::new(&[], &[], &[]);
//! # }
//! # use embedded::IMAGE;
//! # /*
//!
//! kernelyard_cuda::image!(static IMAGE);
//! # */
//!
//! /// `out = 2 * x`, element by element.
//! fn double(out: TensorView, x: TensorView) -> Result<()> {
//!     let (out, x) = (Arg::new("out", out), Arg::new("x", x));
//!     out.same_shape(&x)?.same_dtype(&x)?.disjoint(&x)?;
//!     out.contiguous()?;
//!     x.contiguous()?;
//!     let device = Device::of(&[&out, &x])?;
//!     let entry = IMAGE.entry(&device, "double", &[("T", x.float()?.into())])?;
//!     let blocks = x.numel().div_ceil(entry.tuned("BLOCK") as usize);
//!     dispatch_float!(x.float()?, T => {
//!         let arguments = (out.pointer::<T>()?, x.pointer::<T>()?, x.numel() as i64);
//!         // SAFETY: the device code reads and writes so many elements, and the two share no memory.
//!         unsafe { entry.launch(Launch::grid(blocks, 1, 1), arguments) }
//!     })
//! }
//!
//! export!(double(out, x));
//! ```
//!
//! A library with an image does not need the driver to be loaded itself: the driver is looked for by the first call,
//! and what is wrong with it, or with a call, is an exception that names the call and has the driver's words.

mod argument;
mod check;
mod device;
mod driver;
mod image;
mod launch;
mod load;
mod once;
mod select;
mod value;

pub use argument::{Argument, Arguments, Parameter};
pub use check::{Check, Relation};
pub use device::Device;
pub use image::{Entry, Image, Variant};
pub use launch::Launch;
pub use load::{Loaded, State};
pub use value::Value;
