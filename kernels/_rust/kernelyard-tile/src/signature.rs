//! What an entry function takes, read from the source that cutile keeps of its module.

use std::fmt;

use cutile::cutile_compiler::ast::syn::spanned::Spanned;
use cutile::cutile_compiler::ast::syn::{self, FnArg, GenericParam, Item, ItemFn};
use cutile::cutile_compiler::ast::{Module, SourceLocation};
use serde::Serialize;

use crate::error::{Error, Result};

/// How a parameter is passed to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Parameter {
    Pointer,
    I32,
    I64,
    F32,
    F64,
}

/// What a generic parameter stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generic {
    Type,
    Int,
}

impl fmt::Display for Generic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Type => "a type",
            Self::Int => "an i32",
        })
    }
}

/// The generics and the parameters of an entry function, in its own order.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) generics: Vec<(String, Generic)>,
    pub(crate) parameters: Vec<Parameter>,
    /// Where the function's name is.
    pub(crate) place: SourceLocation,
}

impl Signature {
    /// The signature of `function`, which must be an entry that can be called with pointers and scalars alone.
    pub(crate) fn of(module: &Module, function: &str) -> Result<Self> {
        let items = module.ast().content.as_ref().map_or(&[][..], |(_, items)| items);
        let found = items.iter().find_map(|item| match item {
            Item::Fn(item) if item.sig.ident == function => Some(item),
            _ => None,
        });
        let Some(item) = found else {
            let message = format!("module {} has no function {function}; name one that it has", module.name());
            return Err(Error::in_source(&module.span_base().module_location(), message));
        };
        let reader = Reader { module, function };
        reader.is_entry(item)?;
        let generics = &item.sig.generics.params;
        Ok(Self {
            generics: generics.iter().map(|generic| reader.generic(generic)).collect::<Result<_>>()?,
            parameters: item.sig.inputs.iter().map(|input| reader.parameter(input)).collect::<Result<_>>()?,
            place: module.resolve_span(&item.sig.ident.span()),
        })
    }
}

impl Signature {
    /// The names of the generics, for a message.
    pub(crate) fn names(&self) -> String {
        match &self.generics[..] {
            [] => "none".to_owned(),
            generics => generics.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "),
        }
    }
}

struct Reader<'a> {
    module: &'a Module,
    function: &'a str,
}

impl Reader<'_> {
    fn is_entry(&self, item: &ItemFn) -> Result<()> {
        let is_entry =
            |attribute: &syn::Attribute| attribute.path().segments.last().is_some_and(|s| s.ident == "entry");
        if item.attrs.iter().any(is_entry) {
            return Ok(());
        }
        self.error(&item.sig.ident, "is no entry; put #[cutile::entry()] before it")
    }

    fn generic(&self, generic: &GenericParam) -> Result<(String, Generic)> {
        match generic {
            GenericParam::Type(parameter) => Ok((parameter.ident.to_string(), Generic::Type)),
            GenericParam::Const(parameter) if is_named(&parameter.ty, "i32") => {
                Ok((parameter.ident.to_string(), Generic::Int))
            }
            GenericParam::Const(parameter) => {
                self.error(parameter, &format!("{}: only types and i32 can be given; make it an i32", parameter.ident))
            }
            GenericParam::Lifetime(parameter) => {
                self.error(parameter, &format!("{}: an entry has no lifetimes; leave it out", parameter.lifetime))
            }
        }
    }

    fn parameter(&self, input: &FnArg) -> Result<Parameter> {
        let FnArg::Typed(typed) = input else { return self.error(input, "self: an entry is no method; leave it out") };
        let scalar =
            [("i32", Parameter::I32), ("i64", Parameter::I64), ("f32", Parameter::F32), ("f64", Parameter::F64)];
        match &*typed.ty {
            syn::Type::Ptr(_) => Ok(Parameter::Pointer),
            ty => match scalar.into_iter().find(|(name, _)| is_named(ty, name)) {
                Some((_, parameter)) => Ok(parameter),
                None => self.error(
                    input,
                    "a parameter must be a raw pointer, i32, i64, f32 or f64; pass a tensor as its pointer and sizes, \
                     and call make_tensor_view in the function",
                ),
            },
        }
    }

    fn error<T>(&self, at: &impl Spanned, what: &str) -> Result<T> {
        Err(Error::in_source(&self.module.resolve_span(&at.span()), format!("{}: {what}", self.function)))
    }
}

fn is_named(ty: &syn::Type, name: &str) -> bool {
    matches!(ty, syn::Type::Path(path) if path.path.is_ident(name))
}
