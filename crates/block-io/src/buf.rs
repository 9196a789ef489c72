//! Page-aligned buffers that return to their pool, and shared read-only views of them.

use smallvec::SmallVec;
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::rc::{Rc, Weak};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Alignment and granularity of every buffer, in bytes: what `O_DIRECT` asks for.
pub const PAGE_BYTES: usize = 4096;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

const _: () = assert!(size_of::<Page>() == PAGE_BYTES);

/// An owned, page-aligned buffer of whole pages. It goes back to its pool when dropped.
pub struct Buf {
    pages: Option<Box<[Page]>>,
    home: Weak<RefCell<Shelves>>,
}

impl Buf {
    /// Length in bytes, a multiple of [`PAGE_BYTES`].
    pub fn len(&self) -> usize {
        self.pages().len() * PAGE_BYTES
    }

    /// True for a buffer of no pages.
    pub fn is_empty(&self) -> bool {
        self.pages().is_empty()
    }

    /// Makes it a shared read-only view of all its bytes.
    pub fn freeze(self) -> Slice {
        let len = self.len();
        Slice {
            buf: Rc::new(self),
            start: 0,
            len,
        }
    }

    fn pages(&self) -> &[Page] {
        self.pages.as_deref().expect("pages leave only in drop")
    }
}

impl std::ops::Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.pages().as_bytes()
    }
}

impl std::ops::DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.pages
            .as_deref_mut()
            .expect("pages leave only in drop")
            .as_mut_bytes()
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({}B)", self.len())
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        if let (Some(pages), Some(home)) = (self.pages.take(), self.home.upgrade()) {
            home.borrow_mut().put(pages);
        }
    }
}

/// A shared, read-only view of part of a buffer. Cloning it copies no bytes; the buffer goes
/// back to its pool when the last view is dropped.
#[derive(Clone)]
pub struct Slice {
    buf: Rc<Buf>,
    start: usize,
    len: usize,
}

impl Slice {
    /// A view of part of this view.
    ///
    /// # Panics
    /// If the range is not within it.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "a sub-slice lies within its slice"
        );
        Self {
            buf: Rc::clone(&self.buf),
            start: self.start + range.start,
            len: range.end - range.start,
        }
    }

    /// Bytes of memory that this view keeps from being reused: its whole buffer.
    pub fn pinned_bytes(&self) -> usize {
        self.buf.len()
    }
}

impl std::ops::Deref for Slice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buf[self.start..self.start + self.len]
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slice({}B)", self.len)
    }
}

/// The bytes of one read, in order, as one or more views: most often one.
pub type Payload = SmallVec<[Slice; 1]>;

/// Buffers kept for reuse, by size. Cloning shares the pool; it belongs to one thread.
#[derive(Clone, Default)]
pub struct BufPool {
    shelves: Rc<RefCell<Shelves>>,
}

/// Sizes up to this many pages are kept; larger buffers are rare and go back to the allocator.
const SHELF_PAGES_MAX: usize = 256;
/// Bytes kept in all shelves together; beyond it a returned buffer is freed.
const SHELVED_BYTES_MAX: usize = 64 << 20;

#[derive(Default)]
struct Shelves {
    /// `by_power[n]` holds free buffers of `2^n` pages.
    by_power: [Vec<Box<[Page]>>; 9],
    bytes: usize,
}

impl Shelves {
    fn put(&mut self, pages: Box<[Page]>) {
        let bytes = pages.len() * PAGE_BYTES;
        if pages.len().is_power_of_two()
            && pages.len() <= SHELF_PAGES_MAX
            && self.bytes + bytes <= SHELVED_BYTES_MAX
        {
            self.bytes += bytes;
            self.by_power[pages.len().ilog2() as usize].push(pages);
        }
    }
}

impl BufPool {
    /// A pool with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// A buffer of at least `bytes` bytes, rounded up to pages (and to a power of two of them
    /// up to 1 MiB). Its content is whatever a previous user left: the caller fills it before
    /// anything else sees it.
    ///
    /// # Panics
    /// If the allocator has no memory left.
    pub fn take(&self, bytes: usize) -> Buf {
        let mut pages = bytes.div_ceil(PAGE_BYTES).max(1);
        if pages <= SHELF_PAGES_MAX {
            pages = pages.next_power_of_two();
            let mut shelves = self.shelves.borrow_mut();
            if let Some(found) = shelves.by_power[pages.ilog2() as usize].pop() {
                shelves.bytes -= pages * PAGE_BYTES;
                return Buf {
                    pages: Some(found),
                    home: Rc::downgrade(&self.shelves),
                };
            }
        }
        let fresh = <[Page]>::new_box_zeroed_with_elems(pages).expect("memory for an I/O buffer");
        Buf {
            pages: Some(fresh),
            home: Rc::downgrade(&self.shelves),
        }
    }

    /// A buffer like [`BufPool::take`]'s whose bytes are all zero.
    pub fn take_zeroed(&self, bytes: usize) -> Buf {
        let mut buf = self.take(bytes);
        buf.fill(0);
        buf
    }

    /// A shared view of a copy of `bytes`.
    pub fn copy_of(&self, bytes: &[u8]) -> Slice {
        let mut buf = self.take(bytes.len());
        buf[..bytes.len()].copy_from_slice(bytes);
        buf.freeze().slice(0..bytes.len())
    }
}

impl fmt::Debug for BufPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufPool({}B shelved)", self.shelves.borrow().bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_rounded_up() {
        let pool = BufPool::new();
        for bytes in [1, 512, 4096, 4097, 70_000, 3 << 20] {
            let buf = pool.take(bytes);
            assert!(buf.len() >= bytes);
            assert_eq!(buf.as_ptr().addr() % PAGE_BYTES, 0);
        }
    }

    #[test]
    fn the_last_view_returns_the_buffer() {
        let pool = BufPool::new();
        let whole = pool.take(8192).freeze();
        let part = whole.slice(4096..8192);
        let address = whole.as_ptr();
        drop(whole);
        assert_eq!(part.len(), 4096);
        assert_ne!(pool.take(8192).as_ptr(), address);
        drop(part);
        assert_eq!(pool.take(8192).as_ptr(), address);
    }

    #[test]
    fn a_pool_keeps_a_bounded_amount() {
        let pool = BufPool::new();
        let many: Vec<Buf> = (0..200).map(|_| pool.take(1 << 20)).collect();
        drop(many);
        assert!(pool.shelves.borrow().bytes <= SHELVED_BYTES_MAX);
    }
}
