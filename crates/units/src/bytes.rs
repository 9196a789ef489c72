//! Byte counts.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

/// A count of bytes. A place is an [`Offset`](crate::Offset).
///
/// Written and parsed with binary units: `4KiB`, `1.5GiB`, `512`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

const UNITS: [(&str, u64); 5] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// That many bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// That many KiB (1,024 bytes each).
    ///
    /// # Panics
    /// If the product does not fit in 64 bits.
    pub const fn kib(kib: u64) -> Self {
        Self(kib.checked_mul(1 << 10).expect("fits in 64 bits"))
    }

    /// That many MiB (1,048,576 bytes each).
    ///
    /// # Panics
    /// If the product does not fit in 64 bits.
    pub const fn mib(mib: u64) -> Self {
        Self(mib.checked_mul(1 << 20).expect("fits in 64 bits"))
    }

    /// That many GiB (1,073,741,824 bytes each).
    ///
    /// # Panics
    /// If the product does not fit in 64 bits.
    pub const fn gib(gib: u64) -> Self {
        Self(gib.checked_mul(1 << 30).expect("fits in 64 bits"))
    }

    /// The number itself.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number as a length in memory.
    ///
    /// # Panics
    /// If it does not fit in the address space, which a bound checked at the edge rules out.
    pub fn to_usize(self) -> usize {
        usize::try_from(self.0).expect("a length in memory fits in the address space")
    }

    /// True for no bytes.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// True if this is a whole multiple of `unit` bytes.
    pub const fn is_multiple_of(self, unit: u64) -> bool {
        self.0.is_multiple_of(unit)
    }

    /// The sum, or `None` if it does not fit.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// The difference, or zero if `other` is larger.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(
            self.0
                .checked_add(other.0)
                .expect("byte counts fit in 64 bits"),
        )
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(
            self.0
                .checked_sub(other.0)
                .expect("byte counts are not negative"),
        )
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
        values.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Bytes {
    /// The largest unit that divides it evenly, else two decimals of the largest unit below it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, size) in UNITS {
            if self.0 >= size && self.0.is_multiple_of(size) {
                return write!(f, "{}{name}", self.0 / size);
            }
            if self.0 >= size.saturating_mul(16) && size > 1 {
                let hundredths = u128::from(self.0) * 100 / u128::from(size);
                return write!(f, "{}.{:02}{name}", hundredths / 100, hundredths % 100);
            }
        }
        write!(f, "{}B", self.0)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}B", self.0)
    }
}

/// Why a text is not a size.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{text}' is not a size: write {}", self.meant())]
pub struct ParseBytesError {
    text: String,
}

impl ParseBytesError {
    /// What was probably meant: units are powers of 1024, and are written so.
    fn meant(&self) -> String {
        let trimmed = self.text.trim();
        let unit = trimmed.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = &trimmed[..trimmed.len() - unit.len()];
        let letter = unit.trim().to_ascii_uppercase();
        let letter = letter.strip_suffix('B').unwrap_or(&letter);
        let meant = UNITS.iter().map(|(name, _)| *name);
        let meant = meant
            .filter(|name| name.len() == 3)
            .find(|name| name.strip_suffix("iB") == Some(letter));
        match meant {
            Some(name) if !number.is_empty() => format!("{number}{name}"),
            _ => "a number and a unit, such as 4KiB, 512MiB, 1.5GiB or 2TiB".to_owned(),
        }
    }
}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Self, ParseBytesError> {
        let error = || ParseBytesError {
            text: text.to_owned(),
        };
        let trimmed = text.trim();
        let split = trimmed
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let size = match unit.trim() {
            "" => 1,
            unit => UNITS
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(unit))
                .map(|(_, size)| *size)
                .ok_or_else(error)?,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || fraction.len() > 9 || (number.contains('.') && fraction.is_empty()) {
            return Err(error());
        }
        let whole: u64 = whole.parse().map_err(|_| error())?;
        let mut bytes = u128::from(whole) * u128::from(size);
        if !fraction.is_empty() {
            let digits: u128 = fraction.parse().map_err(|_| error())?;
            let scale = 10_u128.pow(u32::try_from(fraction.len()).map_err(|_| error())?);
            bytes += digits * u128::from(size) / scale;
        }
        u64::try_from(bytes).map(Self).map_err(|_| error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_print_with_the_largest_even_unit() {
        assert_eq!(Bytes::new(0).to_string(), "0B");
        assert_eq!(Bytes::new(4096).to_string(), "4KiB");
        assert_eq!(Bytes::gib(3).to_string(), "3GiB");
        assert_eq!(Bytes::new(1000).to_string(), "1000B");
        assert_eq!(Bytes::new(100_000_000).to_string(), "95.36MiB");
    }

    #[test]
    fn sizes_parse_what_they_print() {
        for bytes in [0, 1, 512, 4096, 1 << 20, 5 << 30, 3 << 40] {
            let size = Bytes::new(bytes);
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        assert_eq!("1.5GiB".parse(), Ok(Bytes::mib(1536)));
        assert_eq!("64 kib".parse(), Ok(Bytes::kib(64)));
    }

    #[test]
    fn a_unit_of_another_spelling_is_answered_with_ours() {
        for (text, meant) in [
            ("64MB", "write 64MiB"),
            ("50G", "write 50GiB"),
            ("1.5 tb", "write 1.5TiB"),
            ("4k", "write 4KiB"),
            ("4blk", "a number and a unit"),
            ("GB", "a number and a unit"),
        ] {
            let error = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(error.contains(meant), "{text}: {error}");
        }
    }

    #[test]
    fn texts_that_are_no_sizes_are_refused() {
        for text in [
            "",
            "GiB",
            "-1",
            "4KB",
            "1.GiB",
            ".5MiB",
            "99999999TiB",
            "1e3",
            "4 4KiB",
        ] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
