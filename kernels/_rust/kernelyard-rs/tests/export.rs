//! An exported function, called as Python calls it: through its symbol.

use std::ffi::c_void;

use kernelyard_rs::tvm_ffi::{Any, AnyView, Error, TVMFFIAny};
use kernelyard_rs::{export, Result, TensorView};

fn scale(x: f32, factor: i64, exact: bool, base: Option<TensorView>) -> Result<f64> {
    assert!(factor != 13, "unlucky");
    Ok(f64::from(x) * factor as f64 + f64::from(exact) + if base.is_some() { 100.0 } else { 0.0 })
}

#[allow(clippy::too_many_arguments)]
fn many(a: i64, b: i64, c: i64, d: i64, e: i64, f: i64, g: i64, h: i64, i: i64, j: i64) -> Result<i64> {
    Ok([a, b, c, d, e, f, g, h, i, j].iter().sum())
}

export!(scale(x, factor, exact, base));
export!(many(a, b, c, d, e, f, g, h, i, j));

extern "C" {
    fn __tvm_ffi_scale(handle: *mut c_void, arguments: *const TVMFFIAny, count: i32, result: *mut TVMFFIAny) -> i32;
    fn __tvm_ffi_many(handle: *mut c_void, arguments: *const TVMFFIAny, count: i32, result: *mut TVMFFIAny) -> i32;
}

type Exported = unsafe extern "C" fn(*mut c_void, *const TVMFFIAny, i32, *mut TVMFFIAny) -> i32;

/// What a function returns, or kind and message of the error that it raises.
fn call(function: Exported, arguments: &[Any]) -> std::result::Result<Any, (String, String)> {
    let views: Vec<AnyView> = arguments.iter().map(AnyView::from).collect();
    let mut result = TVMFFIAny::new();
    // SAFETY: these are the arguments that tvm-ffi's calling convention asks for.
    unsafe {
        if function(std::ptr::null_mut(), views.as_ptr().cast(), views.len() as i32, &mut result) == 0 {
            return Ok(Any::from_raw_ffi_any(result));
        }
    }
    let error = Error::from_raised();
    Err((error.kind().to_string(), error.message().to_owned()))
}

#[test]
fn arguments_are_converted() {
    let result = call(__tvm_ffi_scale, &[Any::from(3i64), Any::from(2i64), Any::from(true), Any::from(())]).unwrap();
    assert_eq!(f64::try_from(result).unwrap(), 7.0);
}

#[test]
fn there_may_be_more_than_eight() {
    let arguments: Vec<Any> = (1..=10i64).map(Any::from).collect();
    assert_eq!(i64::try_from(call(__tvm_ffi_many, &arguments).unwrap()).unwrap(), 55);
}

#[test]
fn a_wrong_type_names_the_argument() {
    let (kind, message) =
        call(__tvm_ffi_scale, &[Any::from(3i64), Any::from(2.5f64), Any::from(true), Any::from(())]).err().unwrap();
    assert_eq!(kind, "TypeError");
    assert!(message.starts_with("scale: factor: ") && message.contains("float"), "{message}");
}

#[test]
fn a_wrong_number_of_arguments_names_them_all() {
    let (kind, message) = call(__tvm_ffi_scale, &[Any::from(3i64)]).err().unwrap();
    assert_eq!(kind, "TypeError");
    assert_eq!(message, "scale: takes 4 arguments (x, factor, exact, base), and 1 were given");
}

#[test]
fn a_panic_is_an_error() {
    let (_, message) =
        call(__tvm_ffi_scale, &[Any::from(3i64), Any::from(13i64), Any::from(true), Any::from(())]).err().unwrap();
    assert!(message.contains("unlucky"), "{message}");
}
