//! What about a trace ruins a study, or should be known before one.
//!
//! A warning says what was seen, where first, and what to do. Each threshold has its reason beside it;
//! the traces that were used to choose it are in the tests.

use super::arrival::Clock;
use super::collect::Known;
use super::copies::Copies;
use super::spread::real;
use super::{Operations, VolumeInfo, share};
use serde::Serialize;
use units::{Bytes, Duration, SECTOR_BYTES};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Results will be wrong.
    Ruins,
    /// Results may be wrong; look closer.
    Suspicious,
    /// Nothing is wrong, but a study has to know it.
    Note,
}

/// Something to know before a trace is used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Warning {
    /// What kind: a word that scripts can look for.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What was seen, with figures.
    pub seen: String,
    /// How many records show it.
    pub records: u64,
    /// The first of them, counted from 1; absent if it concerns the trace as a whole.
    pub first_record: Option<u64>,
    /// What to do.
    pub remedy: String,
}

/// Records that show something, and the first of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    count: u64,
    first: u64,
    offset: u64,
    length: u64,
}

impl Seen {
    pub(super) fn add(&mut self, record: u64, offset: u64, length: u64) {
        self.count += 1;
        if self.count == 1 {
            (self.first, self.offset, self.length) = (record, offset, length);
        }
    }
}

/// What the warnings are drawn from.
pub(super) struct Evidence<'a> {
    pub(super) known: Known,
    pub(super) requests: u64,
    pub(super) operations: Operations,
    pub(super) times: &'a Clock,
    pub(super) copies: &'a Copies,
    pub(super) offsets_divisor: u64,
    pub(super) unaligned: Seen,
    pub(super) implausible: Seen,
    pub(super) impossible: Seen,
    pub(super) empty: Seen,
    pub(super) misaligned: Seen,
    pub(super) volumes: &'a [VolumeInfo],
    pub(super) block_bytes: u64,
}

/// A log is taken to hold every I/O twice if so many of the requests that are no second copies have one.
/// All have when all are doubled, even if the lower layer splits some; at most 0.05 have in every sound
/// trace that was tried, 0.44 in a zipf law of theta 1.2 at 5,000 requests a second.
const COPIED_SHARE_MIN: f64 = 0.8;
/// Below this many reads and writes a share says little.
const COPIES_REQUESTS_MIN: u64 = 100;
/// A step back this long is no disorder of parallel loggers, whose buffers hold milliseconds: the clock
/// was set, or files were joined in the wrong order.
const CLOCK_STEP_US: u64 = 1_000_000;
/// A gap is taken for a clock that was set, or a lost part, if it is longer than a day (idle servers of
/// sound week-long traces are silent for 23 hours) ...
const GAP_US: u64 = 86_400_000_000;
/// ... and than this share of the trace.
const GAP_SHARE: f64 = 0.5;
/// Offsets that reach nearer than this to 2^32 and not beyond look cut off at 32 bits.
const CUT_NEAR_BYTES: u64 = 16 << 20;
/// Share of misaligned requests from which on the hits that they make are no small part.
const MISALIGNED_SHARE_MIN: f64 = 0.5;
/// A unit of time from which on requests that belong together cannot be told apart.
const COARSE_US: u64 = 1_000_000;
/// Below this many requests a single strange one decides.
const REQUESTS_MIN: u64 = 1000;

type Judge = fn(&Evidence<'_>) -> Option<Warning>;

const JUDGES: [Judge; 16] = [
    empty_trace,
    copies,
    steps_back,
    forward_jump,
    no_time,
    coarse_time,
    no_operation,
    one_operation,
    keys_only,
    impossible,
    zero_length,
    implausible,
    unaligned,
    odd_unit,
    cut_offsets,
    misaligned,
];

/// The warnings, the worst first.
pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = JUDGES.iter().filter_map(|judge| judge(evidence)).collect();
    warnings.sort_by_key(|warning| warning.severity);
    warnings
}

fn warning(
    code: &'static str,
    severity: Severity,
    records: u64,
    first: Option<u64>,
    seen: String,
    remedy: impl Into<String>,
) -> Warning {
    Warning {
        code,
        severity,
        seen,
        records,
        first_record: first,
        remedy: remedy.into(),
    }
}

fn empty_trace(of: &Evidence<'_>) -> Option<Warning> {
    let data = of.operations.read.requests + of.operations.write.requests;
    (data == 0).then(|| {
        warning(
            "no-data",
            Severity::Ruins,
            0,
            None,
            format!("{} records, none of them a read or write", of.requests),
            "check the format, and the columns if it has any",
        )
    })
}

