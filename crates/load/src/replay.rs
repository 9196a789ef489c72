//! A recorded load: a trace's requests, each at its own time.
//!
//! ```text
//!   Asked .. ─► Feed (a thread, some batches ahead) ─► Player ─► Target ─► kernel
//!                                          Schedule: when │ ▲
//!                                          Fit: where     │ └── done ─► ReplayOutcome
//! ```
//!
//! The load is open: a request is due at its time, whether those before were answered or not. Where the depth is
//! reached, or this thread was held up, a request begins late, and its latency counts from the time it was due.
//! Otherwise a target that stands still for a second would be charged for one request instead of for all that
//! were to come in that second (Tene, "How NOT to Measure Latency", 2013: coordinated omission).

mod feed;
mod fit;
mod outcome;
mod player;
mod report;
mod schedule;

pub use outcome::{Answered, ReplayOutcome};
pub use report::{KindReport, ReplayReport, replay_report};
pub use schedule::{ParseSpeedError, Speed};

use crate::job::Shared;
use crate::limits::{
    BUFFER_BYTES_MAX, DEPTH_MAX, PART_BYTES_MAX, PROGRESS_PAUSE, REPLAY_BATCHES, UNIT_BYTES_MAX,
};
use crate::outcome::JobError;
use crate::target::{self, Address, Geometry, Needs, Prepared};
use crate::{LoadError, Progress};
use feed::Feed;
use fit::Fit;
use player::{Orders, Player};
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel, sync_channel};
use std::thread;
use units::{Bytes, Duration};

/// What a request of a trace asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// What was answered becomes durable.
    Flush,
    /// The bytes are no longer needed.
    Discard,
    /// The bytes become zero.
    WriteZeroes,
}

impl Kind {
    /// Every kind, in the order of reports.
    pub const ALL: [Self; 5] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Discard,
        Self::WriteZeroes,
    ];

    /// The word for it in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::WriteZeroes => "write-zeroes",
        }
    }

    /// Its place in [`Kind::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the request carries bytes, so that a buffer has to hold them.
    const fn carries_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When, from the trace's first request on.
    pub at: Duration,
    /// What.
    pub kind: Kind,
    /// Where, in bytes.
    pub offset: u64,
    /// How much, in bytes.
    pub length: u64,
}

/// The requests of a trace in its order.
pub type Requests = Box<dyn Iterator<Item = io::Result<Asked>> + Send>;

/// What a pass over the trace has found of the requests that will be replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// How many there are.
    pub requests: u64,
    /// Whether any of them changes bytes.
    pub writes: bool,
    /// Where the furthest one ends, in bytes.
    pub end_bytes: u64,
    /// The longest read or write, in bytes.
    pub longest_bytes: u64,
}

/// How a trace is replayed.
#[derive(Clone, Debug)]
pub struct ReplaySettings {
    /// What is loaded.
    pub target: Address,
    /// How fast the trace's clock goes.
    pub speed: Speed,
    /// Requests in flight.
    pub iodepth: usize,
    /// When it ends at the latest.
    pub runtime: Option<Duration>,
    /// Whether offsets beyond the target's end count from its beginning again.
    pub wrap: bool,
}

