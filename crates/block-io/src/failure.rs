//! The kinds of failures of flash and origin that an operator is told of, each with a number that
//! a program recognises it by.
//!
//! The number of a kind is its `MESSAGE_ID` in the systemd journal. It never changes and is never
//! given to another kind. The book lists them all (`trouble.md`); a test compares.

use crate::{FlashVerb, IoError, OriginVerb, Token};
use std::collections::BTreeMap;
use std::io;
use units::{Bytes, Offset};

/// Declares the kinds: name in the code, name in the log, number.
macro_rules! failure_kinds {
    ($($(#[doc = $doc:literal])* $kind:ident = $name:literal, $id:literal;)*) => {
        /// What has failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FailureKind {
            $($(#[doc = $doc])* $kind,)*
        }

        impl FailureKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// The kind's name in the log.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// The kind's number, 32 hexadecimal digits.
            pub const fn message_id(self) -> &'static str {
                match self {
                    $(Self::$kind => $id,)*
                }
            }
        }
    };
}

failure_kinds! {
    /// The origin answered a read with an error, or not in time.
    OriginRead = "origin-read", "6a9ab4a1b4af4e968e36275d7cf59983";
    /// The origin answered a write, a discard or a write-zeroes with an error, or not in time.
    OriginWrite = "origin-write", "b2a2f4c48f3344eb990b2d647ebddbb4";
    /// The origin answered a flush with an error, or not in time.
    OriginFlush = "origin-flush", "71034212a09740a2a08679c3e3dcdbdb";
    /// The connection to the origin was lost.
    OriginLost = "origin-lost", "03dea1fe7eac4ee08f28a75982930509";
    /// The origin came back with another size, so it is not used.
    OriginChanged = "origin-changed", "f2053a4eb91c42dea53e818e088c0516";
    /// The flash failed a read.
    FlashRead = "flash-read", "7edb0d1b3da440aa9dbf81117c246488";
    /// The flash failed a write.
    FlashWrite = "flash-write", "62b87627ec5d48c6915ef752d8c4c043";
    /// The flash failed a flush.
    FlashFlush = "flash-flush", "d360a301db61459bb1628f56a4bdcd2d";
    /// What came from flash is not what was written there: its checksum is wrong.
    FlashDamaged = "flash-damaged", "1c8d4010f30544d1a8da073d066a8b37";
    /// The cache has given its flash up and serves every disk from its origin.
    FlashGivenUp = "flash-given-up", "d7df58139657470482b67e1ecc043d22";
    /// The flash could not be used when the cache was opened.
    FlashUnusable = "flash-unusable", "867fa341875043d0b09dae4fd80c1765";
}

impl FailureKind {
    /// The kind of a failed operation of an origin.
    pub const fn of_origin(verb: &OriginVerb) -> Self {
        match verb {
            OriginVerb::Read { .. } => Self::OriginRead,
            OriginVerb::Write { .. }
            | OriginVerb::Discard { .. }
            | OriginVerb::WriteZeroes { .. } => Self::OriginWrite,
            OriginVerb::Flush => Self::OriginFlush,
        }
    }

    /// The kind of a failed operation of flash.
    pub const fn of_flash(verb: &FlashVerb) -> Self {
        match verb {
            FlashVerb::Read { .. } | FlashVerb::ReadInto { .. } => Self::FlashRead,
            FlashVerb::Write { .. } => Self::FlashWrite,
            FlashVerb::Flush => Self::FlashFlush,
        }
    }
}

/// A range of bytes that an operation is about; nothing for a flush, which is about all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins, in bytes.
    pub offset: Offset,
    /// How long it is, in bytes.
    pub length: Bytes,
}

impl OriginVerb {
    /// Which bytes this is about; none for a flush.
    pub fn extent(&self) -> Option<Extent> {
        let (offset, length) = match self {
            Self::Write { offset, data, .. } => (*offset, Bytes::new(data.len() as u64)),
            Self::Read { offset, length, .. }
            | Self::Discard { offset, length }
            | Self::WriteZeroes { offset, length, .. } => (*offset, *length),
            Self::Flush => return None,
        };
        Some(Extent { offset, length })
    }
}

