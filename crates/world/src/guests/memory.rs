//! A guest's memory, where it wants the bytes of a read: it writes there while it is being read,
//! and nobody else may once the read is answered.

use block_io::{GuestBuffer, Slice};
use std::cell::{Cell, RefCell};
use std::fmt;

/// Memory for one read.
pub(crate) struct GuestMemory {
    bytes: RefCell<Vec<u8>>,
    /// So many looks at it find a byte that the guest has changed.
    scribbles: Cell<u32>,
    is_answered: Cell<bool>,
}

impl GuestMemory {
    pub(crate) fn new(bytes: usize, scribbles: u32) -> Self {
        Self {
            bytes: RefCell::new(vec![0xa5; bytes]),
            scribbles: Cell::new(scribbles),
            is_answered: Cell::new(false),
        }
    }

    /// The guest has its answer and uses its memory for something else.
    pub(crate) fn answered(&self) {
        self.is_answered.set(true);
    }

    /// The cache brings the rest of it.
    pub(crate) fn complete(&self, rest: &[(usize, Slice)]) {
        for (at, bytes) in rest {
            self.store(*at, bytes);
        }
    }

    /// All of it.
    pub(crate) fn contents(&self) -> Vec<u8> {
        self.bytes.borrow().clone()
    }
}

impl fmt::Debug for GuestMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GuestMemory({}B)", self.bytes.borrow().len())
    }
}

impl GuestBuffer for GuestMemory {
    fn bytes(&self) -> usize {
        self.bytes.borrow().len()
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        let mut bytes = self.bytes.borrow_mut();
        if let Some(left) = self.scribbles.get().checked_sub(1) {
            self.scribbles.set(left);
            bytes[at + into.len() / 2] ^= 0x40;
        }
        into.copy_from_slice(&bytes[at..at + into.len()]);
    }

    fn store(&self, at: usize, from: &[u8]) {
        assert!(
            !self.is_answered.get(),
            "nothing comes into a guest's memory after its read was answered"
        );
        self.bytes.borrow_mut()[at..at + from.len()].copy_from_slice(from);
    }
}
