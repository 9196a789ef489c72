//! Reads under way: the parts that each waits for, and the answer that they come to.
//!
//! A read is answered when every part is there, or with the first error when all have ended.

use crate::RequestId;
use crate::api::Effect;
use crate::request::Span;
use block_io::{GuestBuffer, IoError, Payload, Place, Slice};
use slab::Slab;
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;
use tenancy::Arrival;
use units::{BLOCK_BYTES, BlockIndex, Bytes, DiskSlot, TenantSlot};

/// Which read, among those under way.
pub(crate) type ReadId = usize;

/// What a read is for.
#[derive(Clone, Debug)]
pub(crate) enum Aim {
    /// Its bytes, in buffers of ours.
    Buffers,
    /// Its bytes, there.
    Into(Rc<dyn GuestBuffer>),
    /// Only to bring blocks into the cache, piece by piece (`reads/prefetch.rs`): no bytes are answered.
    CacheOnly,
}

/// A read or prefetch under way.
#[derive(Debug)]
pub(crate) struct Read {
    request: RequestId,
    disk: DiskSlot,
    vm: TenantSlot,
    arrival: Option<Arrival>,
    offset: u64,
    end: u64,
    aim: Aim,
    parts: Parts,
    /// Parts whose bytes are where the guest wants them.
    in_place: u32,
    left: u32,
    error: Option<IoError>,
}

/// The pieces of a read, in order.
type Parts = SmallVec<[Part; 1]>;

/// A piece of the answer.
#[derive(Debug)]
struct Part {
    /// Where on the disk, in bytes.
    offset: u64,
    /// None while they are awaited, or when they are where the guest wanted them.
    bytes: Option<Slice>,
}

/// A read that has ended.
#[must_use = "its guest waits for the answer"]
pub(crate) struct Ended {
    pub(crate) disk: DiskSlot,
    pub(crate) answer: Effect,
}

/// All reads under way.
#[derive(Debug, Default)]
pub(crate) struct Reads(Slab<Read>);

impl Reads {
    /// A read begins. It is held: each of its parts, and then the caller, has to let it go.
    #[inline]
    pub(crate) fn begin(&mut self, span: &Span, arrival: Option<Arrival>, aim: Aim) -> ReadId {
        self.0.insert(Read {
            request: span.id,
            disk: span.disk,
            vm: span.vm,
            arrival,
            offset: span.offset.get(),
            end: span.end().get(),
            aim,
            parts: Parts::new(),
            in_place: 0,
            left: 1,
            error: None,
        })
    }

    /// The read with this number.
    ///
    /// # Panics
    /// If it has ended, as do all that follow.
    #[inline]
    pub(crate) fn get(&self, id: ReadId) -> &Read {
        &self.0[id]
    }

    /// One more part has to come, of the bytes from `offset` of the disk. A prefetch only counts its parts:
    /// it answers no bytes, and must not keep those of gigabytes.
    #[inline]
    pub(crate) fn add_part(&mut self, id: ReadId, offset: u64) -> usize {
        let read = &mut self.0[id];
        read.left += 1;
        if read.is_prefetch() {
            return 0;
        }
        let bytes = None;
        read.parts.push(Part { offset, bytes });
        read.parts.len() - 1
    }

    /// One more thing has to happen before the read is answered.
    pub(crate) fn hold(&mut self, id: ReadId) {
        self.0[id].left += 1;
    }

    /// A part has come.
    #[inline]
    pub(crate) fn fill(&mut self, id: ReadId, part: usize, bytes: Slice) -> Option<Ended> {
        let read = &mut self.0[id];
        if !read.is_prefetch() {
            read.parts[part].bytes = Some(bytes);
        }
        self.let_go(id)
    }

    /// A part's bytes are where the guest wanted them.
    #[inline]
    pub(crate) fn filled_in_place(&mut self, id: ReadId) -> Option<Ended> {
        self.0[id].in_place += 1;
        self.let_go(id)
    }

    /// A part cannot be had.
    pub(crate) fn fail(&mut self, id: ReadId, error: IoError) -> Option<Ended> {
        self.0[id].error.get_or_insert(error);
        self.let_go(id)
    }

    /// Nothing more has to happen of what the read was held for once. The read, if that was the last.
    #[inline]
    pub(crate) fn let_go(&mut self, id: ReadId) -> Option<Ended> {
        let read = &mut self.0[id];
        read.left -= 1;
        if read.left > 0 {
            return None;
        }
        Some(self.end(id))
    }

    /// A call of its own: a hit's read is let go twice, and ends once.
    #[inline(never)]
    fn end(&mut self, id: ReadId) -> Ended {
        self.0.remove(id).end()
    }
}

