//! How memory that a guest can write is reached.
//!
//! Both traits take `&self` to write: the memory is shared with the guest whatever we do, so
//! exclusive access would promise what nobody can keep. Implementations copy; they never hand
//! out references into guest memory.

use std::fmt;

/// An address in the guest's physical memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestAddress(pub u64);

impl fmt::Display for GuestAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl GuestAddress {
    /// The address so many bytes further, if there is one.
    pub fn checked_add(self, bytes: u64) -> Option<Self> {
        self.0.checked_add(bytes).map(Self)
    }
}

/// Memory that no region covers, or not in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{length} bytes at {at} are not the guest's memory")]
pub struct Unmapped {
    /// Where.
    pub at: GuestAddress,
    /// How many bytes.
    pub length: u64,
}

/// One piece of shared memory: part of a ring, or the inflight region. Offsets are in bytes.
///
/// # Panics
/// Every method if it would reach beyond [`Area::len`]: whoever makes an area checks that it is
/// as long as its use needs, and offsets are computed from that.
pub trait Area {
    /// Bytes in it.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes out, each read once.
    fn load(&self, at: usize, into: &mut [u8]);

    /// Copies bytes in.
    fn store(&self, at: usize, from: &[u8]);

    /// An aligned number, before anything that is loaded later (acquire).
    fn load_u16(&self, at: usize) -> u16;

    /// An aligned number, after everything that was stored earlier (release).
    fn store_u16(&self, at: usize, value: u16);
}

/// All of a guest's memory, by guest address. A range may lie across regions.
pub trait GuestMemory {
    /// Copies bytes out, each read once.
    ///
    /// # Errors
    /// If not all of the range is the guest's; what `into` holds then is undefined.
    fn read(&self, at: GuestAddress, into: &mut [u8]) -> Result<(), Unmapped>;
}

impl<T: Area + ?Sized> Area for &T {
    fn len(&self) -> usize {
        (**self).len()
    }
    fn load(&self, at: usize, into: &mut [u8]) {
        (**self).load(at, into);
    }
    fn store(&self, at: usize, from: &[u8]) {
        (**self).store(at, from);
    }
    fn load_u16(&self, at: usize) -> u16 {
        (**self).load_u16(at)
    }
    fn store_u16(&self, at: usize, value: u16) {
        (**self).store_u16(at, value);
    }
}

#[cfg(test)]
pub(crate) mod fake {
    //! Memory in a vector, for the tests of this crate.

    use super::{Area, GuestAddress, GuestMemory, Unmapped};
    use std::cell::RefCell;

    /// Memory from guest address zero on.
    #[derive(Debug)]
    pub(crate) struct Fake(pub(crate) RefCell<Vec<u8>>);

    impl Fake {
        pub(crate) fn new(bytes: usize) -> Self {
            Self(RefCell::new(vec![0; bytes]))
        }

        /// An area of it.
        pub(crate) fn area(&self, start: usize, length: usize) -> FakeArea<'_> {
            assert!(start + length <= self.0.borrow().len());
            FakeArea {
                memory: self,
                start,
                length,
            }
        }

        pub(crate) fn put(&self, at: usize, bytes: &[u8]) {
            self.0.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    impl GuestMemory for Fake {
        fn read(&self, at: GuestAddress, into: &mut [u8]) -> Result<(), Unmapped> {
            let length = into.len() as u64;
            let unmapped = Unmapped { at, length };
            let start = usize::try_from(at.0).map_err(|_| unmapped)?;
            let end = start.checked_add(into.len()).ok_or(unmapped)?;
            let memory = self.0.borrow();
            into.copy_from_slice(memory.get(start..end).ok_or(unmapped)?);
            Ok(())
        }
    }

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct FakeArea<'a> {
        memory: &'a Fake,
        start: usize,
        length: usize,
    }

    impl Area for FakeArea<'_> {
        fn len(&self) -> usize {
            self.length
        }
        fn load(&self, at: usize, into: &mut [u8]) {
            assert!(at + into.len() <= self.length);
            let start = self.start + at;
            into.copy_from_slice(&self.memory.0.borrow()[start..start + into.len()]);
        }
        fn store(&self, at: usize, from: &[u8]) {
            assert!(at + from.len() <= self.length);
            self.memory.put(self.start + at, from);
        }
        fn load_u16(&self, at: usize) -> u16 {
            let mut bytes = [0; 2];
            self.load(at, &mut bytes);
            u16::from_le_bytes(bytes)
        }
        fn store_u16(&self, at: usize, value: u16) {
            self.store(at, &value.to_le_bytes());
        }
    }
}
