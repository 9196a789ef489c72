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
    pub(crate) bytes: PartBytes,
}

/// Where a piece of the answer is.
#[derive(Debug)]
pub(crate) enum PartBytes {
    Awaited,
    Ours(Slice),
    /// So many, where the guest wanted them.
    Landed(usize),
}

/// The answer to a read of the bytes `range`, when every part is there.
pub(crate) fn answer(request: RequestId, range: Range<u64>, parts: Parts) -> Effect {
    let mut landed = false;
    let (mut payload, mut places) = (Payload::new(), SmallVec::<[usize; 1]>::new());
    let mut at = range.start;
    for part in parts {
        assert_eq!(part.offset, at, "parts follow each other");
        match part.bytes {
            PartBytes::Awaited => panic!("a part that is done has its bytes"),
            PartBytes::Landed(length) => {
                landed = true;
                at += length as u64;
            }
            PartBytes::Ours(bytes) => {
                places.push(index(at - range.start));
                at += bytes.len() as u64;
                payload.push(bytes);
            }
        }
    }
    assert_eq!(at, range.end, "the parts are all that was asked for");
    if landed {
        let rest = places.into_iter().zip(payload).collect();
        return Effect::Landed { request, rest };
    }
    Effect::Reply {
        request,
        result: Ok(payload),
    }
}
