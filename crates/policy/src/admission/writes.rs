//! What a policy makes of writes.

use std::fmt;

use super::returns::Returns;
use crate::replacement::{BadValue, Fraction, Key, Parameter};
use units::Bytes;

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

    /// What pays where this part of the written blocks is read in time; `None`: it is not known.
    fn that_pay(read: Option<Fraction>) -> Self {
        match read {
            Some(read) if read >= PAYS => Self::Data,
            Some(read) if read < SAYS_SOMETHING => Self::Ignore,
            Some(_) | None => Self::Note,
        }
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

/// What a policy makes of a written block if it may learn that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteRule {
    /// Always this.
    Fixed(Writes),
    /// What pays for the written blocks of this tenant, by how many of them are read before they are written again.
    Learned,
}

/// The parameter of policies that may learn it.
pub(super) const WRITE_RULE: Parameter = Parameter {
    name: "writes",
    meaning: "a written block's first access: its bytes are kept, its address is, the same and only reads admit, or writes count for nothing; learned picks what pays",
    takes: "data, address, note, ignore or learned",
};

const LEARNED: &str = "learned";

/// Where one written block in so many is read next, its bytes go to flash with the write.
const PAYS: Fraction = Fraction::millionths(250_000);
/// Where fewer are, not even the address says anything.
const SAYS_SOMETHING: Fraction = Fraction::millionths(100_000);

impl WriteRule {
    pub(super) fn parse(text: &str) -> Result<Self, BadValue> {
        match text {
            LEARNED => Ok(Self::Learned),
            _ => Writes::parse(text).map(Self::Fixed),
        }
    }
}

/// Written blocks that pass by, as a [`WriteRule`] has it: what is made of each.
#[derive(Debug)]
pub(super) enum Written {
    /// Always this.
    Fixed(Writes),
    /// What pays, by what became of earlier ones.
    Learned(Returns),
}

impl Written {
    /// Nothing was written. `span` is the time in which a written block must be read, by the clock of the calls.
    pub(super) fn new(rule: WriteRule, span: u64) -> Self {
        match rule {
            WriteRule::Fixed(writes) => Self::Fixed(writes),
            WriteRule::Learned => Self::Learned(Returns::new(span)),
        }
    }

    /// From now on a written block must be read within this time.
    pub(super) fn set_span(&mut self, span: u64) {
        if let Self::Learned(earlier) = self {
            earlier.set_span(span);
        }
    }

    /// A written block passes by that is nowhere: what is made of it. Of a sampled one it is always the same, so that what
    /// becomes of it can be seen.
    pub(super) fn passes(&mut self, key: impl Key, now: u64) -> Writes {
        match self {
            Self::Fixed(writes) => *writes,
            Self::Learned(earlier) => {
                let writes = Writes::that_pay(earlier.part());
                let is_sampled = earlier.passes(key, now);
                if is_sampled { Writes::Note } else { writes }
            }
        }
    }

    /// A block is read that is nowhere.
    pub(super) fn read(&mut self, key: impl Key, now: u64) {
        if let Self::Learned(earlier) = self {
            earlier.read(key, now);
        }
    }

    /// Whether it learns what pays.
    pub(super) const fn is_learned(&self) -> bool {
        matches!(self, Self::Learned(_))
    }

    /// Memory that it holds.
    pub(super) fn memory(&self) -> Bytes {
        match self {
            Self::Fixed(_) => Bytes::ZERO,
            Self::Learned(earlier) => earlier.memory(),
        }
    }
}

impl fmt::Display for WriteRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(writes) => writes.fmt(f),
            Self::Learned => f.write_str(LEARNED),
        }
    }
}
