//! Block traces: what the published formats say, as one stream of canonical records.
//!
//! ```text
//!  file, stdin ─► unpack (gz zst xz bz2) ─► recognise ─► reader ─► Records ─► Splitter ─► Batch
//!                                                          one file a format              block keys 0..
//! ```
//!
//! A trace is foreign input: nothing in it can make this crate panic, and what is wrong with it is an
//! error that says where, what was found, what was expected and what to do. A trace is streamed, a batch
//! at a time; only the splitter's table of distinct blocks grows with it.

#![forbid(unsafe_code)]

pub mod anonymize;
mod columns;
mod decode;
mod error;
mod format;
pub mod generate;
pub mod info;
mod input;
mod keys;
pub mod limits;
mod lines;
mod names;
mod open;
mod recognise;
mod record;
mod records;
mod seal;
mod splitter;
mod together;
mod untar;
pub mod write;

pub use columns::{CsvColumns, ParseColumnsError, TimeUnit};
pub use error::{Malformed, Position, ReadError};
pub use format::{Format, UnknownFormat};
pub use input::Packing;
pub use open::{OpenError, Opened, Options, open, open_stream};
pub use record::{ContentHash, Op, Record, Role, UnknownOp, Volume, VolumeIndex, Volumes};
pub use records::{Reader, Records, Rows, Stretch};
pub use splitter::{Batch, Request, SplitError, Splitter};
pub use together::{Arrangement, Part, open_together};
