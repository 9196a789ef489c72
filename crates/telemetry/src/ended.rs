//! Spans that have ended, as data.

use crate::context::Context;
use crate::limits::TEXT_BYTES_MAX;

/// What a span is to what is above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A step of the daemon's own.
    Internal,
    /// Somebody asked for it, who waits.
    Server,
}

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        Self::Text(text[..end].to_owned())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

pub(crate) type Attribute = (&'static str, Value);

/// A moment in a span.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moment {
    pub(crate) name: &'static str,
    pub(crate) at_nanos: u64,
    pub(crate) attributes: Vec<Attribute>,
}

/// A span that has ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ended {
    pub(crate) context: Context,
    /// The span above it, and whether that is of another process.
    pub(crate) above: Option<(u64, bool)>,
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// In nanoseconds since 1970.
    pub(crate) began_nanos: u64,
    pub(crate) end_nanos: u64,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) attributes_left_out: u32,
    pub(crate) moments: Vec<Moment>,
    pub(crate) moments_left_out: u32,
    /// Why it failed, if it did.
    pub(crate) failure: Option<String>,
}
