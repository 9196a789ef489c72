//! fio's I/O logs, versions 2 and 3, with the header `fio version N iolog`.
//!
//! Version 2: `file action [offset length]`; version 3 has the time in microseconds before it. Version 2
//! knows time only by `file wait microseconds`, which adds up. Offset and length in bytes. A file is a
//! volume; `sync`, `datasync` and `sync_file_range` are flushes; `add`, `open` and `close` say nothing.

use units::{Bytes, Offset};

use crate::decode::{Out, Wrong};
use crate::format::Entry;
use crate::lines::{Blanks, Fields, Line, Lines, no_more};
use crate::names::{VolumeNames, unowned};
use crate::open::stream;
use crate::recognise::{Guess, Sample, Strength};
use crate::record::{Op, Record};

pub(super) static ENTRY: Entry = Entry {
    name: "fio",
    about: "fio's iolog, versions 2 and 3",
    hints: &["iolog", ".fio"],
    recognise: |sample: &Sample<'_>| {
        let first = sample.lines().next().unwrap_or_default();
        version(first).map(|version| {
            Guess::new(
                Strength::Certain,
                format!("its header, version {}", version as u8),
            )
        })
    },
    open: |input, options| Ok(stream(input, Lines::new(Fio::default()), options)),
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two = 2,
    Three = 3,
}

fn version(line: &[u8]) -> Option<Version> {
    match line.trim_ascii() {
        b"fio version 2 iolog" => Some(Version::Two),
        b"fio version 3 iolog" => Some(Version::Three),
        _ => None,
    }
}

#[derive(Default)]
struct Fio {
    version: Option<Version>,
    /// Version 2: the sum of the waits so far.
    now_us: u64,
    volumes: VolumeNames,
}

impl Line for Fio {
    const NAME: &'static str = ENTRY.name;

    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        let Some(version_here) = self.version else {
            self.version = version(line);
            return match self.version {
                Some(_) => Ok(()),
                None => Err(Wrong::field(
                    "the header",
                    line,
                    "fio version 2 (or 3) iolog",
                )),
            };
        };
        let mut fields = Fields::<Blanks>::new(line);
        if fields.is_empty() {
            return Ok(());
        }
        if version_here == Version::Three {
            self.now_us = fields.number("the timestamp")?;
        }
        let file = fields.text();
        let op = match fields.text() {
            b"add" | b"open" | b"close" => return no_more(&fields),
            b"wait" => return self.wait(&mut fields),
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Discard,
            b"sync" | b"datasync" | b"sync_file_range" => Op::Flush,
            other => {
                return Err(Wrong::field(
                    "the action",
                    other,
                    "add, open, close, wait, read, write, sync, datasync or trim",
                ));
            }
        };
        let (mut offset, mut length) = (Offset::ZERO, Bytes::ZERO);
        if op != Op::Flush {
            offset = Offset::new(fields.number("the offset")?);
            length = Bytes::new(fields.number("the length")?);
            no_more(&fields)?;
        }
        let volume = self.volumes.get(file, out, unowned);
        out.push(Record::new(self.now_us, volume, op, offset, length))
    }
}

impl Fio {
    fn wait(&mut self, fields: &mut Fields<'_, Blanks>) -> Result<(), Wrong> {
        let us = fields.number("the wait")?;
        if self.version == Some(Version::Two) {
            self.now_us = self.now_us.saturating_add(us);
        }
        Ok(())
    }
}
