//! Parquet: what is converted is read back, and what is damaged is an error.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{Sample, open_bytes, requests, samples};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use trace::write::{Conversion, Target, convert};
use trace::{OpenError, Options, open};
use units::{Bytes, Prng};

fn converted(sample: &Sample, folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join(format!("{}.parquet", sample.format));
    let mut opened = sample.open().unwrap();
    let conversion = Conversion {
        path: &path,
        target: Target::Parquet,
        force: true,
        block: Bytes::kib(4),
        facts: &[],
    };
    convert(&mut *opened.reader, &conversion, &mut |_| ()).unwrap();
    path
}

#[test]
fn what_was_converted_reads_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for sample in samples() {
        let path = converted(&sample, &folder);
        let mut opened = open(&path, &Options::default()).unwrap();
        assert_eq!(opened.format.name(), "parquet");
        assert_eq!(
            requests(&mut opened).unwrap(),
            sample.requests,
            "{}",
            sample.format
        );
    }
}

#[test]
fn damaged_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let sample = samples()
        .into_iter()
        .find(|sample| sample.format == "fiu")
        .unwrap();
    let whole = std::fs::read(converted(&sample, &folder)).unwrap();
    let path = folder.path().join("damaged");
    let mut dice = Prng::new(0xda3);
    let mut failed = 0;
    for round in 0..300 {
        let mut bytes = whole.clone();
        let at = usize::try_from(dice.below(bytes.len() as u64)).unwrap();
        match round % 3 {
            0 => bytes.truncate(at.max(4)),
            1 => bytes[at] ^= 1 << dice.below(8),
            _ => bytes[at..].fill(0),
        }
        std::fs::write(&path, &bytes).unwrap();
        let read = open(&path, &Options::default()).map(|mut opened| requests(&mut opened));
        failed += usize::from(!matches!(read, Ok(Ok(_))));
    }
    assert!(failed > 200, "only {failed} of 300");
}

#[test]
fn a_pipe_and_a_packing_are_refused_with_the_remedy() {
    let error = open_bytes(b"PAR1....", &Options::default()).err().unwrap();
    assert!(matches!(error, OpenError::NotSeekable { .. }));
    assert!(
        error.to_string().contains("unpack it into a file"),
        "{error}"
    );
}

/// A table as another program writes one, three rows a group.
fn foreign(path: &Path, ops: &[&str]) {
    let schema = "message trace { required int64 time_us; required binary op (utf8); \
        required int64 offset_bytes; required int64 length_bytes; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = std::fs::File::create(path).unwrap();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    for ops in ops.chunks(3) {
        let mut group = writer.next_row_group().unwrap();
        for place in 0..4 {
            let mut column = group.next_column().unwrap().unwrap();
            if place == 1 {
                let words: Vec<ByteArray> = ops.iter().map(|op| ByteArray::from(*op)).collect();
                let column = column.typed::<ByteArrayType>();
                column.write_batch(&words, None, None).unwrap();
            } else {
                let numbers = vec![4096; ops.len()];
                let column = column.typed::<Int64Type>();
                column.write_batch(&numbers, None, None).unwrap();
            }
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}

fn first_error(path: &Path) -> String {
    let mut opened = open(path, &Options::default()).unwrap();
    requests(&mut opened).unwrap_err().to_string()
}

#[test]
fn a_wrong_field_is_shown_with_row_and_row_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign.parquet");
    foreign(&path, &["read", "write", "read", "read", "grow", "read"]);
    let error = first_error(&path);
    let wanted = "foreign.parquet: row 5 (row group 2): op is \"grow\"";
    assert!(error.contains(wanted), "{error}");
}

#[test]
fn damage_of_a_page_is_shown_with_row_and_row_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign.parquet");
    foreign(
        &path,
        &["read", "write", "read", "discard", "read", "discard"],
    );
    let mut bytes = std::fs::read(&path).unwrap();
    // The length of the first word of the second group's dictionary.
    let words = bytes
        .windows(7)
        .rposition(|word| word == b"discard")
        .unwrap();
    let first = bytes[..words]
        .windows(7)
        .position(|word| word == b"discard")
        .unwrap();
    bytes[first - 2] = 0xff;
    std::fs::write(&path, bytes).unwrap();
    let error = first_error(&path);
    let wanted = "the Parquet file is damaged or cut short near its row 4 (row group 2)";
    assert!(error.contains(wanted), "{error}");
}
