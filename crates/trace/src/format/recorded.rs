//! What Hearth itself records: `time_us,vm,volume,op,offset_bytes,length_bytes` with that header.
//!
//! Operations by the names of [`Op`]. Comments begin with `#`; in names `%2c` is a comma, and so on.

use units::{Bytes, Offset};

use crate::decode::{Out, Wrong};
use crate::format::Entry;
use crate::lines::{Comma, Fields, Line, Lines, no_more};
use crate::names::VolumeNames;
use crate::open::stream;
use crate::recognise::{Guess, Sample, Strength};
use crate::record::{Op, Record};

pub(super) static ENTRY: Entry = Entry {
    name: "hearth",
    about: "what hearth trace record writes: time_us,vm,volume,op,offset_bytes,length_bytes",
    hints: &["hearth"],
    recognise: |sample: &Sample<'_>| {
        let mut lines = sample.lines().filter(|line| !is_comment(line));
        (lines.next() == Some(HEADER)).then(|| Guess::new(Strength::Certain, "its header"))
    },
    open: |input, options| Ok(stream(input, Lines::new(Recorded::default()), options)),
};

const HEADER: &[u8] = b"time_us,vm,volume,op,offset_bytes,length_bytes";

fn is_comment(line: &[u8]) -> bool {
    line.is_empty() || line[0] == b'#'
}

#[derive(Default)]
struct Recorded {
    volumes: VolumeNames,
}

impl Line for Recorded {
    const NAME: &'static str = ENTRY.name;

    #[inline]
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        if is_comment(line) || line == HEADER {
            return Ok(());
        }
        let mut fields = Fields::<Comma>::new(line);
        let time_us = fields.number("time_us")?;
        let volume = fields.rest();
        fields.text();
        fields.text();
        let volume = &volume[..volume.len() - fields.rest().len()];
        let op = op(fields.text())?;
        let offset = Offset::new(fields.number("offset_bytes")?);
        let length = Bytes::new(fields.number("length_bytes")?);
        no_more(&fields)?;
        let volume = self.volumes.get(volume, out, |bytes| {
            let mut fields = Fields::<Comma>::new(bytes);
            (unescaped(fields.text()), unescaped(fields.text()))
        });
        out.push(Record::new(time_us, volume, op, offset, length))
    }
}

/// A name whose commas, quotes and control characters are written as `%` and two hexadecimal digits.
fn unescaped(mut name: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    while let [first, rest @ ..] = name {
        let escaped = match name {
            [b'%', high, low, ..] => hex(*high).zip(hex(*low)),
            _ => None,
        };
        if let Some((high, low)) = escaped {
            bytes.push(high * 16 + low);
            name = &name[3..];
        } else {
            bytes.push(*first);
            name = rest;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

/// The operation by its canonical name.
pub(super) fn op(word: &[u8]) -> Result<Op, Wrong> {
    let found = Op::ALL.into_iter().find(|op| op.name().as_bytes() == word);
    found.ok_or_else(|| Wrong::field("op", word, "read, write, flush, discard or write-zeroes"))
}
