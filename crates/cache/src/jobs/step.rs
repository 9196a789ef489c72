//! The steps of a job, in their order.

use super::{Job, Kind};
use crate::api::ControlError;
use block_io::Token;
use block_store::Ticket;
use flash_format::SegmentIndex;
use units::{Duration, Instant};

/// How far a job has come.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Start,
    /// Streams are closed; their chunks and footers are on their way.
    Written,
    /// The entries of this ticket are on their way.
    Committed(Ticket, Vec<SegmentIndex>),
    /// This checkpoint is on its way.
    Checkpoint(u64),
    /// And one more, with the other superblock.
    SecondCheckpoint(u64),
    /// It is being recorded with the origin who has the disk.
    Owning(Token),
    /// It could not be; this checkpoint has the disk as one that is not attached.
    Returning(u64),
    /// And one more, with the other superblock.
    Returned(u64),
    Done,
    Refused(ControlError),
}

impl Step {
    /// Whether nobody has been asked yet to record who has the disk of an attach, and has to be without
    /// the flash: a record that will be open is closed at once instead.
    pub(super) fn comes_before_record(&self, will_be_open: bool) -> bool {
        match self {
            Self::Start => true,
            Self::Written
            | Self::Committed(..)
            | Self::Checkpoint(_)
            | Self::SecondCheckpoint(_) => !will_be_open,
            Self::Owning(_)
            | Self::Returning(_)
            | Self::Returned(_)
            | Self::Done
            | Self::Refused(_) => false,
        }
    }
}

impl Job {
    /// For how long it has been waited for at `attended`, the time of `Ports::attended`.
    pub(super) fn has_waited(&self, attended: Instant) -> Duration {
        attended.since(self.since)
    }

    /// Whether it brings the flash into the state that restarts warmest, and has not begun to.
    pub(super) fn stops(&self) -> bool {
        matches!((&self.kind, &self.step), (Kind::Stop, Step::Start))
    }
}
