//! blkreplay's loads: `start ; sector ; length ; op ; replay_delay ; replay_duration` after a preamble.
//!
//! Time in seconds, sector and length in sectors of 512 bytes. The first letter of the operation counts
//! (`R`, `RA`, `W`, `WS`, `D`, `F`). The preamble is prose; it ends with the line that names the columns,
//! or at the first line of numbers. Some loads have it several times, where others were joined to them: a
//! line that begins with the first word of the preamble begins the preamble again. Published with
//! schoebel/blkreplay on GitHub.

use crate::decode::{Out, Wrong, scaled};
use crate::format::Entry;
use crate::lines::{Fields, Line, Lines, Semicolon};
use crate::open::stream;
use crate::recognise::{Sample, Strength};
use crate::record::{Op, Record};
use units::Offset;

pub(super) static ENTRY: Entry = Entry {
    name: "blkreplay",
    about: "blkreplay load: seconds ; sector ; sectors ; op ; delay ; duration",
    hints: &[".load"],
    recognise: |sample: &Sample<'_>| {
        sample.judge_lines(
            Blkreplay::default(),
            LINES_JUDGED,
            Strength::Strong,
            "columns with semicolons between, an operation in the fourth",
        )
    },
    open: |input, options| Ok(stream(input, Lines::new(Blkreplay::default()), options)),
};

/// More than for other formats, because of the preamble.
const LINES_JUDGED: usize = 128;

#[derive(Default)]
struct Blkreplay {
    preamble_over: bool,
    /// The word that the preamble begins with, `Copyright` in those that are published.
    first_word: Vec<u8>,
}

impl Line for Blkreplay {
    const NAME: &'static str = ENTRY.name;

    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        let line = line.trim_ascii();
        if line.is_empty() || line[0] == b'#' {
            return Ok(());
        }
        if !line[0].is_ascii_digit() && self.is_prose(line) {
            return Ok(());
        }
        if !self.preamble_over {
            self.preamble_over = memchr::memchr_iter(b';', line).count() >= 3;
            if !self.preamble_over {
                return Ok(());
            }
        }
        let mut fields = Fields::<Semicolon>::new(line);
        let time_us = fields.seconds("start")?;
        let offset = Offset::after(scaled(
            "sector",
            fields.number("sector")?,
            units::SECTOR_BYTES,
        )?);
        let length = scaled("length", fields.number("length")?, units::SECTOR_BYTES)?;
        let op = letter("op", fields.text())?;
        let volume = out.only_volume();
        out.push(Record::new(time_us, volume, op, offset, length))
    }
}

impl Blkreplay {
    /// Whether a line that begins with no digit belongs to the preamble.
    fn is_prose(&mut self, line: &[u8]) -> bool {
        let is_header = line.starts_with(b"start") && memchr::memchr_iter(b';', line).count() >= 3;
        if is_header {
            self.preamble_over = true;
            return true;
        }
        let word = line.split(|byte| !byte.is_ascii_alphanumeric()).next();
        let word = word.unwrap_or_default();
        if self.preamble_over {
            let is_again = !word.is_empty() && word == self.first_word;
            self.preamble_over = !is_again;
            return is_again;
        }
        if self.first_word.is_empty() {
            self.first_word = word.to_vec();
        }
        true
    }
}

/// The operation by its first letter, as the kernel's tracer writes it.
pub(super) fn letter(column: &'static str, word: &[u8]) -> Result<Op, Wrong> {
    match word.first() {
        Some(b'R' | b'r') => Ok(Op::Read),
        Some(b'W' | b'w') => Ok(Op::Write),
        Some(b'D' | b'd') => Ok(Op::Discard),
        Some(b'F' | b'f') => Ok(Op::Flush),
        _ => Err(Wrong::field(column, word, "R, W, D or F")),
    }
}
