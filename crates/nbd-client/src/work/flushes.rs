//! Flushes, and what one that failed means.
//!
//! One flush is in flight at a time, for all operations that wait for one when it is sent. Were there
//! two, a server could fail the first, give up what it could not write, and report success of the
//! second, which no longer knows of it.

use super::Work;
use crate::guard::{Guard, holds};
use crate::operation::{FlushState, Piece, PieceKind, Request};
use nbd_protocol::{CommandFlags, wire};
use range_order::OpId;

impl Work {
    /// One flush for all operations that wait for one now.
    pub(super) fn flush_piece(&mut self, id: OpId) -> Request {
        let mark = self.unstable.flush_sent();
        for rider in &self.waiting {
            if let Some(op) = self.ops.get_mut(rider)
                && op.flush == FlushState::Due
            {
                op.flush = FlushState::Sent;
                op.flying += 1;
                self.flushing.push(*rider);
            }
        }
        Request {
            piece: Piece {
                op: id,
                at: 0,
                length: 0,
                kind: PieceKind::Flush(mark),
            },
            command: wire::command::FLUSH,
            flags: CommandFlags::NONE,
            offset: 0,
            payload: None,
        }
    }

    /// A server whose flush failed may have dropped what it could not write, and its next flush would
    /// not know. Repeating the changes makes that one true, those included that are on their way.
    pub(super) fn flush_failed(&mut self) {
        if holds(Guard::FailedFlushRepeats) {
            let mut ops = self.ops.values();
            let begun = ops.any(|op| op.is_change() && op.tried);
            self.restart_wanted |= begun || !self.unstable.is_empty();
            self.doubts_turn_sour();
        }
    }

    /// A flush may have given up what changes have left that failed, or will fail.
    pub(super) fn doubts_turn_sour(&mut self) {
        self.unstable.flush_failed();
        self.sour_before = OpId(self.next_id);
    }
}
