//! Types of elements, and the choice of code by dtype.

use half::{bf16, f16};
use tvm_ffi::{DLDataType, DLDataTypeCode};

/// A Rust type that is the element of tensors of one dtype.
///
/// # Safety
///
/// A value of [`DTYPE`](Element::DTYPE) must have the size, alignment and layout of the type, and any bits must be a
/// valid value.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The dtype, as tensors carry it.
    const DTYPE: DLDataType;
    /// The dtype's name in messages, spelled as PyTorch does.
    const NAME: &'static str;
}

macro_rules! elements {
    ($($type:ty, $code:ident, $name:literal;)*) => {$(
        // SAFETY: the type is the one that DLPack's code and size stand for; it has no invalid bits.
        unsafe impl Element for $type {
            const DTYPE: DLDataType = DLDataType {
                code: DLDataTypeCode::$code as u8,
                bits: 8 * size_of::<$type>() as u8,
                lanes: 1,
            };
            const NAME: &'static str = $name;
        }
    )*};
}

elements! {
    f32, kDLFloat, "float32";
    f64, kDLFloat, "float64";
    f16, kDLFloat, "float16";
    bf16, kDLBfloat, "bfloat16";
    u8, kDLUInt, "uint8";
    i8, kDLInt, "int8";
    i16, kDLInt, "int16";
    i32, kDLInt, "int32";
    i64, kDLInt, "int64";
}

/// An element that is computed with in `f32`.
pub trait Float: Element {
    /// The value; exact.
    fn to_f32(self) -> f32;
    /// The nearest value, ties to even.
    fn from_f32(value: f32) -> Self;
}

impl Float for f32 {
    fn to_f32(self) -> f32 {
        self
    }

    fn from_f32(value: f32) -> Self {
        value
    }
}

impl Float for f16 {
    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }

    fn from_f32(value: f32) -> Self {
        f16::from_f32(value)
    }
}

impl Float for bf16 {
    fn to_f32(self) -> f32 {
        bf16::to_f32(self)
    }

    fn from_f32(value: f32) -> Self {
        bf16::from_f32(value)
    }
}

/// The dtypes that [`dispatch_float!`](crate::dispatch_float) has code for; see [`Arg::float`](crate::Arg::float).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatType {
    /// `float32`.
    F32,
    /// `float16`.
    F16,
    /// `bfloat16`.
    BF16,
}

impl FloatType {
    /// The type for a dtype, if it has one.
    pub fn of(dtype: DLDataType) -> Option<Self> {
        [(f32::DTYPE, Self::F32), (f16::DTYPE, Self::F16), (bf16::DTYPE, Self::BF16)]
            .into_iter()
            .find_map(|(known, float)| (known == dtype).then_some(float))
    }
}

/// Compile an expression for each float type, and evaluate the one for a [`FloatType`].
///
/// In the expression the named type stands for `f32`, `f16` or `bf16`: `dispatch_float!(x.float()?, T => run::<T>(x))`.
#[macro_export]
macro_rules! dispatch_float {
    ($float:expr, $type:ident => $body:expr) => {
        match $float {
            $crate::FloatType::F32 => {
                type $type = f32;
                $body
            }
            $crate::FloatType::F16 => {
                type $type = $crate::f16;
                $body
            }
            $crate::FloatType::BF16 => {
                type $type = $crate::bf16;
                $body
            }
        }
    };
}

/// The name of a dtype in messages. tvm-ffi's own function for it fails for those that it does not know.
pub(crate) fn dtype_name(dtype: DLDataType) -> String {
    const KINDS: [(DLDataTypeCode, &str); 5] = [
        (DLDataTypeCode::kDLInt, "int"),
        (DLDataTypeCode::kDLUInt, "uint"),
        (DLDataTypeCode::kDLFloat, "float"),
        (DLDataTypeCode::kDLBfloat, "bfloat"),
        (DLDataTypeCode::kDLComplex, "complex"),
    ];
    let lanes = if dtype.lanes == 1 { String::new() } else { format!("x{}", dtype.lanes) };
    if dtype.code == DLDataTypeCode::kDLBool as u8 {
        return format!("bool{lanes}");
    }
    match KINDS.iter().find(|(code, _)| *code as u8 == dtype.code) {
        Some((_, kind)) => format!("{kind}{}{lanes}", dtype.bits),
        None => format!("{} of {} bits{lanes}", dtype.code, dtype.bits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of<T: Element>() -> &'static str {
        T::NAME
    }

    #[test]
    fn dispatch_reaches_each_type() {
        let dtypes = [f32::DTYPE, f16::DTYPE, bf16::DTYPE];
        let names = dtypes.map(|dtype| dispatch_float!(FloatType::of(dtype).unwrap(), T => name_of::<T>()));
        assert_eq!(names, ["float32", "float16", "bfloat16"]);
    }

    #[test]
    fn other_dtypes_have_no_float_type() {
        assert_eq!(FloatType::of(f64::DTYPE), None);
        assert_eq!(FloatType::of(i32::DTYPE), None);
        assert_eq!(FloatType::of(DLDataType { lanes: 4, ..f32::DTYPE }), None);
    }

    #[test]
    fn every_dtype_has_a_name() {
        let name = |code, bits, lanes| dtype_name(DLDataType { code, bits, lanes });
        assert_eq!(name(DLDataTypeCode::kDLComplex as u8, 64, 1), "complex64");
        assert_eq!(name(DLDataTypeCode::kDLBool as u8, 8, 1), "bool");
        assert_eq!(name(DLDataTypeCode::kDLUInt as u8, 8, 4), "uint8x4");
        assert_eq!(name(77, 4, 1), "77 of 4 bits");
        assert_eq!(dtype_name(bf16::DTYPE), bf16::NAME);
    }

    #[test]
    fn rounding_is_to_nearest_even() {
        assert_eq!(bf16::from_f32(1.0 + 1.0 / 256.0).to_f32(), 1.0);
        assert_eq!(bf16::from_f32(1.0 + 3.0 / 256.0).to_f32(), 1.0 + 4.0 / 256.0);
        assert_eq!(<f16 as Float>::from_f32(65520.0).to_f32(), f32::INFINITY);
    }
}
