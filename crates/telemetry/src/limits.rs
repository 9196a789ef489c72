//! How much of traces there may be, and for how long anything may take.

use std::time::Duration;

/// Spans that wait for the exporter. A command has ten at most, so these are two hundred commands in [`BATCH_PAUSE`]. At a
/// kilobyte each they take 2 MiB.
pub const QUEUED_MAX: usize = 2048;
/// Spans in one request to the collector: half a megabyte, which every collector takes.
pub const BATCH_MAX: usize = 512;
/// How long spans are gathered before they are sent.
pub const BATCH_PAUSE: Duration = Duration::from_secs(1);
/// How long a request may take, from looking its name up to the last byte of its answer.
pub const POST_TIME_MAX: Duration = Duration::from_secs(3);
/// How often a batch is sent before it is dropped: the collector may be starting anew.
pub const TRIES_MAX: u32 = 3;
/// The pause before a batch is sent again; each doubles.
pub const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How long the last spans may take at the end of the daemon, which has other things to do before it may go.
pub const FAREWELL_TIME_MAX: Duration = Duration::from_secs(1);
/// Bytes of an answer that are read.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Bytes of a text in a span: names of disks are shorter, and what says why something failed is a line.
pub const TEXT_BYTES_MAX: usize = 1024;
/// Attributes of a span, and moments in it: what is more is left out and counted in it.
pub const OF_SPAN_MAX: usize = 32;
/// Bytes of the file with headers.
pub const HEADERS_BYTES_MAX: u64 = 64 << 10;
