//! FlashAttention-2 forward on the CPU, exported through tvm-ffi.
//!
//! [`ffi`] checks a call's arguments, [`isa`] chooses the code for this CPU, and [`attention`] is the algorithm, written
//! once over the operations of [`simd`].

mod attention;
mod element;
mod ffi;
mod isa;
mod simd;
mod tensor;
mod window;