impl FlashVerb {
    /// Which bytes this is about; none for a flush.
    pub fn extent(&self) -> Option<Extent> {
        let (offset, length) = match self {
            Self::Read { offset, length, .. } => (*offset, *length),
            Self::ReadInto { offset, place } => (*offset, Bytes::new(place.len() as u64)),
            Self::Write { offset, data, .. } => (*offset, Bytes::new(data.len() as u64)),
            Self::Flush => return None,
        };
        Some(Extent { offset, length })
    }
}

impl IoError {
    /// The system's name and number (on Linux) of the error that a guest gets for this.
    pub const fn errno(self) -> (&'static str, i32) {
        match self {
            Self::Failed | Self::Disconnected => ("EIO", 5),
            Self::NoSpace => ("ENOSPC", 28),
            Self::NotPermitted => ("EPERM", 1),
            Self::Invalid => ("EINVAL", 22),
            Self::TimedOut => ("ETIMEDOUT", 110),
            Self::ShuttingDown => ("ESHUTDOWN", 108),
        }
    }
}

/// The numbers that the system or a server gave for operations that fail, by their tokens.
///
/// [`IoError`] has few kinds, and a guest learns no more than them; the number is for the log. It is kept
/// for an operation that is sure to be handed back as failed, and forgotten when it is asked for. Whoever
/// asks of each operation that has failed leaves none behind.
#[derive(Clone, Debug, Default)]
pub struct ErrorNumbers(BTreeMap<Token, i32>);

impl ErrorNumbers {
    /// The kind of an error of the operating system that fails an operation. The number is kept.
    pub fn kind_of(&mut self, token: Token, error: &io::Error) -> IoError {
        self.keep(&[token], error.raw_os_error());
        IoError::of(error)
    }

    /// Keeps the number of an error that fails these operations, if it has one.
    pub fn keep(&mut self, tokens: &[Token], number: Option<i32>) {
        if let Some(number) = number {
            self.0.extend(tokens.iter().map(|token| (*token, number)));
        }
    }

    /// The number of an operation that has failed, once.
    pub fn take(&mut self, token: Token) -> Option<i32> {
        self.0.remove(&token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_has_a_name_and_a_number_of_its_own() {
        let names: BTreeSet<_> = FailureKind::ALL.iter().map(|kind| kind.name()).collect();
        let ids: BTreeSet<_> = FailureKind::ALL
            .iter()
            .map(|kind| kind.message_id())
            .collect();
        assert_eq!(names.len(), FailureKind::ALL.len());
        assert_eq!(ids.len(), FailureKind::ALL.len());
        for id in ids {
            let hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
            assert!(id.len() == 32 && id.chars().all(hex), "{id}");
        }
    }

    #[test]
    fn a_number_is_kept_until_it_is_asked_for() {
        let mut numbers = ErrorNumbers::default();
        let error = io::Error::from_raw_os_error(121);
        assert_eq!(numbers.kind_of(Token(1), &error), IoError::Failed);
        numbers.keep(&[Token(2), Token(3)], Some(12));
        numbers.keep(&[Token(4)], None);
        assert_eq!(numbers.take(Token(1)), Some(121));
        assert_eq!(numbers.take(Token(1)), None);
        assert_eq!(numbers.take(Token(3)), Some(12));
        assert_eq!(numbers.take(Token(2)), Some(12));
        assert_eq!(numbers.take(Token(4)), None, "the error had none");
        assert!(numbers.0.is_empty());
    }

    #[test]
    fn the_book_lists_every_kind_with_its_number() {
        let book = include_str!("../../../book/src/trouble.md");
        for kind in FailureKind::ALL {
            let row = format!("| `{}` | `{}` |", kind.name(), kind.message_id());
            assert!(book.contains(&row), "trouble.md lacks {row}");
        }
    }

    #[test]
    fn a_flush_is_about_no_range() {
        assert_eq!(OriginVerb::Flush.extent(), None);
        assert_eq!(FlashVerb::Flush.extent(), None);
        let (offset, length) = (Offset::kib(8), Bytes::kib(4));
        let discard = OriginVerb::Discard { offset, length };
        assert_eq!(discard.extent(), Some(Extent { offset, length }));
    }
}
