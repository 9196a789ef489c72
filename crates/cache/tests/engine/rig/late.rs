//! An origin that gives writes up, and carries them out later.

use super::Rig;
use block_io::{IoError, OriginDone, OriginOp, OriginVerb};

impl Rig {
    pub(super) fn late_origin_op(&mut self, op: OriginOp) -> OriginDone {
        match &op.verb {
            OriginVerb::Write { .. } if self.gives_up => {
                let token = op.token;
                self.late.push(op);
                OriginDone {
                    token,
                    buf: None,
                    result: Err(IoError::TimedOut),
                    volatile: false,
                    passes: false,
                }
            }
            OriginVerb::Read { .. } => {
                let late = std::mem::take(&mut self.late);
                let volatile = !late.is_empty();
                for op in late {
                    self.origin_op(op);
                }
                OriginDone {
                    volatile,
                    ..self.origin_op(op)
                }
            }
            _ => self.origin_op(op),
        }
    }

    /// The process dies with a disk under `through`, and the origin loses power before the next one.
    pub(crate) fn cut_power_of_origin(&mut self) {
        self.origin.copy_from_slice(&self.origin_durable);
        self.kill_through();
    }
}
