//! The arguments of a launch.

use std::ffi::c_void;
use std::fmt;

/// What an entry takes as one argument.
///
/// PTX says of its parameters only how many bits they have; Tile IR says the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// An address.
    Pointer,
    /// An `i32`.
    I32,
    /// An `i64`.
    I64,
    /// An `f32`.
    F32,
    /// An `f64`.
    F64,
    /// Anything of 32 bits.
    B32,
    /// Anything of 64 bits.
    B64,
}

impl Parameter {
    /// Whether an argument of this type can be passed.
    fn takes(self, argument: Parameter) -> bool {
        use Parameter::{Pointer, B32, B64, F32, F64, I32, I64};
        match self {
            B32 => matches!(argument, B32 | I32 | F32),
            B64 => matches!(argument, B64 | I64 | F64 | Pointer),
            exact => exact == argument,
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Parameter::Pointer => "a pointer",
            Parameter::I32 => "an i32",
            Parameter::I64 => "an i64",
            Parameter::F32 => "an f32",
            Parameter::F64 => "an f64",
            Parameter::B32 => "32 bits",
            Parameter::B64 => "64 bits",
        })
    }
}

/// A value that can be passed to an entry.
///
/// # Safety
///
/// [`TYPE`](Argument::TYPE) must have the size of the type, and the type no invalid bytes.
pub unsafe trait Argument: Copy {
    /// What it is for the entry.
    const TYPE: Parameter;
}

// SAFETY: addresses have 64 bits on every platform that has CUDA.
unsafe impl<T> Argument for *const T {
    const TYPE: Parameter = Parameter::Pointer;
}

// SAFETY: as above.
unsafe impl<T> Argument for *mut T {
    const TYPE: Parameter = Parameter::Pointer;
}

macro_rules! numbers {
    ($($type:ty, $parameter:ident;)*) => {$(
        // SAFETY: a number of this size.
        unsafe impl Argument for $type {
            const TYPE: Parameter = Parameter::$parameter;
        }
    )*};
}

numbers! {
    i32, I32;
    i64, I64;
    f32, F32;
    f64, F64;
    u32, B32;
    u64, B64;
}

/// The arguments of a launch: a tuple of up to 48 [`Argument`]s.
pub trait Arguments: Copy {
    /// What they are, in order.
    const TYPES: &'static [Parameter];

    /// Call `body` with the address of each.
    fn with_addresses<R>(&self, body: impl FnOnce(&mut [*mut c_void]) -> R) -> R;
}

impl Arguments for () {
    const TYPES: &'static [Parameter] = &[];

    fn with_addresses<R>(&self, body: impl FnOnce(&mut [*mut c_void]) -> R) -> R {
        body(&mut [])
    }
}

macro_rules! tuples {
    () => {};
    ($first:ident $($rest:ident)*) => {
        impl<$first: Argument, $($rest: Argument),*> Arguments for ($first, $($rest,)*) {
            const TYPES: &'static [Parameter] = &[$first::TYPE, $($rest::TYPE),*];

            #[allow(non_snake_case)]
            fn with_addresses<R>(&self, body: impl FnOnce(&mut [*mut c_void]) -> R) -> R {
                let ($first, $($rest,)*) = self;
                // The driver reads what these point to, and never writes there.
                body(&mut [
                    std::ptr::from_ref($first).cast_mut().cast(),
                    $(std::ptr::from_ref($rest).cast_mut().cast()),*
                ])
            }
        }
        tuples!($($rest)*);
    };
}

tuples!(
    A0 A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12 A13 A14 A15 A16 A17 A18 A19 A20 A21 A22 A23
    A24 A25 A26 A27 A28 A29 A30 A31 A32 A33 A34 A35 A36 A37 A38 A39 A40 A41 A42 A43 A44 A45 A46 A47
);

/// What is wrong with arguments of these types for an entry with these parameters.
pub(crate) fn mismatch(arguments: &[Parameter], parameters: &[Parameter]) -> Option<String> {
    if arguments.len() != parameters.len() {
        return Some(format!("takes {} arguments, and is given {}", parameters.len(), arguments.len()));
    }
    (arguments.iter().zip(parameters).enumerate())
        .find(|(_, (argument, parameter))| !parameter.takes(**argument))
        .map(|(index, (argument, parameter))| format!("takes {parameter} as argument {index}, and is given {argument}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types<A: Arguments>(_: A) -> &'static [Parameter] {
        A::TYPES
    }

    #[test]
    fn each_argument_has_its_type_and_address() {
        let arguments = (std::ptr::without_provenance_mut::<u8>(0x1234), 7i32, -1i64, 0.5f32);
        assert_eq!(types(arguments), [Parameter::Pointer, Parameter::I32, Parameter::I64, Parameter::F32]);
        arguments.with_addresses(|addresses| {
            // SAFETY: they point into the tuple.
            unsafe {
                assert_eq!(*addresses[0].cast::<usize>(), 0x1234);
                assert_eq!(*addresses[1].cast::<i32>(), 7);
                assert_eq!(*addresses[2].cast::<i64>(), -1);
                assert_eq!(*addresses[3].cast::<f32>(), 0.5);
            }
        });
        assert!(types(()).is_empty());
    }

    #[test]
    fn types_are_compared() {
        use Parameter::{Pointer, B32, B64, F32, I32, I64};
        let given = types((std::ptr::null::<f32>(), 1i32, 2.0f32));
        assert_eq!(mismatch(given, &[Pointer, I32, F32]), None);
        assert_eq!(mismatch(given, &[B64, B32, B32]), None);
        assert_eq!(mismatch(given, &[Pointer, I32]).unwrap(), "takes 2 arguments, and is given 3");
        assert_eq!(mismatch(given, &[Pointer, I64, F32]).unwrap(), "takes an i64 as argument 1, and is given an i32");
        assert_eq!(mismatch(given, &[B32, I32, F32]).unwrap(), "takes 32 bits as argument 0, and is given a pointer");
        assert_eq!(mismatch(types((1u32,)), &[I32]).unwrap(), "takes an i32 as argument 0, and is given 32 bits");
    }
}
