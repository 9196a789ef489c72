//! Memory that is not ours alone: parts of a guest's, mapped into this process.
//!
//! A [`crate::Op::ReadInto`] fills it without a copy of ours in between. The kernel writes there as
//! a device would; no reference to it is ever made here.

#![allow(
    unsafe_code,
    reason = "who makes one vouches for pointers that the kernel will write through"
)]

use smallvec::SmallVec;
use std::any::Any;
use std::fmt;
use std::rc::Rc;

/// Pieces of memory that a read fills one after the other, and what keeps them mapped.
pub struct Foreign {
    vectors: SmallVec<[libc::iovec; 1]>,
    length: usize,
    _keeper: Rc<dyn Any>,
}

impl Foreign {
    /// The pieces, each by its first byte and its length.
    ///
    /// # Safety
    /// Every byte of every piece must stay mapped and writable for as long as `keeper` lives.
    /// Nobody may hold a reference to any of them; who else writes there meanwhile does not
    /// matter.
    pub unsafe fn new(pieces: impl Iterator<Item = (*mut u8, usize)>, keeper: Rc<dyn Any>) -> Self {
        let mut length = 0;
        let vectors = pieces.map(|(base, bytes)| {
            length += bytes;
            libc::iovec {
                iov_base: base.cast(),
                iov_len: bytes,
            }
        });
        let vectors = vectors.collect();
        Self {
            vectors,
            length,
            _keeper: keeper,
        }
    }

    /// Bytes of all pieces.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether every piece begins and ends at a multiple of `unit` bytes, as direct I/O asks.
    pub fn is_aligned_to(&self, unit: usize) -> bool {
        self.vectors.iter().all(|vector| {
            vector.iov_base.addr().is_multiple_of(unit) && vector.iov_len.is_multiple_of(unit)
        })
    }

    /// The pieces as the kernel wants them. A single one is told by value, since what is inside
    /// of this struct moves with it; more lie on the heap and stay where they are.
    pub(crate) fn vectors(&self) -> Vectors {
        match self.vectors.as_slice() {
            [one] => Vectors::One(*one),
            many => Vectors::Many(many.as_ptr(), many.len()),
        }
    }
}

pub(crate) enum Vectors {
    One(libc::iovec),
    Many(*const libc::iovec, usize),
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Foreign({}B in {})", self.length, self.vectors.len())
    }
}
