//! What the author of a device crate is told.

use std::fmt;

use cutile::cutile_compiler::ast::SourceLocation;

/// *where: what is wrong; what to do*. Where is a place in the device crate's source, if it is known.
#[derive(Debug, PartialEq)]
pub(crate) struct Error {
    place: Option<String>,
    message: String,
}

/// What a step of the emitter gives.
pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error that belongs to no place.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { place: None, message: message.into() }
    }

    /// An error at `file:line`, the place of some call.
    pub(crate) fn at(place: &std::panic::Location, message: impl Into<String>) -> Self {
        Self { place: Some(shown(place)), message: message.into() }
    }

    /// An error in device code, at `file:line:column`.
    pub(crate) fn in_source(place: &SourceLocation, message: impl Into<String>) -> Self {
        // Columns are counted from 0 there, and from 1 by rustc and by editors.
        let place = place.is_known().then(|| format!("{}:{}:{}", place.file, place.line, place.column + 1));
        Self { place, message: message.into() }
    }
}

/// `file:line`.
pub(crate) fn shown(place: &std::panic::Location) -> String {
    format!("{}:{}", place.file(), place.line())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
