//! What is in the place of the origin of a disk that another host has.

use block_io::{IoError, OriginDone, OriginOp, OriginVerb};

/// Ends an operation of a disk that another host has, and which that host is not asked for. A read fails. What is
/// discarded that host has changed, and what is to be flushed it has written: both are done. Nothing else is permitted.
pub fn without_origin(op: OriginOp) -> OriginDone {
    let result = match op.verb {
        OriginVerb::Read { .. } => Err(IoError::Failed),
        OriginVerb::Discard { .. } | OriginVerb::Flush => Ok(()),
        OriginVerb::Write { .. } | OriginVerb::WriteZeroes { .. } => Err(IoError::NotPermitted),
    };
    op.ended(result)
}
