//! Which format a trace has, told by its first bytes; the name only breaks a tie.
//!
//! Each format says how sure it is of a sample. The surest one wins; two that are equally sure are an
//! error that names both, for a wrong guess would be a wrong result without a sign.

use crate::decode::{Decode, Out, Window};
use crate::format::{Entry, Format};
use crate::lines::{Line, Lines};
use crate::record::Volumes;
use crate::records::Records;

/// How sure a format is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Strength {
    /// The first lines fit, a later one does not: that line is probably wrong.
    Weak,
    /// Nothing but numbers, in the right count and range.
    Fair,
    /// Words, ranges and counts fit.
    Strong,
    /// A magic number or the format's own header.
    Certain,
}

/// A format's opinion of a sample.
pub(crate) struct Guess {
    pub(crate) strength: Strength,
    /// What it was recognised by, as the end of 'recognised by ...'.
    pub(crate) why: String,
}

impl Guess {
    pub(crate) fn new(strength: Strength, why: impl Into<String>) -> Self {
        Self {
            strength,
            why: why.into(),
        }
    }
}

/// A trace's beginning.
pub(crate) struct Sample<'a> {
    pub(crate) bytes: &'a [u8],
    /// The file's name in lower case, without folders.
    pub(crate) name: String,
}

/// Lines that a text format is judged by.
const LINES_JUDGED: usize = 32;

impl<'a> Sample<'a> {
    /// The first lines without their ends; a last line that may be cut is left out.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &'a [u8]> + Clone {
        let complete = match memchr::memrchr(b'\n', self.bytes) {
            Some(end) => &self.bytes[..end],
            None => &[],
        };
        complete
            .split(|&byte| byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// How sure a text format is whose reader `format` is: `full` if its first lines all fit.
    pub(crate) fn judge<L: Line>(&self, format: L, full: Strength, why: &str) -> Option<Guess> {
        self.judge_lines(format, LINES_JUDGED, full, why)
    }

    /// The same by another number of lines.
    pub(crate) fn judge_lines<L: Line>(
        &self,
        format: L,
        lines: usize,
        full: Strength,
        why: &str,
    ) -> Option<Guess> {
        let (records, fits) = try_decoder(Lines::new(format), self.first_lines(lines));
        match (records, fits) {
            (0, _) => None,
            (_, true) => Some(Guess::new(full, why)),
            (count, false) => Some(Guess::new(
                Strength::Weak,
                format!("{why} in the first {count} records, but not in the next"),
            )),
        }
    }

    fn first_lines(&self, count: usize) -> &'a [u8] {
        let mut ends = memchr::memchr_iter(b'\n', self.bytes);
        let end = ends
            .nth(count - 1)
            .or_else(|| memchr::memrchr(b'\n', self.bytes));
        &self.bytes[..end.map_or(0, |end| end + 1)]
    }
}

/// How many records a decoder finds in bytes, and whether all of them fit.
pub(crate) fn try_decoder(mut decoder: impl Decode, mut bytes: &[u8]) -> (usize, bool) {
    let mut records = Records::new();
    let mut volumes = Volumes::new();
    let mut count = 0;
    let mut offset = 0;
    loop {
        records.clear();
        let mut out = Out {
            records: &mut records,
            volumes: &mut volumes,
            vm: None,
        };
        let window = Window {
            bytes,
            offset,
            last: false,
        };
        let decoded = decoder.decode(window, &mut out);
        count += records.len();
        match decoded {
            Err(_) => return (count, false),
            Ok(0) => return (count, true),
            Ok(used) => {
                bytes = &bytes[used..];
                offset += used as u64;
            }
        }
    }
}

/// What became of recognising a sample.
pub(crate) enum Verdict {
    /// One format, and what it was recognised by.
    Is(Format, String),
    /// Several are equally sure.
    Several(Vec<Format>),
    /// None knows it.
    Unknown,
}

/// Asks all formats.
pub(crate) fn recognise(sample: &Sample<'_>) -> Verdict {
    let mut guesses: Vec<(Format, Guess)> = Format::all()
        .filter_map(|format| Some((format, (format.entry().recognise)(sample)?)))
        .collect();
    let Some(best) = guesses.iter().map(|(_, guess)| guess.strength).max() else {
        return Verdict::Unknown;
    };
    guesses.retain(|(_, guess)| guess.strength == best);
    let hinted: Vec<usize> = guesses
        .iter()
        .enumerate()
        .filter(|(_, (format, _))| is_hinted(format.entry(), &sample.name))
        .map(|(place, _)| place)
        .collect();
    if guesses.len() == 1 {
        let (format, guess) = guesses.remove(0);
        return Verdict::Is(format, guess.why);
    }
    if let [place] = hinted[..] {
        let (format, guess) = guesses.swap_remove(place);
        return Verdict::Is(format, format!("{}, and by the file's name", guess.why));
    }
    Verdict::Several(guesses.into_iter().map(|(format, _)| format).collect())
}

fn is_hinted(entry: &Entry, name: &str) -> bool {
    entry.hints.iter().any(|hint| name.contains(hint))
}
