//! What a policy makes of writes.

use std::fmt;

use crate::replacement::{BadValue, Parameter};

/// What a policy makes of a written block that is neither staged nor on flash. The origin has its bytes; it
/// gains from flash only if it is read before it leaves again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// It is treated like a read: its bytes are kept.
    #[default]
    Data,
    /// It counts as an access, but its bytes are not kept on the first one.
    Address,
    /// It is refused, but remembered: a read that comes back to it may admit it.
    Note,
    /// It is refused and counts for nothing: only reads do.
    Ignore,
}

/// The parameter of policies that have the choice.
pub(super) const WRITES: Parameter = Parameter {
    name: "writes",
    meaning: "a written block's first access: its bytes are kept, its address is, the same and only reads admit, or writes count for nothing",
    takes: "data, address, note or ignore",
};

impl Writes {
    pub(super) fn parse(text: &str) -> Result<Self, BadValue> {
        let all = [Self::Data, Self::Address, Self::Note, Self::Ignore];
        let found = all.into_iter().find(|writes| writes.name() == text);
        found.ok_or(BadValue)
    }

    /// Whether a write is never admitted.
    pub(super) const fn refused(self) -> bool {
        matches!(self, Self::Note | Self::Ignore)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Address => "address",
            Self::Note => "note",
            Self::Ignore => "ignore",
        }
    }
}

impl fmt::Display for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
