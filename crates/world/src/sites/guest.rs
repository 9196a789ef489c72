//! The guest of a disk that roams, as QEMU shows it: it runs at one host, moves, comes back from a move that was
//! given up, or is started a second time by mistake.
//!
//! ```text
//!   Runs ─► Warms ─► Stops ─► Flushes ─┬─► Moved ─┬─► Runs
//!    ▲  (a client   (requests  (at the │          └─► Returned ─► Runs, or the guest dies and boots
//!    │   waits at     end)     source) │  the destination dies; the source's client goes on
//!    └───there)◄───────────────────────┘ the move is given up
//! ```

use units::{Bytes, Instant, Offset};

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) site: usize,
    pub(super) client: u64,
}

/// How a move ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The guest goes on at the destination.
    Well,
    /// The source goes on before the destination has begun.
    GivenUp,
    /// The destination dies when it has made some requests, and the source goes on.
    Returns,
}

/// What the guest does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    Runs,
    /// A client waits at the destination.
    Warms {
        until: Instant,
        ending: Ending,
    },
    /// The guest is started a second time beside itself, by mistake.
    Twice(Second),
    /// It makes no requests any more, and waits for those that it has made.
    Stops {
        ending: Ending,
    },
    /// Its last flush, of this number.
    Flushes {
        request: u64,
        ending: Ending,
    },
    /// It runs at the destination. The source's client is there until then.
    Moved {
        goes_at: Instant,
        ending: Ending,
    },
    /// It runs at the source again. With `is_overtaken` the other one has changed the disk.
    Returned {
        is_overtaken: bool,
    },
}

/// What a guest does that was started beside one that runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Second {
    pub(super) reads_left: u32,
    /// Writes that it tries: each waits for as long as a claim may, while the hosts ask each other every 2 ms.
    pub(super) writes_left: u32,
    /// Since when it is there, if the disk was at the first one's host then.
    pub(super) since: Option<Instant>,
}

/// A request that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outstanding {
    pub(super) place: Place,
    pub(super) offset: Offset,
    pub(super) length: Bytes,
    pub(super) kind: Kind,
    pub(super) issued: u64,
    pub(super) since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write { fua: bool },
    Flush,
}

/// See the module's header.
pub(super) struct Guest {
    pub(super) place: Place,
    /// The other connection, of a move or of a second start.
    pub(super) other: Option<Place>,
    pub(super) phase: Phase,
    /// Requests until the phase ends.
    pub(super) left: u64,
    pub(super) next_at: Instant,
    /// When something went wrong last that may have cost the guest an answer.
    pub(super) troubled: Instant,
    /// It has changed the disk since it moved.
    pub(super) has_changed: bool,
}

impl Guest {
    pub(super) fn new(place: Place, left: u64, now: Instant) -> Self {
        Self {
            place,
            other: None,
            phase: Phase::Runs,
            left,
            next_at: now,
            troubled: now,
            has_changed: false,
        }
    }
}
