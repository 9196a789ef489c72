//! Memory that is not ours, into which a read can be put without passing through a buffer of ours.
//!
//! A guest's memory is mapped into this process, and the kernel can read into it. The guest can
//! write there too, at any time: what lies there is copied out before it is judged, and no
//! reference to it is ever made.
//!
//! ```text
//!  request ── Rc<dyn GuestBuffer> ─► core ── Place: a part of it ─► device ─► flash reads into it
//!                                      ◄───────── comes back with the completion ──┘
//! ```
//!
//! Invariant: who holds a [`Place`] keeps its memory mapped. The request that it belongs to is not
//! answered while an operation has it: the guest uses its memory for something else then.

use crate::{BufPool, FlashDone, FlashOp, FlashVerb, Token};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::rc::Rc;

/// Memory that others see and write too. Offsets and lengths are in bytes.
pub trait GuestBuffer: Any + Debug {
    /// How long it is.
    fn bytes(&self) -> usize;

    /// Copies out what lies at `at`. Somebody may write there meanwhile, so that it is torn.
    ///
    /// # Panics
    /// If that is not all within it.
    fn load(&self, at: usize, into: &mut [u8]);

    /// Copies bytes in.
    ///
    /// # Panics
    /// If they are not all within it.
    fn store(&self, at: usize, from: &[u8]);
}

/// A part of a [`GuestBuffer`]. Small, since every operation on flash has room for one and few have any.
#[derive(Clone, Debug)]
pub struct Place(Box<Part>);

#[derive(Clone, Debug)]
struct Part {
    memory: Rc<dyn GuestBuffer>,
    range: Range<usize>,
}

const _: () = assert!(size_of::<Option<Place>>() == size_of::<usize>());

impl Place {
    /// The bytes `range` of `memory`.
    ///
    /// # Panics
    /// If they are not all within it.
    pub fn new(memory: Rc<dyn GuestBuffer>, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= memory.bytes(),
            "a place lies within its memory"
        );
        Self(Box::new(Part { memory, range }))
    }

    /// How long it is, in bytes.
    pub fn len(&self) -> usize {
        self.0.range.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.range.is_empty()
    }

    /// Where it lies in its memory.
    pub fn range(&self) -> Range<usize> {
        self.0.range.clone()
    }

    /// The memory itself, for a device that knows its kind.
    pub fn memory(&self) -> Rc<dyn Any> {
        Rc::clone(&self.0.memory) as Rc<dyn Any>
    }

    /// Copies out what lies `at` bytes behind its beginning.
    ///
    /// # Panics
    /// If that is not all within it.
    pub fn load(&self, at: usize, into: &mut [u8]) {
        self.check(at, into.len());
        self.0.memory.load(self.0.range.start + at, into);
    }

    /// Copies bytes to its beginning.
    ///
    /// # Panics
    /// If there are more than it has.
    pub fn store(&self, from: &[u8]) {
        self.check(0, from.len());
        self.0.memory.store(self.0.range.start, from);
    }

    fn check(&self, at: usize, bytes: usize) {
        let end = at.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.len()),
            "a place is used within its length"
        );
    }
}

/// For a device that cannot read into memory of others: it reads into buffers of ours, and what
/// they have got is copied.
#[derive(Debug, Default)]
pub struct BounceBuffers {
    open: BTreeMap<Token, Place>,
    pool: BufPool,
}

impl BounceBuffers {
    /// Buffers come from this pool.
    pub fn new(pool: BufPool) -> Self {
        Self {
            open: BTreeMap::new(),
            pool,
        }
    }

    /// The operation as the device can carry it out.
    pub fn begin(&mut self, op: FlashOp) -> FlashOp {
        let token = op.token;
        let verb = match op.verb {
            FlashVerb::ReadInto { offset, place } => {
                let buf = self.pool.take(place.len());
                let length = units::Bytes::new(place.len() as u64);
                self.open.insert(token, place);
                FlashVerb::Read {
                    offset,
                    length,
                    buf,
                }
            }
            other => other,
        };
        FlashOp { token, verb }
    }

    /// Its outcome as it was asked for.
    pub fn end(&mut self, mut done: FlashDone) -> FlashDone {
        if let Some(place) = self.open.remove(&done.token) {
            if let (Ok(()), Some(buf)) = (&done.result, done.buf.take()) {
                place.store(&buf[..place.len()]);
            }
            done.place = Some(place);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use units::{Bytes, Offset};

    #[derive(Debug)]
    struct Plain(RefCell<Vec<u8>>);

    impl GuestBuffer for Plain {
        fn bytes(&self) -> usize {
            self.0.borrow().len()
        }
        fn load(&self, at: usize, into: &mut [u8]) {
            into.copy_from_slice(&self.0.borrow()[at..at + into.len()]);
        }
        fn store(&self, at: usize, from: &[u8]) {
            self.0.borrow_mut()[at..at + from.len()].copy_from_slice(from);
        }
    }

    #[test]
    fn a_read_into_a_place_goes_by_way_of_a_buffer() {
        let memory = Rc::new(Plain(RefCell::new(vec![0; 3 * 4096])));
        let mut bounce_buffers = BounceBuffers::new(BufPool::new());
        let op = bounce_buffers.begin(FlashOp {
            token: Token(7),
            verb: FlashVerb::ReadInto {
                offset: Offset::kib(8),
                place: Place::new(memory.clone(), 4096..8192),
            },
        });
        let FlashVerb::Read {
            length, mut buf, ..
        } = op.verb
        else {
            panic!("it is an ordinary read now");
        };
        assert_eq!(length, Bytes::kib(4));
        buf.fill(9);
        let done = bounce_buffers.end(FlashDone {
            token: Token(7),
            buf: Some(buf),
            place: None,
            result: Ok(()),
        });
        assert!(done.buf.is_none() && done.place.is_some());
        let bytes = memory.0.borrow();
        assert!(bytes[..4096].iter().all(|byte| *byte == 0));
        assert!(bytes[4096..8192].iter().all(|byte| *byte == 9));
        assert!(bytes[8192..].iter().all(|byte| *byte == 0));
    }

    #[test]
    #[should_panic(expected = "a place is used within its length")]
    fn nothing_is_stored_beyond_a_place() {
        let memory = Rc::new(Plain(RefCell::new(vec![0; 8192])));
        Place::new(memory, 0..4096).store(&[1; 4097]);
    }
}
