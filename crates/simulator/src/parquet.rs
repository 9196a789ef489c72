//! Results as Parquet: a row for each run, the columns of [`crate::columns`], the manifest in the file's
//! metadata.

use crate::columns::{COLUMNS, Column, Kind, Value};
use crate::result::RunResult;
use ::parquet::basic::{LogicalType, Repetition, Type as Physical};
use ::parquet::column::writer::ColumnWriter;
use ::parquet::data_type::ByteArray;
use ::parquet::errors::Result;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::Type;
use std::io::Write;
use std::sync::Arc;

/// The key of the file's metadata under which the manifest is.
pub const MANIFEST_KEY: &str = "hearth.manifest";

/// Writes `runs` as Parquet. What was not asked for is null.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write(out: impl Write + Send, runs: &[&RunResult], manifest: &str) -> Result<()> {
    let fields = COLUMNS.iter().map(|column| field(column).map(Arc::new));
    let schema = Type::group_type_builder("runs")
        .with_fields(fields.collect::<Result<_>>()?)
        .build()?;
    let note = KeyValue::new(MANIFEST_KEY.to_owned(), manifest.to_owned());
    let properties = WriterProperties::builder()
        .set_key_value_metadata(Some(vec![note]))
        .build();
    let mut file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for column in COLUMNS {
        let mut writer = group.next_column()?.ok_or_else(|| {
            ::parquet::errors::ParquetError::General("the schema has too few columns".to_owned())
        })?;
        let cells: Vec<Value> = runs.iter().map(|run| (column.value)(run)).collect();
        cells_into(writer.untyped(), &cells)?;
        writer.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

fn field(column: &Column) -> Result<Type> {
    let (physical, logical) = match column.kind {
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Count => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Kind::Real => (Physical::DOUBLE, None),
    };
    Type::primitive_type_builder(column.name, physical)
        .with_logical_type(logical)
        .with_repetition(Repetition::OPTIONAL)
        .build()
}

fn cells_into(writer: &mut ColumnWriter<'_>, cells: &[Value]) -> Result<()> {
    let levels: Vec<i16> = cells
        .iter()
        .map(|cell| i16::from(*cell != Value::Absent))
        .collect();
    match writer {
        ColumnWriter::ByteArrayColumnWriter(writer) => {
            let texts: Vec<ByteArray> = cells
                .iter()
                .filter_map(|cell| match cell {
                    Value::Text(text) => Some(text.as_str().into()),
                    _ => None,
                })
                .collect();
            writer.write_batch(&texts, Some(&levels), None)?;
        }
        ColumnWriter::Int64ColumnWriter(writer) => {
            let counts: Vec<i64> = cells
                .iter()
                .filter_map(|cell| match cell {
                    Value::Count(count) => Some(count.cast_signed()),
                    _ => None,
                })
                .collect();
            writer.write_batch(&counts, Some(&levels), None)?;
        }
        ColumnWriter::DoubleColumnWriter(writer) => {
            let reals: Vec<f64> = cells.iter().filter_map(Value::as_real).collect();
            writer.write_batch(&reals, Some(&levels), None)?;
        }
        _ => unreachable!("the schema has three types"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::some_run;
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::Field;

    #[test]
    fn a_file_reads_back_as_it_was_written() {
        let mut runs = vec![some_run("lru", 100), some_run("s3fifo", 200)];
        runs[1].latency = None;
        let mut bytes = Vec::new();
        write(&mut bytes, &runs.iter().collect::<Vec<_>>(), "{}").unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let notes = reader
            .metadata()
            .file_metadata()
            .key_value_metadata()
            .unwrap();
        assert!(notes.iter().any(|note| note.key == MANIFEST_KEY));
        let rows: Vec<_> = reader
            .get_row_iter(None)
            .unwrap()
            .map(std::result::Result::unwrap)
            .collect();
        assert_eq!(rows.len(), 2);
        for (row, run) in rows.iter().zip(&runs) {
            for ((name, cell), column) in row.get_column_iter().zip(COLUMNS) {
                assert_eq!(name, column.name);
                let expected = match (column.value)(run) {
                    Value::Text(text) => Field::Str(text),
                    Value::Count(count) => Field::ULong(count),
                    Value::Real(real) => Field::Double(real),
                    Value::Absent => Field::Null,
                };
                assert_eq!(*cell, expected, "{name}");
            }
        }
    }
}
