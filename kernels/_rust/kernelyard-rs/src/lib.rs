//! What every Rust kernel needs, so that a kernel holds little but its arithmetic:
//!
//! - [`export!`] makes a function callable from Python, with errors that name the argument;
//! - [`Arg`] checks a tensor argument: device, dtype, shape, strides, alignment, overlap;
//! - [`View`] and [`ViewMut`] read and write a tensor of any strides;
//! - [`Element`] and [`dispatch_float!`] choose the code for a dtype;
//! - [`parallel`] spreads ranges over the CPUs.
//!
//! ```
//! use kernelyard_rs::{dispatch_float, export, parallel, Arg, Float, Result, TensorView};
//!
//! /// `out = 2 * x`, element by element.
//! fn double(out: TensorView, x: TensorView) -> Result<()> {
//!     let (out, x) = (Arg::new("out", out), Arg::new("x", x));
//!     out.same_shape(&x)?.same_dtype(&x)?.disjoint(&x)?;
//!     dispatch_float!(x.float()?, T => {
//!         // SAFETY: `out` shares no memory with `x`, and nothing else uses it during this call.
//!         let (from, to) = (x.slice::<T>()?, unsafe { out.slice_mut::<T>()? });
//!         parallel::chunks_mut(to, 1 << 14, |start, chunk| {
//!             for (to, from) in chunk.iter_mut().zip(&from[start..]) {
//!                 *to = T::from_f32(2.0 * from.to_f32());
//!             }
//!         });
//!     });
//!     Ok(())
//! }
//!
//! export!(double(out, x));
//! ```

mod arg;
mod element;
mod export;
pub mod parallel;
mod view;

pub use arg::Arg;
pub use element::{Element, Float, FloatType};
#[doc(hidden)]
pub use export::{argument, wrong_count, Packed};
pub use half::{bf16, f16};
pub use tvm_ffi;
pub use tvm_ffi::{Result, TensorView};
pub use view::{View, ViewMut};
