//! The pieces of a read's answer, and the answer that they come to.

use crate::RequestId;
use crate::api::Effect;
use crate::reads::index;
use block_io::{Payload, Slice};
use smallvec::SmallVec;
use std::ops::Range;

/// The pieces of a read, in order.
pub(crate) type Parts = SmallVec<[Part; 1]>;

/// A piece of the answer.
#[derive(Debug)]
pub(crate) struct Part {
    /// Where on the disk, in bytes.
    pub(crate) offset: u64,
    /// None while they are awaited, or when they are where the guest wanted them.
    pub(crate) bytes: Option<Slice>,
}

/// The answer to a read of the bytes `range` of which every part has come.
#[inline]
pub(crate) fn reply(request: RequestId, range: Range<u64>, mut parts: Parts) -> Effect {
    let mut at = range.start;
    let mut bytes_of = |part: Part| {
        assert_eq!(part.offset, at, "parts follow each other");
        let bytes = part.bytes.expect("a part that is done has its bytes");
        at += bytes.len() as u64;
        bytes
    };
    let mut payload = Payload::new();
    // Most reads have one, and need no walk.
    if parts.len() == 1 {
        payload.extend(parts.pop().map(&mut bytes_of));
    } else {
        payload.extend(parts.into_iter().map(&mut bytes_of));
    }
    assert_eq!(at, range.end, "the parts are all that was asked for");
    Effect::Reply {
        request,
        result: Ok(payload),
    }
}

/// The same of which `landed` parts are where the guest wanted them.
pub(crate) fn landed(request: RequestId, range: Range<u64>, parts: Parts, landed: u32) -> Effect {
    let mut rest = SmallVec::new();
    let (mut at, mut left) = (range.start, landed);
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
    assert_eq!(left, 0, "each part lands once");
    assert_eq!(at, range.end, "the parts are all that was asked for");
    Effect::Landed { request, rest }
}