fn copies(of: &Evidence<'_>) -> Option<Warning> {
    let data = of.operations.read.requests + of.operations.write.requests;
    let part = share(of.copies.count, data);
    let copied = share(of.copies.covered, data - of.copies.count);
    if data < COPIES_REQUESTS_MIN || copied < COPIED_SHARE_MIN {
        return None;
    }
    let apart = if of.known.time {
        format!(", half of them within {}", micros(of.copies.gaps.median()))
    } else {
        String::new()
    };
    Some(warning(
        "duplicated-logging",
        Severity::Ruins,
        of.copies.count,
        Some(of.copies.first),
        format!(
            "{:.1}% of reads and writes repeat one before them, the same operation on the same range{apart}: \
             every I/O seems to be logged twice",
            part * 100.0
        ),
        "keep one of each pair: of blktrace one action (issue, or completion), of a stacked device one layer",
    ))
}

fn steps_back(of: &Evidence<'_>) -> Option<Warning> {
    let times = of.times;
    if times.steps_back == 0 {
        return None;
    }
    let (first, worst) = (times.first_back, times.worst_back);
    let seen = format!(
        "{} of {} records are earlier than the one before; the furthest by {}, at record {}",
        times.steps_back,
        of.requests,
        micros(worst.us),
        worst.record
    );
    // A step of coarse time is no more than its unit.
    Some(if worst.us >= CLOCK_STEP_US.max(2 * times.unit_us()) {
        warning(
            "clock-jump",
            Severity::Ruins,
            times.steps_back,
            Some(first.record),
            seen,
            "the clock was set while tracing, or parts were joined in the wrong order: split the trace \
             there, or sort it by time; timed replay and reuse times are wrong as it is",
        )
    } else {
        warning(
            "unsorted-time",
            Severity::Suspicious,
            times.steps_back,
            Some(first.record),
            seen,
            "sort the trace by time; loggers that run in parallel write like this",
        )
    })
}

fn forward_jump(of: &Evidence<'_>) -> Option<Warning> {
    let gap = of.times.longest_gap;
    let of_all = share(gap.us, of.times.duration_us());
    (of.known.time && gap.us > GAP_US && of_all > GAP_SHARE).then(|| {
        warning(
            "clock-jump",
            Severity::Suspicious,
            1,
            Some(gap.record),
            format!(
                "nothing for {} before record {}, {:.0}% of the trace's time: the clock was set, a part is \
                 missing, or a time is mangled",
                micros(gap.us),
                gap.record,
                of_all * 100.0
            ),
            "look at the records around it; split the trace there",
        )
    })
}

fn no_time(of: &Evidence<'_>) -> Option<Warning> {
    if of.known.time && of.times.differ() || of.requests < 2 {
        return None;
    }
    let seen = if of.known.time {
        "every record has the same time"
    } else {
        "the format has no time"
    };
    Some(warning(
        "no-time",
        Severity::Note,
        of.requests,
        None,
        seen.to_owned(),
        "replay as fast as possible; arrival, reuse times and timed replay say nothing",
    ))
}

fn coarse_time(of: &Evidence<'_>) -> Option<Warning> {
    let unit = of.times.unit_us();
    (of.known.time && unit >= COARSE_US && of.requests >= REQUESTS_MIN).then(|| {
        warning(
            "coarse-time",
            Severity::Note,
            of.requests,
            None,
            format!("times are multiples of {}", micros(unit)),
            "queues and latencies of a timed replay come from the unit, not from the workload",
        )
    })
}

fn no_operation(of: &Evidence<'_>) -> Option<Warning> {
    (!of.known.operation && of.requests > 0).then(|| {
        warning(
            "no-operation",
            Severity::Note,
            of.requests,
            None,
            "the format does not say reads from writes; all are taken for reads".to_owned(),
            "do not compare read hit ratios, write policies or flash writes on it",
        )
    })
}

fn one_operation(of: &Evidence<'_>) -> Option<Warning> {
    let (reads, writes) = (of.operations.read.requests, of.operations.write.requests);
    if !of.known.operation || reads + writes < REQUESTS_MIN || (reads > 0 && writes > 0) {
        return None;
    }
    let (only, other) = if writes == 0 {
        ("read", "write")
    } else {
        ("write", "read")
    };
    Some(warning(
        "one-operation",
        Severity::Suspicious,
        reads + writes,
        None,
        format!(
            "all {} requests are {only}s, not one {other}",
            reads + writes
        ),
        format!(
            "check that the source logs {other}s, and how it flags them; if so, this is a {only}-only \
             workload"
        ),
    ))
}

fn keys_only(of: &Evidence<'_>) -> Option<Warning> {
    (!of.known.place && of.requests > 0).then(|| {
        warning(
            "keys-only",
            Severity::Note,
            of.requests,
            None,
            "the format has keys, not places: each stands for one block".to_owned(),
            "sizes and sequentiality say nothing, and neighbours need not be neighbours on a disk",
        )
    })
}

fn impossible(of: &Evidence<'_>) -> Option<Warning> {
    let seen = of.impossible;
    (seen.count > 0).then(|| {
        warning(
            "impossible-requests",
            Severity::Ruins,
            seen.count,
            Some(seen.first),
            format!(
                "{} requests that no system issues; the first is {} at offset {} (they are left out here)",
                seen.count,
                Bytes::new(seen.length),
                seen.offset
            ),
            "check the columns and units of offset and length",
        )
    })
}

