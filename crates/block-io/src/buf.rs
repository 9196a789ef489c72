//! Page-aligned buffers that return to their pool, and shared read-only views of them.

use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
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

/// The pages of a buffer, and where they go when nobody has them any more. They stay together with
/// their counts on the pool's shelves, so that a buffer that is taken, frozen and let go costs no
/// allocation.
struct Pages {
    memory: Box<[Page]>,
    home: Weak<RefCell<Shelves>>,
    registration: Cell<Option<Registration>>,
}

/// Under which number a ring's kernel side knows a buffer, so that it need not look its pages up
/// for each operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Which ring.
    pub ring: u32,
    /// Which of its buffers.
    pub slot: u16,
}

impl Pages {
    fn bytes(&self) -> usize {
        self.memory.len() * PAGE_BYTES
    }

    /// Whether there is a shelf for its size.
    fn is_shelved(&self) -> bool {
        self.memory.len().is_power_of_two() && self.memory.len() <= SHELF_PAGES_MAX
    }
}

/// Puts pages back on their shelf if nobody else has them.
fn let_go(mut shared: Rc<Pages>) {
    if let Some(pages) = Rc::get_mut(&mut shared)
        && let Some(home) = pages.home.upgrade()
    {
        home.borrow_mut().put(shared);
    }
}

/// An owned, page-aligned buffer of whole pages. It goes back to its pool when dropped.
pub struct Buf {
    /// Nobody else has them: they are shared only once this is a [`Slice`].
    pages: Option<Rc<Pages>>,
}

impl Buf {
    /// Length in bytes, a multiple of [`PAGE_BYTES`].
    pub fn len(&self) -> usize {
        self.pages().bytes()
    }

    /// True for a buffer of no pages.
    pub fn is_empty(&self) -> bool {
        self.pages().memory.is_empty()
    }

    /// Makes it a shared read-only view of all its bytes.
    pub fn freeze(mut self) -> Slice {
        let len = self.len();
        Slice {
            pages: self.pages.take(),
            start: 0,
            len,
        }
    }

    /// Where it is registered.
    pub fn registration(&self) -> Option<Registration> {
        self.pages().registration.get()
    }

    /// Notes that it is registered: its pool keeps its memory from now on as long as there is a
    /// pool, so that the number never means other pages.
    ///
    /// # Panics
    /// If it [may not be](Buf::may_be_registered).
    pub fn register(&self, registration: Registration) {
        assert!(
            self.may_be_registered(),
            "the memory of what is registered stays"
        );
        self.pages().registration.set(Some(registration));
    }

    /// Whether it may be registered: its pool keeps buffers of its size.
    pub fn may_be_registered(&self) -> bool {
        self.pages().is_shelved()
    }

    fn pages(&self) -> &Pages {
        self.pages.as_deref().expect("pages leave at the end only")
    }
}

impl std::ops::Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.pages().memory.as_bytes()
    }
}

impl std::ops::DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        let pages = self.pages.as_mut().and_then(Rc::get_mut);
        let pages = pages.expect("pages leave at the end only, and are not shared before");
        pages.memory.as_mut_bytes()
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({}B)", self.len())
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        if let Some(pages) = self.pages.take() {
            let_go(pages);
        }
    }
}

/// A shared, read-only view of part of a buffer. Cloning it copies no bytes; the buffer goes
/// back to its pool when the last view is dropped.
#[derive(Clone)]
pub struct Slice {
    /// None only while it is dropped.
    pages: Option<Rc<Pages>>,
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
            pages: self.pages.clone(),
            start: self.start + range.start,
            len: range.end - range.start,
        }
    }

    /// Bytes of memory that this view keeps from being reused: its whole buffer.
    pub fn pinned_bytes(&self) -> usize {
        self.pages().bytes()
    }

    fn pages(&self) -> &Pages {
        self.pages.as_deref().expect("pages leave at the end only")
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        if let Some(pages) = self.pages.take() {
            let_go(pages);
        }
    }
}

impl std::ops::Deref for Slice {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.pages().memory.as_bytes()[self.start..self.start + self.len]
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
/// Bytes kept in all shelves together; beyond it a returned buffer is freed, unless it is registered.
const SHELVED_BYTES_MAX: usize = 64 << 20;

#[derive(Default)]
struct Shelves {
    /// `by_power[n]` holds free buffers of `2^n` pages.
    by_power: [Vec<Rc<Pages>>; 9],
    bytes: usize,
}

impl Shelves {
    fn put(&mut self, shared: Rc<Pages>) {
        let bytes = shared.bytes();
        let stays = self.bytes + bytes <= SHELVED_BYTES_MAX || shared.registration.get().is_some();
        if shared.is_shelved() && stays {
            self.bytes += bytes;
            self.by_power[shared.memory.len().ilog2() as usize].push(shared);
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
        let pages = Self::pages_for(bytes);
        if pages <= SHELF_PAGES_MAX {
            let mut shelves = self.shelves.borrow_mut();
            if let Some(found) = shelves.by_power[pages.ilog2() as usize].pop() {
                shelves.bytes -= pages * PAGE_BYTES;
                return Buf { pages: Some(found) };
            }
        }
        let fresh = <[Page]>::new_box_zeroed_with_elems(pages).expect("memory for an I/O buffer");
        let fresh = Pages {
            memory: fresh,
            home: Rc::downgrade(&self.shelves),
            registration: Cell::new(None),
        };
        Buf {
            pages: Some(Rc::new(fresh)),
        }
    }

    fn pages_for(bytes: usize) -> usize {
        let pages = bytes.div_ceil(PAGE_BYTES).max(1);
        if pages <= SHELF_PAGES_MAX {
            pages.next_power_of_two()
        } else {
            pages
        }
    }

    /// Bytes of memory that a buffer takes which is asked for with so many.
    pub fn bytes_taken(bytes: usize) -> usize {
        Self::pages_for(bytes) * PAGE_BYTES
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
            assert_eq!(buf.len(), BufPool::bytes_taken(bytes));
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

    #[test]
    fn what_is_registered_is_kept_beyond_the_bound() {
        let pool = BufPool::new();
        let many: Vec<Buf> = (0..64).map(|_| pool.take(1 << 20)).collect();
        let registered = pool.take(4096);
        let registration = Registration { ring: 7, slot: 3 };
        registered.register(registration);
        let address = registered.as_ptr();
        drop(many);
        assert_eq!(pool.shelves.borrow().bytes, SHELVED_BYTES_MAX);
        drop(pool.take(4096));
        drop(registered.freeze().slice(0..512));
        let again = pool.take(4096);
        assert_eq!(again.as_ptr(), address);
        assert_eq!(again.registration(), Some(registration));
        assert!(!pool.take((1 << 20) + 1).may_be_registered());
    }
}
