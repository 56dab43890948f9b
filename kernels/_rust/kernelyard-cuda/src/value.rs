//! By what an entry is chosen.

use std::fmt;

use kernelyard_rs::tvm_ffi::{DLDataType, DLDataTypeCode as Code};
use kernelyard_rs::FloatType;

/// A dtype or a number that an instantiation was compiled for.
///
/// It is made from a tensor's dtype, an integer or a `bool`: `x.dtype().into()`, `64.into()`, `causal.into()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// A dtype, by its name in device code: `f16`.
    Type(&'static str),
    /// A number.
    Int(i64),
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Type(name) => formatter.write_str(name),
            Value::Int(number) => write!(formatter, "{number}"),
        }
    }
}

impl From<DLDataType> for Value {
    fn from(dtype: DLDataType) -> Self {
        const NAMES: [(Code, u8, &str); 19] = [
            (Code::kDLFloat, 16, "f16"),
            (Code::kDLBfloat, 16, "bf16"),
            (Code::kDLFloat, 32, "f32"),
            (Code::kDLFloat, 64, "f64"),
            (Code::kDLInt, 8, "i8"),
            (Code::kDLInt, 16, "i16"),
            (Code::kDLInt, 32, "i32"),
            (Code::kDLInt, 64, "i64"),
            (Code::kDLUInt, 8, "u8"),
            (Code::kDLUInt, 16, "u16"),
            (Code::kDLUInt, 32, "u32"),
            (Code::kDLUInt, 64, "u64"),
            (Code::kDLBool, 8, "bool"),
            (Code::kDLFloat8_e4m3fn, 8, "f8e4m3fn"),
            (Code::kDLFloat8_e5m2, 8, "f8e5m2"),
            (Code::kDLFloat8_e8m0fnu, 8, "f8e8m0fnu"),
            (Code::kDLComplex, 32, "complex32"),
            (Code::kDLComplex, 64, "complex64"),
            (Code::kDLComplex, 128, "complex128"),
        ];
        let known =
            |&(code, bits, _): &(Code, u8, &str)| (code as u8, bits, 1) == (dtype.code, dtype.bits, dtype.lanes);
        Value::Type(NAMES.into_iter().find(known).map_or("a dtype without a name", |(_, _, name)| name))
    }
}

impl From<FloatType> for Value {
    fn from(float: FloatType) -> Self {
        Value::Type(match float {
            FloatType::F32 => "f32",
            FloatType::F16 => "f16",
            FloatType::BF16 => "bf16",
        })
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Value::Int(number.into())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        // An extent or a size, of which no instantiation has one that large.
        Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Int(flag.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernelyard_rs::{bf16, Element};

    #[test]
    fn values_are_made_from_what_hosts_have() {
        assert_eq!(Value::from(bf16::DTYPE), Value::Type("bf16"));
        assert_eq!(Value::from(<i64 as Element>::DTYPE), Value::Type("i64"));
        assert_eq!(Value::from(DLDataType { lanes: 2, ..f32::DTYPE }), Value::Type("a dtype without a name"));
        assert_eq!(Value::from(FloatType::F16), Value::Type("f16"));
        let values: [Value; 4] = [64.into(), 64usize.into(), true.into(), (-1i64).into()];
        assert_eq!(values.map(|value| value.to_string()), ["64", "64", "1", "-1"]);
    }
}
