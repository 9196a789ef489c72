//! How the RAM of a share is split between staged bytes and addresses.

use std::fmt;

use units::{BLOCK_BYTES, Bytes};

use super::Share;
use crate::replacement::{BadValue, Fraction, Parameter};

/// RAM for staged bytes: a part of the tenant's flash, or a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSize {
    /// A part of its flash.
    Part(Fraction),
    /// So many bytes.
    Bytes(Bytes),
}

/// The parameter of policies that stage what is new; it takes a [`DataSize`].
pub(super) const DATA_PARAMETER: Parameter = Parameter {
    name: "data",
    meaning: "RAM for newcomers' bytes",
    takes: "a part of the flash from 0 to 1, or a size such as 64MiB",
};

/// The parameter of policies that remember what left the staged data, or never was there.
pub(super) const GHOSTS_PARAMETER: Parameter = Parameter {
    name: "ghosts",
    meaning: "addresses remembered, as a part of the blocks of flash",
    takes: "0 to 16",
};

/// The most ghosts: as many as help in any study, and within a third of a hundredth of the flash's bytes
/// each.
const GHOSTS_MOST: Fraction = Fraction::millionths(16_000_000);

/// Reads the value of [`GHOSTS_PARAMETER`].
pub(super) fn parse_ghosts(text: &str) -> Result<Fraction, BadValue> {
    Fraction::parse(text, Fraction::ZERO, GHOSTS_MOST)
}

impl DataSize {
    pub(super) fn parse(text: &str) -> Result<Self, BadValue> {
        if text.ends_with(['B', 'b']) {
            return text.parse().map(Self::Bytes).map_err(|_| BadValue);
        }
        Fraction::parse(text, Fraction::ZERO, Fraction::ONE).map(Self::Part)
    }

    fn of(self, flash: Bytes) -> Bytes {
        match self {
            Self::Part(part) => part.of_bytes(flash).expect("a part is not more"),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl fmt::Display for DataSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(part) => part.fmt(f),
            Self::Bytes(bytes) => f.write_str(&exactly(*bytes)),
        }
    }
}

/// A size in a form that is read as the same size: people's form rounds.
pub(super) fn exactly(bytes: Bytes) -> String {
    let text = bytes.to_string();
    if text.parse() == Ok(bytes) {
        text
    } else {
        format!("{}B", bytes.get())
    }
}

/// What is wanted beside each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// For staged blocks, bytes and rows.
    pub(super) data: DataSize,
    /// What knowing a staged block costs beside its bytes.
    pub(super) row_bytes: u64,
    /// Addresses, as a part of the blocks of flash.
    pub(super) ghosts: Fraction,
    /// What knowing an address costs.
    pub(super) ghost_bytes: u64,
    /// Hundredths of the RAM that addresses may take before staged bytes get anything.
    pub(super) ghosts_first: u64,
}

/// What there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    /// Blocks that may be staged.
    pub(super) data_blocks: u64,
    /// Addresses.
    pub(super) ghosts: u64,
}

/// What was wanted. If that does not fit into the share's RAM: as much of each part as fits, in proportion,
/// but of addresses at least what comes first.
pub(super) fn split(wanted: Wanted, share: Share) -> Split {
    let flash = Bytes::new(share.blocks.saturating_mul(BLOCK_BYTES));
    let data = u128::from(wanted.data.of(flash).get());
    let blocks = Bytes::new(share.blocks);
    let ghosts = wanted.ghosts.of_bytes(blocks).unwrap_or(blocks);
    let ghosts = u128::from(ghosts.get()) * u128::from(wanted.ghost_bytes);
    let whole = (data + ghosts).max(1);
    let granted = whole.min(u128::from(share.staging.get()));
    let first = granted * u128::from(wanted.ghosts_first) / 100;
    let ghosts = (ghosts * granted / whole).max(ghosts.min(first));
    let data = data.min(granted - ghosts);
    let count = |bytes: u128, unit: u64| {
        u64::try_from(bytes / u128::from(unit)).expect("within the staging RAM")
    };
    Split {
        data_blocks: count(data, BLOCK_BYTES + wanted.row_bytes),
        ghosts: count(ghosts, wanted.ghost_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(data: &str) -> Wanted {
        Wanted {
            data: DataSize::parse(data).unwrap(),
            row_bytes: 25,
            ghosts: Fraction::ONE,
            ghost_bytes: 25,
            ghosts_first: 0,
        }
    }

    /// 1 % of 100,000 blocks are 4,096,000 bytes: 993 blocks of 4,121 bytes. 100,000 addresses of 25
    /// bytes are 2,500,000. Of half the sum each gets half.
    #[test]
    fn ram_is_split_in_proportion() {
        let of = |staging| split(wanted("0.01"), Share::new(100_000, Bytes::new(staging)));
        let all = Split {
            data_blocks: 993,
            ghosts: 100_000,
        };
        assert_eq!(of(6_596_000), all);
        assert_eq!(of(u64::MAX), all);
        let half = Split {
            data_blocks: 496,
            ghosts: 50_000,
        };
        assert_eq!(of(3_298_000), half);
        assert_eq!(of(0).data_blocks, 0);
    }

    /// Of 1,000,000 bytes 750,000 come first: 30,000 addresses. What is left holds 60 blocks.
    #[test]
    fn addresses_can_come_first() {
        let wanted = Wanted {
            ghosts_first: 75,
            ..wanted("0.01")
        };
        let little = split(wanted, Share::new(100_000, Bytes::new(1_000_000)));
        let expected = Split {
            data_blocks: 60,
            ghosts: 30_000,
        };
        assert_eq!(little, expected);
        let all = split(wanted, Share::new(100_000, Bytes::mib(10)));
        assert_eq!((all.data_blocks, all.ghosts), (993, 100_000));
    }

    #[test]
    fn data_sizes_are_read_and_written() {
        for text in ["0.01", "64MiB", "1", "0", "65929B"] {
            assert_eq!(DataSize::parse(text).unwrap().to_string(), text);
        }
        assert!(DataSize::parse("1.5").is_err());
        assert!(DataSize::parse("MiB").is_err());
    }
}
