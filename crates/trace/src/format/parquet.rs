//! Parquet with the canonical columns, as `hearth trace convert` writes it.
//!
//! `time_us`, `offset_bytes` and `length_bytes` are whole numbers, `op` is a name of `Op`; `vm` and
//! `volume` (texts), `response_us` (number) and `content_hash` (16 bytes) may be missing. Other columns
//! are passed over. The file must be seekable: no stdin, no packing around it. The seal of the whole file
//! (see [`crate::seal::table`]) and the checksums of pages are compared where the file has them.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ::parquet::basic::{LogicalType, Type as Physical};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::DataType;
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use units::{Bytes, Offset};

use crate::decode::{Fault, Out, Wrong};
use crate::error::{Position, ReadError};
use crate::format::recorded::op as op_named;
use crate::format::{Entry, OpenedReader};
use crate::input::Input;
use crate::limits::BATCH_RECORDS;
use crate::names::{VolumeNames, printable};
use crate::open::{OpenError, Options};
use crate::recognise::{Guess, Sample, Strength};
use crate::record::{ContentHash, Record, Volumes};
use crate::records::{Reader, Records};
use crate::seal::table;

pub(super) static ENTRY: Entry = Entry {
    name: "parquet",
    about: "Parquet with columns time_us, vm, volume, op, offset_bytes, length_bytes",
    hints: &[".parquet"],
    recognise: |sample: &Sample<'_>| {
        sample
            .bytes
            .starts_with(b"PAR1")
            .then(|| Guess::new(Strength::Certain, "its magic number PAR1"))
    },
    open: |input, options| open(&input, options),
};

/// The columns that are read, in the order of `Table::places`; the first `REQUIRED` must be there.
const COLUMNS: [&str; 8] = [
    "time_us",
    "op",
    "offset_bytes",
    "length_bytes",
    "vm",
    "volume",
    "response_us",
    "content_hash",
];
const REQUIRED: usize = 4;

fn open(input: &Input, options: &Options) -> OpenedReader {
    let file = input.name().to_owned();
    let Some(path) = input.plain_file() else {
        return Err(OpenError::NotSeekable { file });
    };
    let damaged = |source| damaged(&file, None, source);
    let mut opened = File::open(path).map_err(damaged)?;
    table::check(&mut opened).map_err(damaged)?;
    let reader = guarded(|| SerializedFileReader::new(opened)).map_err(damaged)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let place_of = |name: &str| {
        (0..schema.num_columns()).find(|&place| {
            let column = schema.column(place);
            column.path().string() == name && column.max_rep_level() == 0
        })
    };
    let places = COLUMNS.map(place_of);
    if let Some(missing) = (0..REQUIRED).find(|&column| places[column].is_none()) {
        let found: Vec<String> = schema
            .columns()
            .iter()
            .map(|column| column.path().string())
            .collect();
        return Err(OpenError::MissingColumn {
            file,
            column: COLUMNS[missing],
            found: found.join(", "),
        });
    }
    Ok(Box::new(Table {
        file,
        reader,
        places,
        group: 0,
        columns: Vec::new(),
        rows_left: 0,
        row: 0,
        names: VolumeNames::default(),
        volumes: Volumes::new(),
        vm: options.vm.clone(),
        done: false,
    }))
}

/// What the system says is its own; anything else comes of the file.
fn damaged(file: &str, position: Option<Position>, source: io::Error) -> ReadError {
    let file = file.to_owned();
    if source.raw_os_error().is_some() {
        return ReadError::Input {
            file,
            unpacked_bytes: 0,
            remedy: "check the path and the permissions, and try again",
            source,
        };
    }
    ReadError::Damaged {
        file,
        what: "Parquet file",
        position,
        source,
    }
}

/// Runs the Parquet library, which panics on some damaged files: that is an error of the file here.
fn guarded<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> io::Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(ParquetError::External(source))) => Err(io::Error::other(source)),
        Ok(Err(error)) => Err(io::Error::other(error)),
        Err(_) => Err(io::Error::other("the Parquet library gave up on it")),
    }
}

