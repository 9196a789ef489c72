//! Any csv whose columns are named: libCacheSim's csv with its column options.
//!
//! The columns come from [`CsvColumns`], or from a header with names such as `time,obj_id,obj_size,op`.
//! Without a size an access is one block; without an operation it is a read; without a time it is at zero.
//! An id is a key (see `keys`) unless `id-unit` says how many bytes it counts: 512 for sectors. With a blank as
//! delimiter any run of blanks and tabs separates two columns.

use units::{Bytes, Offset};

use crate::columns::{CsvColumns, TimeUnit};
use crate::decode::{Out, Wrong, scaled};
use crate::format::{Entry, OpenedReader};
use crate::input::Input;
use crate::keys::Keys;
use crate::lines::{A_NUMBER, Line, Lines, micros, number};
use crate::open::{OpenError, Options, stream};
use crate::recognise::{Guess, Sample, Strength};
use crate::record::{Op, Record};

pub(super) static ENTRY: Entry = Entry {
    name: "csv",
    about: "any csv by its columns, as libCacheSim names them",
    hints: &[],
    recognise: |sample: &Sample<'_>| {
        let first = sample.lines().next().unwrap_or_default();
        from_header(first).map(|_| Guess::new(Strength::Strong, "the names in its header"))
    },
    open,
};

fn open(input: Input, options: &Options) -> OpenedReader {
    let first = input.sample().split(|&byte| byte == b'\n').next();
    let first = first.unwrap_or_default().trim_ascii();
    let columns = options.csv.clone().or_else(|| from_header(first));
    let Some(columns) = columns else {
        return Err(OpenError::NoColumns {
            file: input.name().to_owned(),
        });
    };
    let delimiter = columns.delimiter.unwrap_or_else(|| {
        let is_one = last_column(&columns) == 1;
        let usual = find_delimiter(first);
        usual.unwrap_or(if is_one { b',' } else { BLANK })
    });
    let unit = columns.id_unit.unwrap_or(options.key);
    let format = Csv {
        columns,
        delimiter,
        keys: Keys::new(unit),
        block: options.key,
        at_start: true,
    };
    Ok(stream(input, Lines::new(format), options))
}

const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];

/// Any run of blanks and tabs.
const BLANK: u8 = b' ';

/// The first of the usual delimiters that a line has.
fn find_delimiter(line: &[u8]) -> Option<u8> {
    DELIMITERS
        .into_iter()
        .find(|delimiter| line.contains(delimiter))
}

/// The column furthest to the right that is looked at.
fn last_column(columns: &CsvColumns) -> u32 {
    let others = [columns.time, columns.size, columns.op];
    others.into_iter().flatten().fold(columns.id, u32::max)
}

const TIME_NAMES: [&str; 5] = ["time", "timestamp", "clock_time", "real_time", "ts"];
const ID_NAMES: [&str; 8] = [
    "obj_id",
    "object_id",
    "id",
    "key",
    "obj",
    "object",
    "lba",
    "lbn",
];
const SIZE_NAMES: [&str; 5] = ["obj_size", "object_size", "size", "length", "len"];
const OP_NAMES: [&str; 4] = ["op", "operation", "opcode", "type"];

/// The columns of a header, if it names an id.
fn from_header(line: &[u8]) -> Option<CsvColumns> {
    let delimiter = find_delimiter(line).unwrap_or(b',');
    let names: Vec<String> = line
        .split(|&byte| byte == delimiter)
        .map(|name| {
            String::from_utf8_lossy(plain(name))
                .to_lowercase()
                .replace(['-', ' '], "_")
        })
        .collect();
    let column = |known: &[&str]| {
        let place = names
            .iter()
            .position(|name| known.contains(&name.as_str()))?;
        u32::try_from(place + 1).ok()
    };
    Some(CsvColumns {
        id: column(&ID_NAMES)?,
        time: column(&TIME_NAMES),
        size: column(&SIZE_NAMES),
        op: column(&OP_NAMES),
        delimiter: Some(delimiter),
        has_header: Some(true),
        ..CsvColumns::default()
    })
}

/// A field without blanks and quotes around it.
fn plain(field: &[u8]) -> &[u8] {
    let field = field.trim_ascii();
    field
        .strip_prefix(b"\"")
        .and_then(|field| field.strip_suffix(b"\""))
        .unwrap_or(field)
}

struct Csv {
    columns: CsvColumns,
    delimiter: u8,
    keys: Keys,
    block: Bytes,
    at_start: bool,
}

