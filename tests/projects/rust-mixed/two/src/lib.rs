use std::ffi::{c_int, c_void};

#[repr(C)]
pub struct Any(i32, u32, i64);

#[no_mangle]
pub extern "C" fn mixed_two() -> i64 {
    mixed_helper::UNIT * if cfg!(feature = "double") { 20 } else { 10 }
}

/// # Safety
/// `result` must be where the result goes.
#[no_mangle]
pub unsafe extern "C" fn __tvm_ffi_two(_: *mut c_void, _: *const Any, _: i32, result: *mut Any) -> c_int {
    *result = Any(1, 0, mixed_two());
    0
}