/// Replays a trace. Blocks until its last request was answered; `watch` is called a few times a second, and may
/// break the replay off: then nothing more is begun, and what was done is the outcome.
///
/// No more than [`Survey::requests`] are taken, so that a trace that is still being recorded has an end.
///
/// # Errors
/// If it could not be begun: the target is not there, or the trace does not fit it. What failed later is in the
/// outcome.
///
/// # Panics
/// If the thread that replays does: a bug.
pub fn replay(
    settings: &ReplaySettings,
    survey: Survey,
    requests: Requests,
    watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<ReplayOutcome, LoadError> {
    let needs = needs(settings, survey)?;
    let (geometry, prepared) = target::open(&settings.target, &needs)?;
    let fit = fit(settings, survey, &geometry, &needs)?;
    let one = prepared.into_iter().next();
    let prepared = one.expect("a target is opened for one job");
    let orders = Orders {
        depth: settings.iodepth,
        speed: settings.speed,
        runtime: settings.runtime,
        fit,
    };
    let requests = requests.take(usize::try_from(survey.requests).unwrap_or(usize::MAX));
    carry_out(orders, needs, prepared, requests, watch)
}

fn carry_out(
    orders: Orders,
    needs: Needs,
    prepared: Prepared,
    requests: impl Iterator<Item = io::Result<Asked>> + Send,
    watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<ReplayOutcome, LoadError> {
    let no_thread = |source| LoadError::Machine {
        what: "thread for the replay",
        source,
    };
    let shared = Shared::default();
    thread::scope(|scope| {
        let (batches, feed) = sync_channel(REPLAY_BATCHES);
        let reader = thread::Builder::new().name("replay-read".to_owned());
        let reader = reader.spawn_scoped(scope, move || feed::read(requests, &batches));
        reader.map_err(no_thread)?;
        let (end, finished) = channel::<()>();
        let shared = &shared;
        let player = thread::Builder::new().name("replay".to_owned());
        let work = move || {
            let _end = end;
            match prepared.start(&needs) {
                Ok(target) => Player::new(orders, target, Feed::new(feed), shared).run(),
                Err(source) => ReplayOutcome {
                    error: Some(JobError::Gone { source }),
                    ..ReplayOutcome::default()
                },
            }
        };
        let player = player.spawn_scoped(scope, work).map_err(no_thread)?;
        // Nothing is sent: the channel ends when the player does.
        while finished.recv_timeout(PROGRESS_PAUSE.to_std()) == Err(RecvTimeoutError::Timeout) {
            let now = Progress {
                requests: shared.requests.load(Ordering::Relaxed),
                bytes: shared.bytes.load(Ordering::Relaxed),
                bytes_total: None,
            };
            if watch(now).is_break() {
                shared.stop.store(true, Ordering::Relaxed);
            }
        }
        Ok(player.join().expect("a replay does not panic"))
    })
}

/// What the target has to have room for.
fn needs(settings: &ReplaySettings, survey: Survey) -> Result<Needs, LoadError> {
    let depth = settings.iodepth;
    if !(1..=DEPTH_MAX).contains(&depth) {
        let remedy = format!("--iodepth 1 to {DEPTH_MAX}");
        return Err(LoadError::unfit(format!("iodepth is {depth}"), remedy));
    }
    // A request is widened to the target's unit, at both ends.
    let longest = survey.longest_bytes.min(PART_BYTES_MAX);
    let room = longest.next_multiple_of(UNIT_BYTES_MAX) + UNIT_BYTES_MAX;
    let room = room.min(PART_BYTES_MAX);
    if room.saturating_mul(depth as u64) > BUFFER_BYTES_MAX {
        let what = format!(
            "the trace has requests of {}, and {depth} of them would take more than 4GiB",
            Bytes::new(survey.longest_bytes)
        );
        let most = BUFFER_BYTES_MAX / room;
        return Err(LoadError::unfit(what, format!("--iodepth {most} or less")));
    }
    Ok(Needs {
        jobs: 1,
        depth,
        request_bytes: usize::try_from(room).expect("parts are bounded"),
        writes: survey.writes,
        keeps_data: false,
    })
}

/// Where requests go on this target.
fn fit(
    settings: &ReplaySettings,
    survey: Survey,
    geometry: &Geometry,
    needs: &Needs,
) -> Result<Fit, LoadError> {
    if survey.writes && geometry.read_only {
        return Err(LoadError::unfit(
            "the target can only be read",
            "no --write, or a target that can be written",
        ));
    }
    if needs.depth > geometry.depth_max {
        let most = geometry.depth_max;
        let what = format!("a queue of the target holds {most} requests");
        return Err(LoadError::unfit(what, format!("--iodepth {most} or less")));
    }
    if geometry.size < u64::from(geometry.unit) {
        return Err(LoadError::unfit(
            "the target has no bytes",
            "a target that is not empty",
        ));
    }
    if survey.end_bytes > geometry.size && !settings.wrap {
        let (reach, size) = (Bytes::new(survey.end_bytes), Bytes::new(geometry.size));
        let what = format!("the trace reaches to {reach}, and the target ends at {size}");
        let remedy = "--wrap, which goes on from the target's beginning, or a larger target; if the trace is of several VMs or volumes, --vm and --volume choose one";
        return Err(LoadError::unfit(what, remedy));
    }
    Ok(Fit::new(geometry, needs.request_bytes as u64))
}
