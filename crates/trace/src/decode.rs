//! What a format must say, and what drives it: bytes in, records out.
//!
//! A format is a [`Decode`]; [`Stream`] feeds it with bytes and turns its faults into errors that name
//! the file. Text formats are a [`crate::lines::Line`] inside a [`crate::lines::Lines`].

use units::{Bytes, Offset};

use crate::error::{Malformed, Position, ReadError};
use crate::input::Input;
use crate::limits::{BATCH_RECORDS, REQUEST_BYTES_MAX};
use crate::record::{Op, Record, Volume, VolumeIndex, Volumes};
use crate::records::{Reader, Records, Stretch};

/// A format's decoder: the state between records and how to read the next one.
pub(crate) trait Decode: Send {
    /// The format's name, for errors.
    const NAME: &'static str;

    /// Decodes whole records from the front of the window until it has none or `out` is full, and says
    /// how many bytes they took. If the window is the last one, a rest that is no record is a fault.
    /// A window of [`crate::limits::LINE_BYTES_MAX`] bytes or more always allows progress.
    fn decode(&mut self, window: Window<'_>, out: &mut Out<'_>) -> Result<usize, Fault>;
}

/// Some of a trace's bytes.
#[derive(Clone, Copy)]
pub(crate) struct Window<'a> {
    pub(crate) bytes: &'a [u8],
    /// Where they are in the unpacked trace.
    pub(crate) offset: u64,
    /// Nothing follows.
    pub(crate) last: bool,
}

/// Why a decoder cannot go on.
pub(crate) enum Fault {
    Wrong(Position, Wrong),
    Truncated {
        position: Position,
        found: String,
        expected: String,
    },
}

/// A field that is not what it should be; one pointer, so that what is right pays nothing for it.
#[derive(Debug)]
pub(crate) struct Wrong(Box<WrongField>);

#[derive(Debug)]
pub(crate) struct WrongField {
    pub(crate) column: &'static str,
    pub(crate) found: String,
    pub(crate) expected: &'static str,
    pub(crate) remedy: &'static str,
}

/// What is nearly always the remedy.
const MEND: &str = "mend it, or say with --format what the trace really is";

/// How much of a wrong field an error shows.
const FOUND_CHARS: usize = 40;

impl Wrong {
    /// A field's bytes that are not what is expected.
    #[cold]
    pub(crate) fn field(column: &'static str, found: &[u8], expected: &'static str) -> Self {
        let text: String = String::from_utf8_lossy(found)
            .chars()
            .take(FOUND_CHARS + 1)
            .collect();
        let found = match text.chars().count() {
            0 => "empty or missing".to_owned(),
            count if count > FOUND_CHARS => {
                let shown: String = text.chars().take(FOUND_CHARS).collect();
                format!("{shown:?}...")
            }
            _ => format!("{text:?}"),
        };
        Self::found(column, found, expected)
    }

    /// The same with a value that is already text.
    #[cold]
    pub(crate) fn found(column: &'static str, found: String, expected: &'static str) -> Self {
        Self(Box::new(WrongField {
            column,
            found,
            expected,
            remedy: MEND,
        }))
    }

    /// The same with a remedy of its own.
    pub(crate) fn remedy(mut self, remedy: &'static str) -> Self {
        self.0.remedy = remedy;
        self
    }
}

/// Where decoded records go.
pub(crate) struct Out<'a> {
    pub(crate) records: &'a mut Records,
    pub(crate) volumes: &'a mut Volumes,
    /// The VM that the caller gave to the whole trace.
    pub(crate) vm: Option<&'a str>,
}

impl Out<'_> {
    /// True if the decoder should stop here.
    pub(crate) fn is_full(&self) -> bool {
        self.records.len() >= BATCH_RECORDS
    }

    /// The volume of a format that knows only one.
    pub(crate) fn only_volume(&mut self) -> VolumeIndex {
        if self.volumes.is_empty() {
            self.volume(String::new(), String::new());
        }
        VolumeIndex::new(0)
    }

    /// The place of a volume that a format names.
    pub(crate) fn volume(&mut self, vm: String, name: String) -> VolumeIndex {
        let vm = self.vm.map_or(vm, str::to_owned);
        self.volumes.intern(&Volume { vm, name })
    }

    /// How many records the decoder may still add.
    pub(crate) fn room(&self) -> usize {
        BATCH_RECORDS.saturating_sub(self.records.len())
    }

    /// Adds a record after checking what no format may say.
    #[inline]
    pub(crate) fn push(&mut self, record: Record) -> Result<(), Wrong> {
        let is_long = record.op.carries_data() && record.length > REQUEST_BYTES_MAX;
        if is_long || record.offset.checked_add(record.length).is_none() {
            return Err(impossible(record.op, record.offset, record.length));
        }
        self.records.push(record);
        Ok(())
    }

    /// Adds the requests of a stretch that begin at `offsets` of [`crate::keys::Keys`], which leave room for each behind them.
    #[inline]
    pub(crate) fn push_stretch(
        &mut self,
        stretch: Stretch,
        times_us: impl ExactSizeIterator<Item = u64>,
        mut offsets: impl ExactSizeIterator<Item = Offset>,
    ) -> Result<(), Wrong> {
        if stretch.length > REQUEST_BYTES_MAX {
            let offset = offsets.next().unwrap_or(Offset::ZERO);
            return Err(impossible(stretch.op, offset, stretch.length));
        }
        self.records.push_stretch(stretch, times_us, offsets);
        Ok(())
    }
}

