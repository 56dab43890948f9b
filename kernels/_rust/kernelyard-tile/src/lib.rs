//! What the device crate of every tile kernel needs: to say, once and typed, what is compiled; and [`emit`], which
//! compiles it ahead of time to Tile IR.
//!
//! ```no_run
//! use kernelyard_tile::{program, Capability, Instance, Program, Type};
//!
//! #[cutile::module]
//! pub mod scaling {
//!     use cutile::core::*;
//!
//!     #[cutile::entry()]
//!     unsafe fn scale<T: ElementType, const N: i32>(x: *mut T, factor: f32, size: i32) {}
//! }
//!
//! /// All that is compiled.
//! pub fn programs() -> Vec<Program> {
//!     vec![program!(scaling::scale, instances)]
//! }
//!
//! fn instances(capability: Capability) -> Vec<Instance> {
//!     let tile = if capability >= Capability::new(9, 0) { 2048 } else { 1024 };
//!     [Type::F32, Type::F16].map(|dtype| Instance::new().ty("T", dtype).tuned("N", tile)).into()
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     kernelyard_tile::emit(programs())
//! }
//! ```
//!
//! The `main` is not the author's: the builder renders it. `<program> <folder> 8.0 9.0 12.0+PTX` then writes to the
//! folder, for each instance and capability, the Tile IR as bytecode and as text, and `entries.json`, which lists them.

mod capability;
mod compile;
mod emit;
mod error;
#[cfg(test)]
mod fixtures;
mod instance;
mod launch_check;
mod location;
mod plan;
mod program;
mod signature;

pub use capability::Capability;
pub use emit::emit;
pub use instance::{Instance, Type};
pub use program::Program;
