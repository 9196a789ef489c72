//! Places in bytes.

use crate::Bytes;
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A place on a disk, a flash device or in a file: how many bytes lie before it.
///
/// [`Bytes`] is a length. The distance between two places is a length, and a place and a length make a
/// place; two places make no sum.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(u64);

impl Offset {
    /// The beginning.
    pub const ZERO: Self = Self(0);

    /// The place that many bytes from the beginning.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The place where that many bytes end that begin at the beginning.
    pub const fn after(length: Bytes) -> Self {
        Self(length.get())
    }

    /// That many KiB (1,024 bytes each) from the beginning.
    ///
    /// # Panics
    /// If the product does not fit in 64 bits.
    pub const fn kib(kib: u64) -> Self {
        Self::after(Bytes::kib(kib))
    }

    /// That many MiB (1,048,576 bytes each) from the beginning.
    ///
    /// # Panics
    /// If the product does not fit in 64 bits.
    pub const fn mib(mib: u64) -> Self {
        Self::after(Bytes::mib(mib))
    }

    /// The number itself.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number as a place in memory.
    ///
    /// # Panics
    /// If it does not fit in the address space, which a bound checked at the edge rules out.
    pub fn to_usize(self) -> usize {
        usize::try_from(self.0).expect("a place in memory fits in the address space")
    }

    /// What lies before the place.
    pub const fn from_start(self) -> Bytes {
        Bytes::new(self.0)
    }

    /// True if a whole multiple of `unit` bytes lies before it.
    pub const fn is_multiple_of(self, unit: u64) -> bool {
        self.0.is_multiple_of(unit)
    }

    /// The place `length` before, or the beginning if that lies beyond it.
    pub const fn saturating_sub(self, length: Bytes) -> Self {
        Self(self.0.saturating_sub(length.get()))
    }

    /// The place `length` further, or `None` if it does not fit.
    pub const fn checked_add(self, length: Bytes) -> Option<Self> {
        match self.0.checked_add(length.get()) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }
}

impl Add<Bytes> for Offset {
    type Output = Self;
    fn add(self, length: Bytes) -> Self {
        Self(
            self.0
                .checked_add(length.get())
                .expect("offsets fit in 64 bits"),
        )
    }
}

impl AddAssign<Bytes> for Offset {
    fn add_assign(&mut self, length: Bytes) {
        *self = *self + length;
    }
}

impl Sub for Offset {
    type Output = Bytes;
    fn sub(self, earlier: Self) -> Bytes {
        let distance = self.0.checked_sub(earlier.0);
        Bytes::new(distance.expect("a distance is not negative"))
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.from_start(), f)
    }
}

impl fmt::Debug for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_lengths_make_places_and_lengths() {
        let place = Offset::kib(4) + Bytes::new(512);
        assert_eq!(place, Offset::new(4608));
        assert_eq!(place - Offset::kib(4), Bytes::new(512));
        assert_eq!(Offset::new(u64::MAX).checked_add(Bytes::new(1)), None);
    }

    #[test]
    #[should_panic(expected = "a distance is not negative")]
    fn a_later_place_has_no_distance_from_an_earlier_one() {
        let _ = Offset::ZERO - Offset::new(1);
    }
}
