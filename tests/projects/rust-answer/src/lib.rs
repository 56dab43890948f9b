//! `answer` returns a number, and `panics` an error for the panic that it caught.

mod value;

use std::ffi::{c_char, c_int, c_void};

/// A value as tvm-ffi passes it: of type index 1, an integer.
#[repr(C)]
pub struct Any {
    type_index: i32,
    padding: u32,
    value: i64,
}

extern "C" {
    fn TVMFFIErrorSetRaisedFromCStr(kind: *const c_char, message: *const c_char);
}

/// # Safety
/// `result` must be where the result goes.
#[no_mangle]
pub unsafe extern "C" fn __tvm_ffi_answer(_: *mut c_void, _: *const Any, _: i32, result: *mut Any) -> c_int {
    *result = Any { type_index: 1, padding: 0, value: value::answer() };
    0
}

/// # Safety
/// Safe; the C ABI asks for the word.
#[no_mangle]
pub unsafe extern "C" fn __tvm_ffi_panics(_: *mut c_void, _: *const Any, count: i32, _: *mut Any) -> c_int {
    std::panic::catch_unwind(|| assert!(count > 100, "by design")).map_or_else(
        |_| {
            TVMFFIErrorSetRaisedFromCStr(c"RuntimeError".as_ptr(), c"a panic, caught".as_ptr());
            -1
        },
        |()| 0,
    )
}
