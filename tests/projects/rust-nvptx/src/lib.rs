//! `image_byte` returns a byte of the image by its index.

use std::ffi::{c_int, c_void};

/// A value as tvm-ffi passes it: of type index 1, an integer.
#[repr(C)]
pub struct Any {
    type_index: i32,
    padding: u32,
    value: i64,
}

const SIZE: usize = include_bytes!(concat!(env!("KERNELYARD_IMAGES"), "/rust-nvptx.fatbin")).len();

#[repr(C, align(16))]
struct Aligned([u8; SIZE]);

#[link_section = ".nv_fatbin"]
static IMAGE: Aligned = Aligned(*include_bytes!(concat!(env!("KERNELYARD_IMAGES"), "/rust-nvptx.fatbin")));

/// # Safety
/// `arguments` must hold one argument, and `result` be where the result goes.
#[no_mangle]
pub unsafe extern "C" fn __tvm_ffi_image_byte(
    _: *mut c_void,
    arguments: *const Any,
    _: i32,
    result: *mut Any,
) -> c_int {
    let byte = IMAGE.0[(*arguments).value as usize % SIZE];
    *result = Any { type_index: 1, padding: 0, value: byte.into() };
    0
}
