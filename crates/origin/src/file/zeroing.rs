//! Zeroing a range of a file, by the cheapest way that its file system has.

use super::doubt::Change;
use super::{FileOrigin, Flight, is_unsupported, punch};
use crate::limits::ZERO_PIECE_BYTES;
use block_io::{IoError, Since, Slice, Token};
use ring::Op;
use rustix::fs::FallocateFlags;
use std::io;
use std::rc::Rc;
use units::Bytes;

/// A write-zeroes under way.
pub(super) struct Zero {
    pub(super) token: Token,
    pub(super) change: Change,
    pub(super) durable: Option<Since>,
    pub(super) step: Step,
}

#[derive(Clone, Copy)]
pub(super) enum Step {
    /// Deallocate the range.
    Punch,
    /// Zero it and keep it allocated.
    ZeroRange,
    /// Write zeroes: `written` bytes are done.
    Write { written: u64 },
}

impl FileOrigin {
    /// Begins or continues a write-zeroes with the step it is at.
    pub(super) fn zero(&mut self, zero: Zero) {
        let range = &zero.change.range;
        let op = match zero.step {
            Step::Punch => self.fallocate(punch(), range),
            Step::ZeroRange => self.fallocate(
                FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
                range,
            ),
            Step::Write { written } => {
                let offset = range.start + written;
                let left = Bytes::new(range.end - offset).to_usize();
                Op::Write {
                    file: Rc::clone(&self.file),
                    offset,
                    data: self.zeroes().slice(0..left.min(ZERO_PIECE_BYTES)),
                    dsync: false,
                }
            }
        };
        self.go(Flight::Zero(zero), op);
    }

    /// The cheapest step that has not been found to be unsupported.
    pub(super) fn first_step(&self, may_unmap: bool) -> Step {
        if may_unmap && self.can.punch {
            Step::Punch
        } else if self.can.zero_range {
            Step::ZeroRange
        } else {
            Step::Write { written: 0 }
        }
    }

    pub(super) fn zeroed(&mut self, mut zero: Zero, result: io::Result<usize>) {
        let length = zero.change.range.end - zero.change.range.start;
        let failed = match (zero.step, result) {
            (Step::Punch, Err(error)) if is_unsupported(&error) => {
                self.can.punch = false;
                zero.step = self.first_step(false);
                return self.zero(zero);
            }
            (Step::ZeroRange, Err(error)) if is_unsupported(&error) => {
                self.can.zero_range = false;
                zero.step = self.first_step(false);
                return self.zero(zero);
            }
            (_, Err(error)) => self.numbers.kind_of(zero.token, &error),
            (Step::Write { written }, Ok(0)) if written < length => IoError::Failed,
            (Step::Write { written }, Ok(moved)) if written + (moved as u64) < length => {
                let written = written + moved as u64;
                zero.step = Step::Write { written };
                return self.zero(zero);
            }
            (Step::Punch | Step::ZeroRange | Step::Write { .. }, Ok(_)) => {
                self.doubt.changed(&zero.change, true);
                return self.end_durable(zero.token, zero.durable);
            }
        };
        self.doubt.changed(&zero.change, false);
        self.end(zero.token, Err(failed));
    }

    fn zeroes(&mut self) -> &Slice {
        let pool = &self.pool;
        self.zeroes
            .get_or_insert_with(|| pool.take_zeroed(ZERO_PIECE_BYTES).freeze())
    }
}