fn zero_length(of: &Evidence<'_>) -> Option<Warning> {
    let seen = of.empty;
    (seen.count > 0).then(|| {
        warning(
            "zero-length",
            Severity::Suspicious,
            seen.count,
            Some(seen.first),
            format!(
                "{} reads and writes have no length; they touch no block",
                seen.count
            ),
            "check the length's column; flushes are logged like this by some systems",
        )
    })
}

fn implausible(of: &Evidence<'_>) -> Option<Warning> {
    let seen = of.implausible;
    (of.known.place && seen.count > 0).then(|| {
        warning(
            "mangled-offsets",
            Severity::Ruins,
            seen.count,
            Some(seen.first),
            format!(
                "{} offsets are beyond 1 PiB, the first is {}: hashed, negative, or in the wrong unit",
                seen.count, seen.offset
            ),
            "check the offset's column and unit; hashed offsets are keys, each a block of its own",
        )
    })
}

fn unaligned(of: &Evidence<'_>) -> Option<Warning> {
    let seen = of.unaligned;
    let data = of.operations.read.requests + of.operations.write.requests;
    (of.known.place && seen.count > 0).then(|| {
        let part = share(seen.count, data);
        // Of numbers in sectors or blocks, taken for bytes, all but one in hundreds are no multiples.
        let severity = if part > 0.5 { Severity::Ruins } else { Severity::Suspicious };
        warning(
            "mangled-offsets",
            severity,
            seen.count,
            Some(seen.first),
            format!(
                "{:.1}% of the offsets are no multiples of 512 bytes, the first is {}",
                part * 100.0,
                seen.offset
            ),
            "no disk is addressed like this: give the offsets' unit (sectors, blocks), or take them for \
             keys; a trace of a file system's calls is fine",
        )
    })
}

fn odd_unit(of: &Evidence<'_>) -> Option<Warning> {
    let unit = of.offsets_divisor;
    let in_sectors = unit / SECTOR_BYTES;
    let odd = unit > 0
        && unit.is_multiple_of(SECTOR_BYTES)
        && !in_sectors.is_power_of_two()
        && of.requests >= REQUESTS_MIN;
    (of.known.place && odd).then(|| {
        warning(
            "mangled-offsets",
            Severity::Suspicious,
            of.requests,
            None,
            format!("every offset is a multiple of {unit} bytes, which is no size of a sector or block"),
            "the unit is probably not the right one: offsets were multiplied by a length, or are keys",
        )
    })
}

fn misaligned(of: &Evidence<'_>) -> Option<Warning> {
    let seen = of.misaligned;
    let data = of.operations.read.requests + of.operations.write.requests;
    let part = share(seen.count, data);
    (of.known.place && part > MISALIGNED_SHARE_MIN && data >= REQUESTS_MIN).then(|| {
        let block = Bytes::new(of.block_bytes);
        warning(
            "misaligned",
            Severity::Suspicious,
            seen.count,
            Some(seen.first),
            format!(
                "{:.0}% of the requests are whole multiples of {block} long and begin within one, the first \
                 at {}: each touches a block more, and shares it with its neighbours",
                part * 100.0,
                seen.offset
            ),
            "the volume is probably a partition that begins within a block: choose smaller blocks, or \
             subtract where it begins",
        )
    })
}

fn cut_offsets(of: &Evidence<'_>) -> Option<Warning> {
    const CUT: u64 = 1 << 32;
    let near = |info: &&VolumeInfo| {
        // A request that begins below the cut may end a little above.
        let last = info.end_bytes.saturating_sub(of.block_bytes);
        last < CUT && info.end_bytes > CUT - CUT_NEAR_BYTES && info.requests >= REQUESTS_MIN
    };
    if !of.known.place {
        return None;
    }
    let volumes: Vec<String> = of
        .volumes
        .iter()
        .filter(near)
        .map(VolumeInfo::name)
        .collect();
    let first = volumes.first()?;
    Some(warning(
        "mangled-offsets",
        Severity::Suspicious,
        0,
        None,
        format!(
            "the offsets of {} volumes ({first} first) reach to 4 GiB and not beyond: they may be cut off \
             at 32 bits",
            volumes.len()
        ),
        "check the size of the volume and the width of the offset where it was logged; different blocks \
         share a place otherwise",
    ))
}

/// Microseconds for people.
fn micros(us: u64) -> String {
    match us {
        0..10_000 => format!("{us}us"),
        10_000..10_000_000 => format!("{:.0}ms", real(us) / 1e3),
        10_000_000..172_800_000_000 => Duration::from_secs(us / 1_000_000).to_string(),
        _ => format!("{:.1} days", real(us) / 86_400e6),
    }
}
