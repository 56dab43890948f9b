//! Functions that Python can call.

use tvm_ffi::any::TryFromTemp;
use tvm_ffi::function_internal::AsPackedCallable;
use tvm_ffi::{Any, AnyCompatible, AnyView, Error, Result, TYPE_ERROR};

/// Export a function under its own name, with the names of its arguments.
///
/// `export!(scale(out, x, factor));` exports `fn scale(out: TensorView, x: TensorView, factor: f32) -> Result<()>` so
/// that it is `ops.scale` in Python. There may be any number of arguments, of any types that tvm-ffi knows:
/// [`TensorView`](crate::TensorView), `Option<TensorView>`, `bool`, integers, floats and more. An argument of another
/// type is a `TypeError` that names it; an `Err` becomes the exception that it describes; a panic becomes a
/// `RuntimeError`, and the process lives.
#[macro_export]
macro_rules! export {
    ($function:ident($($argument:ident),* $(,)?)) => {
        // What is in an anonymous constant has a symbol, and no name that could clash or lack documentation.
        const _: () = {
            $crate::tvm_ffi::tvm_ffi_dll_export_typed_func!(
                $function,
                $crate::Packed(|arguments: &[$crate::tvm_ffi::AnyView]| {
                    let [$($argument),*] = arguments else {
                        const NAMES: &[&str] = &[$(stringify!($argument)),*];
                        return Err($crate::wrong_count(stringify!($function), NAMES, arguments.len()));
                    };
                    let result = $function($(
                        $crate::argument(stringify!($function), stringify!($argument), $argument)?
                    ),*)?;
                    Ok($crate::tvm_ffi::Any::from(result))
                })
            );
        };
    };
}

/// A function that takes its arguments as tvm-ffi passes them.
#[doc(hidden)]
pub struct Packed<F>(pub F);

impl<F: Fn(&[AnyView]) -> Result<Any>> AsPackedCallable<Vec<Any>, Any> for Packed<F> {
    fn call_packed(&self, arguments: &[AnyView]) -> Result<Any> {
        (self.0)(arguments)
    }
}

/// The value of an argument, converted as tvm-ffi does: an integer is a float too.
#[doc(hidden)]
pub fn argument<T: AnyCompatible>(function: &str, name: &str, value: &AnyView) -> Result<T> {
    TryFromTemp::<T>::try_from(AnyView::from(value))
        .map(TryFromTemp::into_value)
        .map_err(|error| Error::new(TYPE_ERROR, &format!("{function}: {name}: {}", error.message()), ""))
}

#[doc(hidden)]
pub fn wrong_count(function: &str, names: &[&str], given: usize) -> Error {
    let (count, names) = (names.len(), names.join(", "));
    let message = format!("{function}: takes {count} arguments ({names}), and {given} were given");
    Error::new(TYPE_ERROR, &message, "")
}
