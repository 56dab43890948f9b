//! What a program is compiled for.

use std::fmt;
use std::panic::Location;

use crate::signature::Generic;

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A 16-bit float with 5 bits of exponent.
    F16,
    /// A 16-bit float with 8 bits of exponent.
    BF16,
    /// A 32-bit float.
    F32,
    /// A 64-bit float.
    F64,
    /// A signed 8-bit integer.
    I8,
    /// A signed 16-bit integer.
    I16,
    /// A signed 32-bit integer.
    I32,
    /// A signed 64-bit integer.
    I64,
    /// An unsigned 8-bit integer.
    U8,
}

impl Type {
    /// Its name in device code, in symbols and for the host.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
        }
    }
}

/// What a generic parameter is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Type(Type),
    Int(i32),
}

impl Value {
    pub(crate) const fn kind(self) -> Generic {
        match self {
            Self::Type(_) => Generic::Type,
            Self::Int(_) => Generic::Int,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(dtype) => f.write_str(dtype.name()),
            Self::Int(value) => value.fmt(f),
        }
    }
}

/// One instantiation of a program: a value for each of the function's generic parameters, in any order.
///
/// The host chooses an instance by its keys, so the keys are the same for every capability, and no two instances have
/// the same ones. Tuned values, tile sizes above all, may differ between capabilities; the host is told them.
#[derive(Clone, Debug)]
#[must_use = "an instance is compiled only if a program lists it"]
pub struct Instance {
    pub(crate) keys: Vec<(&'static str, Value)>,
    pub(crate) tuned: Vec<(&'static str, i32)>,
    pub(crate) warps: Option<i32>,
    pub(crate) place: &'static Location<'static>,
}

impl Instance {
    /// An instance whose values follow.
    #[track_caller]
    pub fn new() -> Self {
        Self { keys: Vec::new(), tuned: Vec::new(), warps: None, place: Location::caller() }
    }

    /// A key: the element type that `parameter` stands for.
    pub fn ty(mut self, parameter: &'static str, value: Type) -> Self {
        self.keys.push((parameter, Value::Type(value)));
        self
    }

    /// A key: the value of `parameter`.
    pub fn int(mut self, parameter: &'static str, value: i32) -> Self {
        self.keys.push((parameter, Value::Int(value)));
        self
    }

    /// A tuned value of `parameter`.
    pub fn tuned(mut self, parameter: &'static str, value: i32) -> Self {
        self.tuned.push((parameter, value));
        self
    }

    /// Ask for so many warps to compute a block, besides those that only load; otherwise the compiler decides.
    ///
    /// It is a hint, for the assembler alone: the host launches blocks of one thread as before.
    pub fn warps(mut self, count: i32) -> Self {
        self.warps = Some(count);
        self
    }

    /// All values, keys first.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&'static str, Value)> + '_ {
        self.keys.iter().copied().chain(self.tuned.iter().map(|&(name, value)| (name, Value::Int(value))))
    }
}

impl Default for Instance {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}