impl Line for Csv {
    const NAME: &'static str = ENTRY.name;

    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        if line.trim_ascii().is_empty() || line[0] == b'#' {
            return Ok(());
        }
        let found = self.fields(line);
        if std::mem::take(&mut self.at_start) && self.is_header(&found) {
            return Ok(());
        }
        let time_us = match (self.columns.time, found.time) {
            (Some(_), field) => self.time(field)?,
            (None, _) => 0,
        };
        let op = match self.columns.op {
            Some(_) => self.operation(found.op)?,
            None => Op::Read,
        };
        let length = match self.columns.size {
            Some(_) => match number(found.size) {
                Some(size) => {
                    let unit = self.columns.size_unit.map_or(1, Bytes::get);
                    scaled("the size", size, unit)?
                }
                None => return Err(Wrong::field("the size", found.size, A_NUMBER)),
            },
            None => self.block,
        };
        let offset = match number(found.id) {
            Some(id) if self.columns.id_unit.is_some() => {
                Offset::after(scaled("the id", id, self.keys.unit().get())?)
            }
            Some(id) => self.keys.offset(id),
            None if found.id.is_empty() => {
                return Err(Wrong::field("the id", found.id, "a number or a name")
                    .remedy("check obj-id-col and delimiter"));
            }
            None => self.keys.offset_of_name(found.id),
        };
        let volume = out.only_volume();
        out.push(Record::new(time_us, volume, op, offset, length))
    }
}

#[derive(Default)]
struct Found<'a> {
    time: &'a [u8],
    id: &'a [u8],
    size: &'a [u8],
    op: &'a [u8],
}

impl Csv {
    fn fields<'a>(&self, line: &'a [u8]) -> Found<'a> {
        if self.delimiter == BLANK {
            let fields = line.split(|byte| matches!(byte, b' ' | b'\t'));
            return self.pick(fields.filter(|field| !field.is_empty()));
        }
        self.pick(line.split(|&byte| byte == self.delimiter))
    }

    fn pick<'a>(&self, fields: impl Iterator<Item = &'a [u8]>) -> Found<'a> {
        let columns = &self.columns;
        let mut found = Found::default();
        for (column, field) in (1..).zip(fields) {
            if column == columns.id {
                found.id = plain(field);
            }
            if Some(column) == columns.time {
                found.time = plain(field);
            }
            if Some(column) == columns.size {
                found.size = plain(field);
            }
            if Some(column) == columns.op {
                found.op = plain(field);
            }
        }
        found
    }

    /// The operation by its word, or by 0 and 1 where it is known which of them reads.
    fn operation(&self, word: &[u8]) -> Result<Op, Wrong> {
        match (word, self.columns.read_op) {
            (b"0", Some(0)) | (b"1", Some(1)) => Ok(Op::Read),
            (b"0" | b"1", Some(_)) => Ok(Op::Write),
            (b"0" | b"1", None) => Err(Wrong::field("the operation", word, A_WORD)
                .remedy("add read-op=0 or read-op=1 to --columns, whichever is a read")),
            _ => operation(word),
        }
    }

    /// Whether the first line names columns: as was said, or because a number is none.
    fn is_header(&self, found: &Found<'_>) -> bool {
        self.columns.has_header.unwrap_or_else(|| {
            let names = |field: &[u8]| field.first().is_some_and(u8::is_ascii_alphabetic);
            (self.columns.time.is_some() && names(found.time))
                || (self.columns.size.is_some() && names(found.size))
                || ID_NAMES
                    .iter()
                    .any(|name| found.id.eq_ignore_ascii_case(name.as_bytes()))
        })
    }

    fn time(&self, field: &[u8]) -> Result<u64, Wrong> {
        let whole = field.split(|&byte| byte == b'.').next().and_then(number);
        let us = match self.columns.time_unit {
            TimeUnit::Seconds => micros(field),
            TimeUnit::Millis => whole.and_then(|ms| ms.checked_mul(1_000)),
            TimeUnit::Micros => whole,
            TimeUnit::Nanos => whole.map(|ns| ns / 1_000),
        };
        us.ok_or_else(|| {
            Wrong::field("the time", field, "a time in the unit of time-unit")
                .remedy("check time-col, time-unit and delimiter")
        })
    }
}

const A_WORD: &str = "read, write, discard, flush or a usual word for one of them";

fn operation(word: &[u8]) -> Result<Op, Wrong> {
    let lower = word.to_ascii_lowercase();
    match lower.as_slice() {
        b"r" | b"read" | b"get" | b"gets" => Ok(Op::Read),
        b"w" | b"write" | b"set" | b"put" | b"add" | b"update" | b"replace" => Ok(Op::Write),
        b"d" | b"discard" | b"trim" | b"delete" | b"unmap" => Ok(Op::Discard),
        b"f" | b"flush" | b"sync" => Ok(Op::Flush),
        b"write-zeroes" => Ok(Op::WriteZeroes),
        _ => Err(Wrong::field("the operation", word, A_WORD)),
    }
}