struct Table {
    file: String,
    reader: SerializedFileReader<File>,
    /// Where each of `COLUMNS` is in the file.
    places: [Option<usize>; COLUMNS.len()],
    /// How many row groups were opened, and the columns and rows that are left of the last one.
    group: usize,
    columns: Vec<Option<Column>>,
    rows_left: usize,
    /// Rows that were handed out.
    row: u64,
    names: VolumeNames,
    volumes: Volumes,
    vm: Option<String>,
    done: bool,
}

impl Reader for Table {
    fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
        records.clear();
        if self.done {
            return Ok(false);
        }
        let read = self.next_batch(records);
        self.done = !matches!(read, Ok(true));
        read
    }

    fn volumes(&self) -> &Volumes {
        &self.volumes
    }
}

impl Table {
    fn next_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
        while self.rows_left == 0 {
            if self.group == self.reader.num_row_groups() {
                return Ok(false);
            }
            self.group += 1;
            self.open_group()
                .map_err(|source| damaged(&self.file, Some(self.here()), source))?;
        }
        let rows = self.rows_left.min(BATCH_RECORDS);
        let here = self.here();
        let mut fields = Vec::with_capacity(COLUMNS.len());
        for column in &mut self.columns {
            let read = match column {
                Some(column) => guarded(|| column.read(rows)),
                None => Ok(vec![Field::Null; rows]),
            };
            fields.push(read.map_err(|source| damaged(&self.file, Some(here), source))?);
        }
        if let Some(short) = fields.iter().position(|field| field.len() < rows) {
            return Err(ReadError::Truncated {
                file: self.file.clone(),
                position: Position::Row {
                    row: self.row + fields[short].len() as u64 + 1,
                    group: self.group as u64,
                },
                found: format!("column {} ends", COLUMNS[short]),
                expected: format!("{rows} more rows expected"),
            });
        }
        for row in 0..rows {
            self.record(&fields, row, records).map_err(|wrong| {
                Fault::Wrong(self.here(), wrong).in_file(&self.file, ENTRY.name)
            })?;
            self.row += 1;
        }
        self.rows_left -= rows;
        Ok(true)
    }

    fn open_group(&mut self) -> io::Result<()> {
        let (reader, places, index) = (&self.reader, &self.places, self.group - 1);
        let (columns, rows) = guarded(|| {
            let group = reader.get_row_group(index)?;
            let columns: Result<Vec<_>, ParquetError> = places
                .iter()
                .map(|place| {
                    let Some(place) = *place else { return Ok(None) };
                    let description = group.metadata().column(place).column_descr_ptr();
                    Ok(Some(Column {
                        reader: group.get_column_reader(place)?,
                        present: description.max_def_level(),
                        is_unsigned: matches!(
                            description.logical_type_ref(),
                            Some(LogicalType::Integer(kind)) if !kind.is_signed
                        ),
                        is_text: matches!(
                            description.physical_type(),
                            Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY
                        ),
                    }))
                })
                .collect();
            Ok((columns?, group.metadata().num_rows()))
        })?;
        self.columns = columns;
        self.rows_left = usize::try_from(rows).map_err(io::Error::other)?;
        Ok(())
    }

    /// The next row, and the row group that is open.
    fn here(&self) -> Position {
        Position::Row {
            row: self.row + 1,
            group: self.group as u64,
        }
    }

    fn record(
        &mut self,
        fields: &[Vec<Field>],
        row: usize,
        records: &mut Records,
    ) -> Result<(), Wrong> {
        let [time, op, offset, length, vm, volume, response, hash] =
            std::array::from_fn(|column| &fields[column][row]);
        let time_us = time.number(COLUMNS[0])?;
        let op = op_named(op.bytes())?;
        let offset = Offset::new(offset.number(COLUMNS[2])?);
        let length = Bytes::new(length.number(COLUMNS[3])?);
        let mut out = Out {
            records,
            volumes: &mut self.volumes,
            vm: self.vm.as_deref(),
        };
        let (vm, volume) = (vm.bytes(), volume.bytes());
        let name = [vm, b"\0", volume].concat();
        let volume = self
            .names
            .get(&name, &mut out, |_| (printable(vm), printable(volume)));
        let mut record = Record::new(time_us, volume, op, offset, length);
        record.response_us = match response {
            Field::Null => None,
            response => Some(u32::try_from(response.number(COLUMNS[6])?).unwrap_or(u32::MAX)),
        };
        record.hash = match hash {
            Field::Null => None,
            hash => match hash.bytes().try_into() {
                Ok(hash) => Some(ContentHash(hash)),
                Err(_) => return Err(Wrong::field(COLUMNS[7], hash.bytes(), "16 bytes")),
            },
        };
        out.push(record)
    }
}

