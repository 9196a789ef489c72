//! Opening a trace: unpack, recognise, hand out a reader.

use std::io::Read;
use std::path::Path;

use units::Bytes;

use crate::columns::CsvColumns;
use crate::decode::{Decode, Stream};
use crate::error::ReadError;
use crate::format::{Format, names};
use crate::generate::{Generator, PREFIX, SpecError};
use crate::input::{Input, Packing};
use crate::limits::SAMPLE_BYTES;
use crate::recognise::{Sample, Verdict, recognise};
use crate::records::Reader;

/// How to open a trace.
#[derive(Clone, Debug)]
pub struct Options {
    /// The format, if it is not to be recognised.
    pub format: Option<Format>,
    /// What a key stands for in formats that number blocks instead of addressing bytes: key k is this many
    /// bytes at k times as many. Set it to the block size that the trace is split into.
    pub key: Bytes,
    /// The columns of the `csv` format; given, they choose that format.
    pub csv: Option<CsvColumns>,
    /// The VM that all volumes belong to, instead of what the format says.
    pub vm: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: None,
            csv: None,
            key: Bytes::new(units::BLOCK_BYTES),
            vm: None,
        }
    }
}

/// An opened trace.
pub struct Opened {
    /// Its records.
    pub reader: Box<dyn Reader>,
    /// Its format.
    pub format: Format,
    /// What the format was recognised by; `None` if it was given.
    pub recognised_by: Option<String>,
    /// What the file is packed with.
    pub packing: Packing,
}

/// Why a trace cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// No format knows it.
    #[error(
        "{file}: no known format ({}{first}); name one with --format: {}",
        if *.packing == Packing::None { String::new() } else { format!("unpacked from {}, ", .packing.name()) },
        names()
    )]
    Unknown {
        /// The trace's file.
        file: String,
        /// What it is packed with.
        packing: Packing,
        /// How it begins.
        first: String,
    },
    /// Several formats fit equally well.
    #[error("{file}: could be {candidates}; say which with --format")]
    Ambiguous {
        /// The trace's file.
        file: String,
        /// The formats that fit.
        candidates: String,
    },
    /// A csv whose columns are unknown.
    #[error(
        "{file}: which columns? Name them, such as time-col=1,obj-id-col=2,obj-size-col=3, \
         or give it a header with obj_id"
    )]
    NoColumns {
        /// The trace's file.
        file: String,
    },
    /// Columns for a format that has its own.
    #[error("{file}: columns can be named for csv, not for {format}; leave out one of the two")]
    UnwantedColumns {
        /// The trace's file.
        file: String,
        /// The format.
        format: &'static str,
    },
    /// A table without a column that a trace needs.
    #[error("{file}: has no column {column}; it has {found}")]
    MissingColumn {
        /// The trace's file.
        file: String,
        /// The column.
        column: &'static str,
        /// Those that are there.
        found: String,
    },
    /// A format that is read from its end, on a pipe or inside of a packing.
    #[error("{file}: Parquet is read from its end: unpack it into a file and name that")]
    NotSeekable {
        /// The trace's file.
        file: String,
    },
    /// A description of a generator that is none.
    #[error(transparent)]
    Generator(#[from] SpecError),
    /// A file that was taken for a generator.
    #[error("{file}: is a file, not a generator, which is written as gen:KIND,KEY=VALUE,...")]
    NoGenerator {
        /// The trace's file.
        file: String,
    },
    /// There is nothing in it.
    #[error("{file}: the trace is empty")]
    Empty {
        /// The trace's file.
        file: String,
    },
}

/// Opens a file, stdin for `-`, or a generator for `gen:...` (see [`crate::generate`]).
///
/// # Errors
/// If it cannot be read, or its format is neither given nor recognised.
pub fn open(path: &Path, options: &Options) -> Result<Opened, OpenError> {
    if let Some(text) = path.to_str().filter(|text| text.starts_with(PREFIX)) {
        return Ok(Opened {
            reader: Box::new(Generator::new(&text.parse()?)),
            format: Format::generated(),
            recognised_by: Some(format!("the beginning {PREFIX}")),
            packing: Packing::None,
        });
    }
    open_input(Input::open(path)?, options)
}

/// Reads a trace from anywhere; `name` stands for it in errors, and its ending for the file's.
///
/// # Errors
/// As [`open`]; Parquet needs a file.
pub fn open_stream(
    name: &str,
    source: Box<dyn Read + Send>,
    options: &Options,
) -> Result<Opened, OpenError> {
    open_input(Input::new(name.to_owned(), source)?, options)
}

fn open_input(mut input: Input, options: &Options) -> Result<Opened, OpenError> {
    let packing = input.packing();
    let file = input.name().to_owned();
    let bytes = input.peek(SAMPLE_BYTES)?;
    if bytes.is_empty() {
        return Err(OpenError::Empty { file });
    }
    if let Some(format) = options.format
        && format != Format::csv()
        && options.csv.is_some()
    {
        let format = format.name();
        return Err(OpenError::UnwantedColumns { file, format });
    }
    let given = options
        .format
        .or(options.csv.as_ref().map(|_| Format::csv()));
    let (format, recognised_by) = if let Some(format) = given {
        (format, None)
    } else {
        match recognise_input(&input) {
            Ok((format, why)) => (format, Some(why)),
            Err(error) => {
                input.damaged_magic().map_or(Ok(()), Err)?;
                input.check_rest()?;
                return Err(error);
            }
        }
    };
    let reader = (format.entry().open)(input, options)?;
    Ok(Opened {
        reader,
        format,
        recognised_by,
        packing,
    })
}

fn recognise_input(input: &Input) -> Result<(Format, String), OpenError> {
    let file = input.name().to_owned();
    let name = Path::new(&file)
        .file_name()
        .map(|name| name.to_string_lossy().to_lowercase());
    let sample = Sample {
        bytes: input.sample(),
        name: name.unwrap_or_default(),
    };
    match recognise(&sample) {
        Verdict::Is(format, why) => Ok((format, why)),
        Verdict::Several(formats) => {
            let list: Vec<&str> = formats.into_iter().map(Format::name).collect();
            Err(OpenError::Ambiguous {
                file,
                candidates: list.join(" or "),
            })
        }
        Verdict::Unknown => Err(OpenError::Unknown {
            file,
            packing: input.packing(),
            first: first_bytes(sample.bytes),
        }),
    }
}

/// How a trace begins, for an error.
fn first_bytes(bytes: &[u8]) -> String {
    let first = &bytes[..bytes.len().min(40)];
    if first
        .iter()
        .all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
    {
        let line = first.split(|&byte| byte == b'\n').next().unwrap_or(first);
        return format!("it begins with {:?}", String::from_utf8_lossy(line));
    }
    let hex: Vec<String> = first
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("it begins with the bytes {}", hex.join(" "))
}

/// The reader of a format that is a decoder of a stream.
pub(crate) fn stream<D: Decode + 'static>(
    input: Input,
    decoder: D,
    options: &Options,
) -> Box<dyn Reader> {
    Box::new(Stream::new(input, decoder, options.vm.clone()))
}
