//! A trace that is anything at all.
//!
//! The first byte chooses the format by its place, 0 lets it be recognised; the rest is the file.

use crate::pieces;
use std::io::{Cursor, Read};
use trace::{Batch, Format, OpenError, Options, ReadError, Record, Records, Splitter, open_stream};
use units::Bytes;

/// What was read, and how it ended.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    records: Vec<Record>,
    end: Result<(), String>,
}

/// Hands out pieces one by one.
struct Pipe {
    pieces: Vec<Vec<u8>>,
    next: usize,
    rest: Cursor<Vec<u8>>,
}

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.rest.read(into)? {
                0 if self.next < self.pieces.len() => {
                    self.rest = Cursor::new(self.pieces[self.next].clone());
                    self.next += 1;
                }
                read => return Ok(read),
            }
        }
    }
}

pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, file)) = pieces::choice(bytes) else {
        return;
    };
    let whole = read(choice, vec![file.to_vec()]);
    let cut = pieces::cut(file, choice);
    let cut = read(choice, cut.into_iter().map(<[u8]>::to_vec).collect());
    // How far a damaged archive is unpacked before that shows is the unpacker's affair.
    if whole.end.as_ref().is_err_and(String::is_empty) {
        assert!(cut.end.is_err());
        return;
    }
    assert_eq!(whole, cut, "pieces make no difference");
    split(&whole.records);
}

fn read(choice: u8, pieces: Vec<Vec<u8>>) -> Outcome {
    let format = usize::from(choice).checked_sub(1);
    let format = format.and_then(|place| Format::all().nth(place));
    let is_csv = format.is_some_and(|format| format.name() == "csv");
    let options = Options {
        format,
        csv: is_csv.then(|| {
            "time-col=1,obj-id-col=2,obj-size-col=3,op-col=4"
                .parse()
                .expect("columns as the manual has them")
        }),
        ..Options::default()
    };
    let source = Pipe {
        pieces,
        next: 0,
        rest: Cursor::new(Vec::new()),
    };
    let mut records = Vec::new();
    let end = read_all(source, &options, &mut records);
    Outcome { records, end }
}

/// Reads to the end or the first error, told in full, or as nothing if it is the archive's.
fn read_all(source: Pipe, options: &Options, all: &mut Vec<Record>) -> Result<(), String> {
    let told = |error: &ReadError| match error {
        ReadError::Input { .. } | ReadError::Damaged { .. } => String::new(),
        other => other.to_string(),
    };
    let mut opened =
        open_stream("trace", Box::new(source), options).map_err(|error| match &error {
            OpenError::Read(error) => told(error),
            other => other.to_string(),
        })?;
    let mut records = Records::new();
    loop {
        let read = opened.reader.read_batch(&mut records);
        for record in &records {
            let volume = opened.reader.volumes().get(record.volume);
            assert!(volume.is_some(), "a record's volume is known");
            let end = record.offset.checked_add(record.length);
            assert!(end.is_some(), "a record ends within the address space");
        }
        all.extend(&records);
        match read {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => return Err(told(&error)),
        }
    }
}

/// Every key is below the number of distinct blocks, and a request of one block has one key.
fn split(records: &[Record]) {
    let mut splitter = Splitter::new(Bytes::kib(4));
    let mut batch = Batch::default();
    // Long requests only take time here.
    for record in records
        .iter()
        .take(64)
        .filter(|record| record.length < Bytes::mib(4))
    {
        splitter
            .split(&[*record][..].into(), &mut batch)
            .expect("a reader's records can be split");
        assert!(batch.keys.iter().all(|&key| key < splitter.distinct()));
        let is_one = record.length == Bytes::new(1) && record.op.carries_data();
        assert!(!is_one || batch.keys.len() == 1);
    }
}
