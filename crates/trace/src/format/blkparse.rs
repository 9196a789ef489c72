//! blkparse's default text: `major,minor cpu sequence seconds process event operation sector + sectors ...`.
//!
//! As in `blktrace`, one kind of event stands for a request. The operation's letters: `R`, `W`, `D` discard,
//! `Z` zeroes, `F` alone a flush; those that only modify (`S`, `A`, `M`) say nothing here. The summary after
//! the events is passed over.

use units::{Bytes, Offset};

use crate::decode::{Out, Wrong, scaled};
use crate::format::Entry;
use crate::format::blktrace::Event;
use crate::lines::{Blanks, Fields, Line, Lines};
use crate::names::{VolumeNames, unowned};
use crate::open::stream;
use crate::recognise::{Guess, Sample, Strength};
use crate::record::{Op, Record};

pub(super) static ENTRY: Entry = Entry {
    name: "blkparse",
    about: "blkparse's text",
    hints: &["blkparse"],
    recognise: |sample: &Sample<'_>| {
        let event = best_event(&sample.lines());
        let why = format!(
            "a device, a CPU, a time and an event in every line; requests as they are {}",
            event.name()
        );
        let first = sample.lines().next().unwrap_or_default();
        is_event(first).then(|| Guess::new(Strength::Strong, why))
    },
    open: |input, options| {
        let event = best_event(&input.sample().split(|&byte| byte == b'\n'));
        let format = Blkparse {
            event,
            in_summary: false,
            devices: VolumeNames::default(),
        };
        Ok(stream(input, Lines::new(format), options))
    },
};

fn best_event<'a>(lines: &(impl Iterator<Item = &'a [u8]> + Clone)) -> Event {
    Event::best(|event| {
        lines
            .clone()
            .any(|line| is_event(line) && event_of(line) == event.letter())
    })
}

fn event_of(line: &[u8]) -> &[u8] {
    let mut fields = Fields::<Blanks>::new(line);
    for _ in 0..5 {
        fields.text();
    }
    fields.text()
}

/// True for a line whose first five columns are an event's.
fn is_event(line: &[u8]) -> bool {
    let mut fields = Fields::<Blanks>::new(line);
    is_device(fields.text())
        && fields.number("cpu").is_ok()
        && fields.number("sequence").is_ok()
        && fields.seconds("time").is_ok()
        && fields.number("process").is_ok()
        && fields.text().len() <= 2
}

fn is_device(word: &[u8]) -> bool {
    let mut parts = word.splitn(2, |&byte| byte == b',');
    let is_number = |part: Option<&[u8]>| {
        part.is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit))
    };
    is_number(parts.next()) && is_number(parts.next())
}

struct Blkparse {
    event: Event,
    in_summary: bool,
    devices: VolumeNames,
}

impl Line for Blkparse {
    const NAME: &'static str = ENTRY.name;

    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        let mut fields = Fields::<Blanks>::new(line);
        if self.in_summary || fields.is_empty() {
            return Ok(());
        }
        let device = fields.text();
        if device.starts_with(b"CPU") || device == b"Total" {
            self.in_summary = true;
            return Ok(());
        }
        if !is_device(device) {
            return Err(Wrong::field("the device", device, "major,minor"));
        }
        fields.number("the cpu")?;
        fields.number("the sequence")?;
        let time_us = fields.seconds("the time")?;
        fields.number("the process")?;
        if fields.text() != self.event.letter() {
            return Ok(());
        }
        let letters = fields.text();
        let Some(mut op) = operation(letters) else {
            return Ok(());
        };
        let (mut offset, mut length) = (Offset::ZERO, Bytes::ZERO);
        if is_request(fields.rest()) {
            offset = Offset::after(scaled(
                "the sector",
                fields.number("the sector")?,
                units::SECTOR_BYTES,
            )?);
            fields.text();
            length = scaled(
                "the length",
                fields.number("the length")?,
                units::SECTOR_BYTES,
            )?;
        } else if letters.contains(&b'F') {
            // A flush that belongs to a write still to come has no range: FWS [process].
            op = Op::Flush;
        } else {
            return Ok(());
        }
        let volume = self.devices.get(device, out, unowned);
        out.push(Record::new(time_us, volume, op, offset, length))
    }
}

/// True before `sector + sectors`.
fn is_request(rest: &[u8]) -> bool {
    let mut fields = Fields::<Blanks>::new(rest);
    fields.text();
    fields.text() == b"+"
}

fn operation(letters: &[u8]) -> Option<Op> {
    let has = |letter: u8| letters.contains(&letter);
    if has(b'D') {
        Some(Op::Discard)
    } else if has(b'Z') {
        Some(Op::WriteZeroes)
    } else if has(b'W') {
        Some(Op::Write)
    } else if has(b'R') {
        Some(Op::Read)
    } else if has(b'F') {
        Some(Op::Flush)
    } else {
        None
    }
}