impl Read {
    pub(crate) fn disk(&self) -> DiskSlot {
        self.disk
    }

    /// Who asks.
    pub(crate) fn vm(&self) -> TenantSlot {
        self.vm
    }

    /// What is remembered of the request for admission.
    pub(crate) fn arrival(&self) -> Option<&Arrival> {
        self.arrival.as_ref()
    }

    /// The byte behind the last that is asked for.
    pub(crate) fn end_of_range(&self) -> u64 {
        self.end
    }

    pub(crate) fn is_prefetch(&self) -> bool {
        matches!(self.aim, Aim::CacheOnly)
    }

    /// Whether its bytes are wanted in memory that is not ours.
    #[inline]
    pub(crate) fn has_place(&self) -> bool {
        matches!(self.aim, Aim::Into(_))
    }

    /// Whether it will be answered with an error.
    pub(crate) fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Where it wants the bytes `bytes` of the disk, if not in buffers of ours.
    pub(crate) fn place(&self, bytes: &Range<u64>) -> Option<Place> {
        let Aim::Into(memory) = &self.aim else {
            return None;
        };
        let range = index(bytes.start - self.offset)..index(bytes.end - self.offset);
        Some(Place::new(Rc::clone(memory), range))
    }

    #[inline]
    fn end(self) -> Ended {
        let request = self.request;
        let answer = match self.error {
            Some(error) => Effect::Reply {
                request,
                result: Err(error),
            },
            None if self.is_prefetch() => Effect::Reply {
                request,
                result: Ok(Payload::new()),
            },
            None if self.in_place > 0 => {
                reply_in_place(request, self.offset..self.end, self.parts, self.in_place)
            }
            None => reply(request, self.offset..self.end, self.parts),
        };
        Ended {
            disk: self.disk,
            answer,
        }
    }
}

/// The answer to a read of the bytes `range` of which every part has come.
#[inline]
fn reply(request: RequestId, range: Range<u64>, mut parts: Parts) -> Effect {
    // Most reads have one, and need no walk.
    let payload = match (parts.len(), parts.pop()) {
        (1, Some(part)) => {
            let (bytes, end) = bytes_of(part, range.start);
            assert_eq!(end, range.end, "the part is all that was asked for");
            let mut payload = Payload::new();
            payload.push(bytes);
            payload
        }
        (_, last) => in_a_row(parts.into_iter().chain(last), range),
    };
    let result = Ok(payload);
    Effect::Reply { request, result }
}

/// The bytes `range` of a disk, from several parts.
#[inline(never)]
fn in_a_row(parts: impl Iterator<Item = Part>, range: Range<u64>) -> Payload {
    let mut at = range.start;
    let bytes = parts.map(|part| {
        let (bytes, end) = bytes_of(part, at);
        at = end;
        bytes
    });
    let payload = bytes.collect();
    assert_eq!(at, range.end, "the parts are all that was asked for");
    payload
}

/// The bytes of a part that begins at `at`, and where it ends.
#[inline]
fn bytes_of(part: Part, at: u64) -> (Slice, u64) {
    assert_eq!(part.offset, at, "parts follow each other");
    let bytes = part.bytes.expect("a part that is done has its bytes");
    let end = at + bytes.len() as u64;
    (bytes, end)
}

/// The same of which `in_place` parts are where the guest wanted them.
fn reply_in_place(request: RequestId, range: Range<u64>, parts: Parts, in_place: u32) -> Effect {
    let mut rest = SmallVec::new();
    let (mut at, mut left) = (range.start, in_place);
    let mut parts = parts.into_iter().peekable();
    while let Some(part) = parts.next() {
        assert_eq!(part.offset, at, "parts follow each other");
        if let Some(bytes) = part.bytes {
            at += bytes.len() as u64;
            rest.push((index(part.offset - range.start), bytes));
        } else {
            left = left
                .checked_sub(1)
                .expect("a part that is done has its bytes");
            at = parts.peek().map_or(range.end, |next| next.offset);
        }
    }
    assert_eq!(left, 0, "each part is filled once");
    assert_eq!(at, range.end, "the parts are all that was asked for");
    Effect::ReplyInPlace { request, rest }
}

/// A number of bytes, or of a byte, in memory.
#[inline]
pub(crate) fn index(bytes: u64) -> usize {
    Bytes::new(bytes).to_usize()
}

/// Blocks from `first` that begin before byte `end`.
pub(crate) fn blocks_to(first: BlockIndex, end: u64) -> u64 {
    end.div_ceil(BLOCK_BYTES) - first.get()
}
