//! Parquet: requests as they are, with everything that the formats know.
//!
//! ```text
//!  time_us       UINT_64            offset_bytes   UINT_64           response_us    UINT_32, may be null
//!  vm, volume    UTF8, dictionary   length_bytes   UINT_64           content_hash   16 bytes, may be null
//!  op            UTF8, dictionary
//! ```
//!
//! The file's metadata hold the source and its checksum under `hearth.*`, and a seal of the file itself (see
//! [`crate::seal::table`]). Columns are packed with zstd.

use super::{Conversion, Output, Source, WriteError, Written};
use crate::record::{Op, Record, Volume};
use crate::records::{Reader, Records};
use crate::seal::{Tallied, table};
use ::parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use ::parquet::column::writer::ColumnWriter;
use ::parquet::data_type::{ByteArray, FixedLenByteArray};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::Type;
use std::io;
use std::sync::Arc;

/// Rows of a row group, all of which are in memory at a time: about 20 MB.
const GROUP_ROWS: usize = 1 << 17;

pub(super) fn convert(
    source: Source<'_>,
    output: Output,
    conversion: &Conversion<'_>,
) -> std::result::Result<Written, WriteError> {
    let path = output.path().to_owned();
    let failed = |error: ParquetError| WriteError::Io {
        path: path.clone(),
        source: match error {
            ParquetError::External(inner) => io::Error::other(inner),
            other => io::Error::other(other),
        },
    };
    let mut file = Table::new(output, conversion).map_err(failed)?;
    let mut rows = 0;
    let read = source.each(|records, reader| {
        rows += records.len() as u64;
        file.add(records, reader).map_err(failed)
    })?;
    let (mut output, sum) = file.finish().map_err(failed)?.into_parts();
    table::write(&mut output, sum).map_err(|error| output.failed(error))?;
    let bytes = output.finish()?;
    Ok(Written {
        read,
        rows,
        left_out: 0,
        bytes,
    })
}

fn schema() -> Result<Type> {
    let column = |name, physical, logical, repetition| {
        let length = if physical == Physical::FIXED_LEN_BYTE_ARRAY {
            16
        } else {
            -1
        };
        Type::primitive_type_builder(name, physical)
            .with_logical_type(logical)
            .with_repetition(repetition)
            .with_length(length)
            .build()
            .map(Arc::new)
    };
    let unsigned = |bits| Some(LogicalType::integer(bits, false));
    let (required, optional) = (Repetition::REQUIRED, Repetition::OPTIONAL);
    let text = || Some(LogicalType::String);
    let (wide, bytes) = (Physical::INT64, Physical::BYTE_ARRAY);
    Type::group_type_builder("trace")
        .with_fields(vec![
            column("time_us", wide, unsigned(64), required)?,
            column("vm", bytes, text(), required)?,
            column("volume", bytes, text(), required)?,
            column("op", bytes, text(), required)?,
            column("offset_bytes", wide, unsigned(64), required)?,
            column("length_bytes", wide, unsigned(64), required)?,
            column("response_us", Physical::INT32, unsigned(32), optional)?,
            column(
                "content_hash",
                Physical::FIXED_LEN_BYTE_ARRAY,
                None,
                optional,
            )?,
        ])
        .build()
}

/// A file that is being written, and the rows of its next group.
struct Table {
    writer: SerializedFileWriter<Tallied<Output>>,
    rows: Vec<Record>,
    /// Names by volume, shared by the rows that have them.
    names: Vec<[ByteArray; 2]>,
    ops: [ByteArray; Op::ALL.len()],
}

impl Table {
    fn new(output: Output, conversion: &Conversion<'_>) -> Result<Self> {
        let facts = conversion.facts.iter().map(|(key, value)| KeyValue {
            key: format!("hearth.{key}"),
            value: Some(value.clone()),
        });
        let seal = KeyValue::new(table::KEY.to_owned(), table::BLANK.to_owned());
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
            .set_created_by(format!("hearth {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(facts.chain([seal]).collect()))
            .build();
        Ok(Self {
            writer: SerializedFileWriter::new(
                Tallied::new(output),
                Arc::new(schema()?),
                Arc::new(properties),
            )?,
            rows: Vec::with_capacity(GROUP_ROWS),
            names: Vec::new(),
            ops: Op::ALL.map(|op| ByteArray::from(op.name())),
        })
    }

    fn add(&mut self, records: &Records, reader: &dyn Reader) -> Result<()> {
        let known = self.names.len();
        for (_, Volume { vm, name }) in reader.volumes().iter().skip(known) {
            self.names
                .push([ByteArray::from(vm.as_str()), ByteArray::from(name.as_str())]);
        }
        let mut left = records.iter();
        while left.len() > 0 {
            let room = GROUP_ROWS - self.rows.len();
            self.rows.extend(left.by_ref().take(room));
            if self.rows.len() == GROUP_ROWS {
                self.write_group()?;
            }
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<()> {
        let (rows, names, ops) = (&self.rows, &self.names, &self.ops);
        let mut group = self.writer.next_row_group()?;
        let mut place = 0;
        while let Some(mut column) = group.next_column()? {
            let wide = |of: fn(&Record) -> u64| -> Vec<i64> {
                rows.iter().map(|row| of(row).cast_signed()).collect()
            };
            let name = |which: usize| -> Vec<ByteArray> {
                let of = |row: &Record| names[row.volume.to_usize()][which].clone();
                rows.iter().map(of).collect()
            };
            match (place, column.untyped()) {
                (0, ColumnWriter::Int64ColumnWriter(to)) => {
                    to.write_batch(&wide(|row| row.time_us), None, None)
                }
                (1 | 2, ColumnWriter::ByteArrayColumnWriter(to)) => {
                    to.write_batch(&name(place - 1), None, None)
                }
                (3, ColumnWriter::ByteArrayColumnWriter(to)) => {
                    let words = rows.iter().map(|row| ops[row.op as usize].clone());
                    to.write_batch(&words.collect::<Vec<_>>(), None, None)
                }
                (4, ColumnWriter::Int64ColumnWriter(to)) => {
                    to.write_batch(&wide(|row| row.offset.get()), None, None)
                }
                (5, ColumnWriter::Int64ColumnWriter(to)) => {
                    to.write_batch(&wide(|row| row.length.get()), None, None)
                }
                (6, ColumnWriter::Int32ColumnWriter(to)) => {
                    let there = rows.iter().filter_map(|row| row.response_us);
                    let there: Vec<i32> = there.map(u32::cast_signed).collect();
                    let levels = levels(rows, |row| row.response_us.is_some());
                    to.write_batch(&there, Some(&levels), None)
                }
                (_, ColumnWriter::FixedLenByteArrayColumnWriter(to)) => {
                    let there = rows.iter().filter_map(|row| row.hash);
                    let there: Vec<FixedLenByteArray> = there
                        .map(|hash| ByteArray::from(hash.0.to_vec()).into())
                        .collect();
                    let levels = levels(rows, |row| row.hash.is_some());
                    to.write_batch(&there, Some(&levels), None)
                }
                _ => Err(ParquetError::General(
                    "columns and schema differ".to_owned(),
                )),
            }?;
            column.close()?;
            place += 1;
        }
        group.close()?;
        self.rows.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<Tallied<Output>> {
        if !self.rows.is_empty() {
            self.write_group()?;
        }
        self.writer.into_inner()
    }
}

/// Which rows have a value: 1, or 0 for none.
fn levels(rows: &[Record], has: fn(&Record) -> bool) -> Vec<i16> {
    rows.iter().map(|row| i16::from(has(row))).collect()
}
