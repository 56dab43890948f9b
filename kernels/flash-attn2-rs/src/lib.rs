//! FlashAttention-2 forward, exported through tvm-ffi, for the CPU, or for CUDA where the feature `cuda` asks for that.
//!
//! [`call`] checks a call's arguments, and [`window`] says which keys a query sees.

mod call;
#[cfg(not(feature = "cuda"))]
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod window;
