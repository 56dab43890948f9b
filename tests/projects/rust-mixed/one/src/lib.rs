use std::ffi::{c_int, c_void};

#[repr(C)]
pub struct Any(i32, u32, i64);

#[no_mangle]
pub extern "C" fn mixed_one() -> i64 {
    mixed_helper::UNIT
}

/// # Safety
/// `result` must be where the result goes.
#[no_mangle]
pub unsafe extern "C" fn __tvm_ffi_one(_: *mut c_void, _: *const Any, _: i32, result: *mut Any) -> c_int {
    *result = Any(1, 0, mixed_one());
    0
}
