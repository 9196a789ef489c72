//! Florida International University's `IODedup` traces: blanks between nine columns.
//!
//! Time in nanoseconds, process number, process name, sector of 512 bytes, sectors, `W` or `R`, major and
//! minor device number, MD5 of the content. The device is the volume. The name may hold blanks, so columns
//! are counted from both ends; the hash may be missing. Published at SNIA (iotta, trace 391) with "I/O
//! Deduplication" (FAST '10).

use crate::decode::{Out, Wrong, scaled};
use crate::format::Entry;
use crate::format::spc::read_or_write;
use crate::lines::{A_NUMBER, Line, Lines, number};
use crate::names::VolumeNames;
use crate::open::stream;
use crate::recognise::{Sample, Strength};
use crate::record::{ContentHash, Record};
use units::Offset;

pub(super) static ENTRY: Entry = Entry {
    name: "fiu",
    about: "FIU (I/O Deduplication): ns, pid, process, sector, sectors, W or R, major, minor, MD5",
    hints: &["fiu", "homes", "webmail", "cheetah"],
    recognise: |sample: &Sample<'_>| {
        sample.judge(
            Fiu::default(),
            Strength::Strong,
            "nine columns with W or R and an MD5",
        )
    },
    open: |input, options| Ok(stream(input, Lines::new(Fiu::default()), options)),
};

const NS_PER_US: u64 = 1_000;

#[derive(Default)]
struct Fiu {
    volumes: VolumeNames,
}

/// Columns from the right, blanks between.
struct FromRight<'a> {
    rest: &'a [u8],
}

impl<'a> FromRight<'a> {
    fn text(&mut self) -> &'a [u8] {
        self.rest = self.rest.trim_ascii_end();
        let start = memchr::memrchr2(b' ', b'\t', self.rest).map_or(0, |blank| blank + 1);
        let (rest, field) = self.rest.split_at(start);
        self.rest = rest;
        field
    }

    fn number(&mut self, column: &'static str) -> Result<u64, Wrong> {
        let field = self.text();
        number(field).ok_or_else(|| Wrong::field(column, field, A_NUMBER))
    }
}

impl Line for Fiu {
    const NAME: &'static str = ENTRY.name;

    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(());
        }
        let mut right = FromRight { rest: line };
        let hash = hash(line);
        if hash.is_some() {
            right.text();
        }
        let end = right.rest.trim_ascii_end().len();
        right.number("the minor device number")?;
        right.number("the major device number")?;
        let device = &line[right.rest.len()..end];
        let op = read_or_write("Write or Read", right.text())?;
        let length = scaled("the size", right.number("the size")?, units::SECTOR_BYTES)?;
        let offset = Offset::after(scaled(
            "the lba",
            right.number("the lba")?,
            units::SECTOR_BYTES,
        )?);
        let time = right.rest.split(u8::is_ascii_whitespace).next();
        let time = time.unwrap_or_default();
        let Some(time_ns) = number(time) else {
            return Err(Wrong::field(
                "the time",
                time,
                "a whole number of nanoseconds",
            ));
        };
        let volume = self.volumes.get(device, out, |bytes| {
            let device = String::from_utf8_lossy(bytes);
            let parts: Vec<&str> = device.split_whitespace().collect();
            (String::new(), parts.join(":"))
        });
        let mut record = Record::new(time_ns / NS_PER_US, volume, op, offset, length);
        record.hash = hash;
        out.push(record)
    }
}

/// The MD5 at a line's end.
fn hash(line: &[u8]) -> Option<ContentHash> {
    let (rest, digits) = line.split_last_chunk::<32>()?;
    if !rest.ends_with(b" ") && !rest.ends_with(b"\t") {
        return None;
    }
    let mut hash = [0; 16];
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(ContentHash(hash))
}
