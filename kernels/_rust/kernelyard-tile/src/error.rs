//! What the author of a device crate is told.

use std::fmt;

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

    /// An error at `file:line` or `file:line:column`.
    pub(crate) fn at(place: impl fmt::Display, message: impl Into<String>) -> Self {
        Self { place: Some(place.to_string()), message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