/// A value of a row.
#[derive(Clone)]
enum Field {
    Null,
    Number(u64),
    /// A number below zero, which no column may have.
    Negative(i64),
    Text(Vec<u8>),
}

impl Field {
    fn number(&self, column: &'static str) -> Result<u64, Wrong> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Negative(number) => Err(Wrong::found(
                column,
                number.to_string(),
                "a number not below zero",
            )),
            Self::Text(bytes) => Err(Wrong::field(column, bytes, "a whole number")),
            Self::Null => Err(Wrong::found(column, "null".to_owned(), "a whole number")),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(bytes) => bytes,
            _ => b"",
        }
    }
}

/// A column of the row group at hand.
struct Column {
    reader: ColumnReader,
    /// The definition level of a value that is there; 0 if it always is.
    present: i16,
    is_unsigned: bool,
    is_text: bool,
}

impl Column {
    /// The next `rows` values, fewer only if the column ends.
    fn read(&mut self, rows: usize) -> Result<Vec<Field>, ParquetError> {
        let (present, is_unsigned) = (self.present, self.is_unsigned);
        let wide = |value: i64| match u64::try_from(value) {
            Ok(number) => Field::Number(number),
            Err(_) if is_unsigned => Field::Number(value.cast_unsigned()),
            Err(_) => Field::Negative(value),
        };
        let narrow = |value: i32| match u32::try_from(value) {
            Ok(number) => Field::Number(number.into()),
            Err(_) if is_unsigned => Field::Number(value.cast_unsigned().into()),
            Err(_) => Field::Negative(value.into()),
        };
        match &mut self.reader {
            ColumnReader::Int64ColumnReader(reader) => values(reader, present, rows, wide),
            ColumnReader::Int32ColumnReader(reader) => values(reader, present, rows, narrow),
            ColumnReader::ByteArrayColumnReader(reader) if self.is_text => {
                values(reader, present, rows, |value| {
                    Field::Text(value.data().to_vec())
                })
            }
            ColumnReader::FixedLenByteArrayColumnReader(reader) if self.is_text => {
                values(reader, present, rows, |value| {
                    Field::Text(value.data().to_vec())
                })
            }
            _ => Err(ParquetError::General(
                "its columns are not whole numbers and texts".to_owned(),
            )),
        }
    }
}

fn values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    present: i16,
    rows: usize,
    make: impl Fn(T::T) -> Field,
) -> Result<Vec<Field>, ParquetError> {
    let (mut levels, mut found) = (Vec::new(), Vec::new());
    let mut read = 0;
    while read < rows {
        let wanted = (present > 0).then_some(&mut levels);
        let (more, _, _) = reader.read_records(rows - read, wanted, None, &mut found)?;
        if more == 0 {
            break;
        }
        read += more;
    }
    let mut found = found.into_iter().map(make);
    if present == 0 {
        return Ok(found.collect());
    }
    Ok(levels
        .into_iter()
        .map(|level| {
            if level == present {
                found.next().unwrap_or(Field::Null)
            } else {
                Field::Null
            }
        })
        .collect())
}