/// What is wrong with a record that no format may have. Takes values: a record that is pointed to is built on the stack,
/// and copying it from there waits until it is written.
#[cold]
fn impossible(op: Op, offset: Offset, length: Bytes) -> Wrong {
    if op.carries_data() && length > REQUEST_BYTES_MAX {
        return Wrong::found(
            "length",
            length.to_string(),
            "at most 256MiB for a read or write",
        );
    }
    Wrong::found(
        "offset",
        offset.to_string(),
        "an offset whose request ends below 2^64 bytes",
    )
}

/// Multiplies sectors, blocks or pages into bytes.
pub(crate) fn scaled(column: &'static str, count: u64, unit: u64) -> Result<Bytes, Wrong> {
    match count.checked_mul(unit) {
        Some(bytes) => Ok(Bytes::new(bytes)),
        None => Err(Wrong::found(
            column,
            count.to_string(),
            "a number of sectors or blocks below 2^64 bytes",
        )),
    }
}

/// A reader of one input in one format.
pub(crate) struct Stream<D> {
    input: Input,
    decode: D,
    volumes: Volumes,
    vm: Option<String>,
    done: bool,
}

impl<D: Decode> Stream<D> {
    pub(crate) fn new(input: Input, decode: D, vm: Option<String>) -> Self {
        Self {
            input,
            decode,
            volumes: Volumes::new(),
            vm,
            done: false,
        }
    }

    fn next_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
        loop {
            let window = Window {
                bytes: self.input.bytes(),
                offset: self.input.consumed(),
                last: self.input.ended(),
            };
            let mut out = Out {
                records,
                volumes: &mut self.volumes,
                vm: self.vm.as_deref(),
            };
            let used = match self.decode.decode(window, &mut out) {
                Ok(used) => used,
                Err(fault) => {
                    self.input.check_rest()?;
                    return Err(fault.in_file(self.input.name(), D::NAME));
                }
            };
            self.input.consume(used);
            if records.len() >= BATCH_RECORDS {
                return Ok(true);
            }
            if self.input.ended() {
                if used > 0 && !self.input.bytes().is_empty() {
                    // A header was read; what it announces is here already.
                    continue;
                }
                assert!(self.input.bytes().is_empty(), "the last window is used up");
                self.done = true;
                return Ok(!records.is_empty());
            }
            self.input.fill()?;
        }
    }
}

impl Fault {
    /// The error for whoever reads the trace.
    pub(crate) fn in_file(self, file: &str, format: &'static str) -> ReadError {
        let file = file.to_owned();
        match self {
            Self::Wrong(position, Wrong(wrong)) => ReadError::Malformed(Box::new(Malformed {
                file,
                position,
                format,
                column: wrong.column,
                found: wrong.found,
                expected: wrong.expected,
                remedy: wrong.remedy,
            })),
            Self::Truncated {
                position,
                found,
                expected,
            } => ReadError::Truncated {
                file,
                position,
                found,
                expected,
            },
        }
    }
}

impl<D: Decode> Reader for Stream<D> {
    fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
        records.clear();
        records.reserve(BATCH_RECORDS);
        if self.done {
            return Ok(false);
        }
        let read = self.next_batch(records);
        self.done |= read.is_err();
        read
    }

    fn volumes(&self) -> &Volumes {
        &self.volumes
    }
}

/// Binary records of one size without a header.
pub(crate) trait Fixed: Send {
    const NAME: &'static str;
    /// The size of a record, learnt before the first one is decoded.
    fn record_bytes(&self) -> usize;
    /// Adds what these bytes say to `out`: one record at most.
    fn record(&mut self, bytes: &[u8], out: &mut Out<'_>) -> Result<(), Wrong>;
}

/// The decoder of a [`Fixed`] format.
pub(crate) struct FixedSize<F>(pub(crate) F);

impl<F: Fixed> Decode for FixedSize<F> {
    const NAME: &'static str = F::NAME;

    fn decode(&mut self, window: Window<'_>, out: &mut Out<'_>) -> Result<usize, Fault> {
        let size = self.0.record_bytes();
        let mut used = 0;
        while !out.is_full() && window.bytes.len() - used >= size {
            // A record adds one to `out` at most, so that nothing need be asked between them.
            for record in window.bytes[used..].chunks_exact(size).take(out.room()) {
                if let Err(wrong) = self.0.record(record, out) {
                    let position = Position::Byte(window.offset + used as u64);
                    return Err(Fault::Wrong(position, wrong));
                }
                used += size;
            }
        }
        check_rest(window, used, size, out)?;
        Ok(used)
    }
}

/// Refuses a trace that ends within a record of that size, of which `used` bytes were decoded.
pub(crate) fn check_rest(
    window: Window<'_>,
    used: usize,
    size: usize,
    out: &Out<'_>,
) -> Result<(), Fault> {
    let rest = window.bytes.len() - used;
    if window.last && rest > 0 && !out.is_full() {
        return Err(Fault::Truncated {
            position: Position::Byte(window.offset + used as u64),
            found: format!("{rest} bytes"),
            expected: format!("{size} expected"),
        });
    }
    Ok(())
}
