//! Parquet: what is converted is read back, and what is damaged is an error.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::PathBuf;

use support::{Sample, open_bytes, requests, samples};
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
