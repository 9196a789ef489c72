//! Memory that is not ours alone: parts of a guest's, mapped into this process.
//!
//! A [`crate::Op::ReadInto`] fills it without a copy of ours in between. The kernel writes there as
//! a device would; no reference to it is ever made here. As a [`GuestBuffer`] it goes through the core,
//! which copies out what it judges.

#![allow(
    unsafe_code,
    reason = "who makes one vouches for pointers that the kernel, and we, will write through"
)]

use block_io::GuestBuffer;
use smallvec::SmallVec;
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::ptr;
use std::rc::Rc;

/// Pieces of memory that a read fills one after the other, and what keeps them mapped.
pub struct Foreign {
    vectors: SmallVec<[libc::iovec; 1]>,
    length: usize,
    keeper: Rc<dyn Any>,
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
            keeper,
        }
    }

    /// The bytes `range` of it, kept mapped likewise.
    ///
    /// # Panics
    /// If they are not all within it.
    pub fn part(&self, range: Range<usize>) -> Self {
        let mut vectors = SmallVec::new();
        self.walk(range.clone(), |base, bytes| {
            vectors.push(libc::iovec {
                iov_base: base.cast(),
                iov_len: bytes,
            });
        });
        Self {
            vectors,
            length: range.len(),
            keeper: Rc::clone(&self.keeper),
        }
    }

    /// Calls `each` with the pieces of a range, in order: first byte, length.
    fn walk(&self, range: Range<usize>, mut each: impl FnMut(*mut u8, usize)) {
        assert!(
            range.start <= range.end && range.end <= self.length,
            "memory is touched within its pieces"
        );
        let (mut skip, mut left) = (range.start, range.len());
        for vector in &self.vectors {
            if left == 0 {
                return;
            }
            if skip >= vector.iov_len {
                skip -= vector.iov_len;
                continue;
            }
            let bytes = left.min(vector.iov_len - skip);
            each(vector.iov_base.cast::<u8>().wrapping_add(skip), bytes);
            (skip, left) = (0, left - bytes);
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

    /// Pieces.
    pub fn pieces(&self) -> usize {
        self.vectors.len()
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

impl GuestBuffer for Foreign {
    fn bytes(&self) -> usize {
        self.length
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        let mut left = into;
        self.walk(at..at + left.len(), |base, bytes| {
            let (now, later) = std::mem::take(&mut left).split_at_mut(bytes);
            // SAFETY: `new` was promised that the piece is mapped, `walk` stays within it, and the
            // target is a slice of ours. What others write meanwhile can tear the bytes, which are
            // judged afterwards.
            unsafe { ptr::copy_nonoverlapping(base, now.as_mut_ptr(), bytes) };
            left = later;
        });
    }

    fn store(&self, at: usize, from: &[u8]) {
        let mut left = from;
        self.walk(at..at + from.len(), |base, bytes| {
            let (now, later) = left.split_at(bytes);
            // SAFETY: as for `load`, the other way round.
            unsafe { ptr::copy_nonoverlapping(now.as_ptr(), base, bytes) };
            left = later;
        });
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Foreign({}B in {})", self.length, self.vectors.len())
    }
}
