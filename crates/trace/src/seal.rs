//! The seal at the end of a file that Hearth writes: the file's length and checksum.
//!
//! ```text
//!  text   lines  │ # end of trace: 00000000000000001234 bytes, xxh3 0123456789abcdef, check 89abcdef\n
//!  zstd   frames │ 50 2a 4d 18 │ u32: the length of the line │ the same line
//! ```
//!
//! The seal covers every byte before it: `bytes` counts them, `xxh3` is their XXH3 of 64 bits, and `check`
//! holds the lower half of the XXH3 of the line up to there. The seal is a comment in text and a skippable
//! frame in zstd, so that any other reader of these formats passes over it.
//!
//! A file without a seal is accepted: other programs write none, and a recording that was killed has none.
//! Bytes that differ from a seal by a few bits are a damaged seal, because no line of a trace comes near it.
//! A sound seal of fewer bytes than are before it belongs to the last of several files that were joined.

use std::io::{self, Read, Write};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

pub(crate) mod table;

/// What a seal is packed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The last line of a text.
    Line,
    /// The last frame of a zstd archive.
    Frame,
}

/// A seal with all digits at zero.
const BLANK: &[u8; 82] =
    b"# end of trace: 00000000000000000000 bytes, xxh3 0000000000000000, check 00000000\n";
/// Where the digits of the length are in the line.
const LENGTH: std::ops::Range<usize> = 16..36;
/// What `check` covers.
const CHECKED: std::ops::Range<usize> = 0..65;
const CHECK: std::ops::Range<usize> = 73..81;

/// A skippable frame's magic number, and the length of the line.
const FRAME_HEADER: [u8; 8] = [0x50, 0x2a, 0x4d, 0x18, 82, 0, 0, 0];
const _: () = assert!(BLANK.len() == 82, "the frame's header says so");

/// Bits by which a damaged seal may differ from a sound one outside of its digits. Any other line of that
/// length differs by a hundred.
const NEAR_BITS: u32 = 8;

impl Form {
    /// Size of the seal in bytes.
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::Line => BLANK.len(),
            Self::Frame => FRAME_HEADER.len() + BLANK.len(),
        }
    }

    /// The bytes before the line.
    const fn header(self) -> &'static [u8] {
        match self {
            Self::Line => &[],
            Self::Frame => &FRAME_HEADER,
        }
    }

    /// By how many bits a file's last bytes differ from a seal outside of its digits.
    fn distance(self, tail: &[u8]) -> u32 {
        let (header, line) = tail.split_at(self.header().len());
        let fixed = BLANK.iter().zip(line).filter(|(blank, _)| **blank != b'0');
        bits_between(self.header().iter().zip(header)) + bits_between(fixed)
    }
}

/// By how many bits pairs of bytes differ.
pub(crate) fn bits_between<'a>(pairs: impl Iterator<Item = (&'a u8, &'a u8)>) -> u32 {
    pairs.map(|(one, other)| (one ^ other).count_ones()).sum()
}

/// The length and checksum of the bytes that went by.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    hash: Xxh3,
    length: u64,
}

impl std::fmt::Debug for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tally({} bytes, {:016x})", self.length, self.sum())
    }
}

impl Tally {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
    }

    pub(crate) fn sum(&self) -> u64 {
        self.hash.digest()
    }

    /// The seal of what went by.
    pub(crate) fn seal(&self, form: Form) -> Vec<u8> {
        let start = format!(
            "# end of trace: {:020} bytes, xxh3 {:016x}",
            self.length,
            self.sum()
        );
        let check = check_of(start.as_bytes());
        let line = format!("{start}, check {check}\n");
        [form.header(), line.as_bytes()].concat()
    }

    /// Whether a file may end with `tail` after what went by: with its seal, or with none.
    fn accepts(&self, form: Form, tail: &[u8]) -> bool {
        if tail.len() < form.size() {
            return true;
        }
        let distance = form.distance(tail);
        if distance > NEAR_BITS || tail == self.seal(form) {
            return true;
        }
        let line = &tail[form.header().len()..];
        let is_sound = distance == 0 && check_of(&line[CHECKED]).as_bytes() == &line[CHECK];
        let length = std::str::from_utf8(&line[LENGTH]).ok();
        let length = length.and_then(|digits| digits.parse::<u64>().ok());
        is_sound && length.is_some_and(|length| length < self.length)
    }
}

fn check_of(start: &[u8]) -> String {
    format!("{:08x}", xxh3_64(start) & 0xffff_ffff)
}

/// A source whose end is compared with the seal that is there.
pub(crate) struct Sealed<R> {
    inner: R,
    form: Form,
    /// Of all but the last bytes, which may be the seal.
    tally: Tally,
    tail: Vec<u8>,
}

impl<R: Read> Sealed<R> {
    pub(crate) fn new(inner: R, form: Form) -> Self {
        Self {
            inner,
            form,
            tally: Tally::default(),
            tail: Vec::with_capacity(2 * form.size()),
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let keep = self.form.size();
        if let Some(done) = bytes.len().checked_sub(keep) {
            self.tally.add(&self.tail);
            self.tally.add(&bytes[..done]);
            self.tail.clear();
            self.tail.extend_from_slice(&bytes[done..]);
            return;
        }
        self.tail.extend_from_slice(bytes);
        let done = self.tail.len().saturating_sub(keep);
        self.tally.add(&self.tail[..done]);
        self.tail.drain(..done);
    }
}

impl<R: Read> Read for Sealed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        if count > 0 || into.is_empty() {
            self.add(&into[..count]);
            return Ok(count);
        }
        if self.tally.accepts(self.form, &self.tail) {
            return Ok(0);
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            match self.form {
                Form::Line => {
                    "its content is not what the checksum in its last line says; \
                     if you changed it on purpose, delete that line"
                }
                Form::Frame => "its content is not what the checksum at its end says",
            },
        ))
    }
}

/// A file that is being written, and the tally of it.
#[derive(Debug)]
pub(crate) struct Tallied<W> {
    inner: W,
    tally: Tally,
}

impl<W: Write> Tallied<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self {
            inner,
            tally: Tally::default(),
        }
    }

    /// Writes the seal and gives the file back.
    pub(crate) fn sealed(mut self, form: Form) -> io::Result<W> {
        self.inner.write_all(&self.tally.seal(form))?;
        Ok(self.inner)
    }

    /// The file without a seal, and its checksum.
    pub(crate) fn into_parts(self) -> (W, u64) {
        let sum = self.tally.sum();
        (self.inner, sum)
    }
}

impl<W: Write> Write for Tallied<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.tally.add(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(form: Form, content: &[u8]) -> Vec<u8> {
        let mut file = Tallied::new(Vec::new());
        file.write_all(content).unwrap();
        file.sealed(form).unwrap()
    }

    fn is_accepted(form: Form, file: &[u8], piece: usize) -> bool {
        let mut source = Sealed::new(file, form);
        let mut buffer = vec![0; piece];
        loop {
            match source.read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    #[test]
    fn a_seal_holds_whatever_the_pieces_are() {
        for form in [Form::Line, Form::Frame] {
            for length in [0, 1, 81, 82, 83, 1000] {
                let file = sealed(form, &vec![b'x'; length]);
                for piece in [1, 7, 82, 89, 4096] {
                    assert!(is_accepted(form, &file, piece), "{form:?} {length} {piece}");
                }
            }
        }
    }

    #[test]
    fn every_bit_counts_of_content_and_seal() {
        for form in [Form::Line, Form::Frame] {
            let file = sealed(form, b"5,web-1,root,read,4096,512\n");
            for bit in 0..file.len() * 8 {
                let mut file = file.clone();
                file[bit / 8] ^= 1 << (bit % 8);
                assert!(!is_accepted(form, &file, 64), "{form:?} bit {bit}");
            }
        }
    }

    #[test]
    fn files_without_a_seal_and_joined_files_are_accepted() {
        let lines = b"5,web-1,root,read,4096,512\n".repeat(9);
        for form in [Form::Line, Form::Frame] {
            assert!(is_accepted(form, &lines, 64));
            assert!(is_accepted(form, b"", 64));
            let joined = [lines.clone(), sealed(form, &lines)].concat();
            assert!(is_accepted(form, &joined, 64));
            let middle_lost = &sealed(form, &lines)[27..];
            assert!(!is_accepted(form, middle_lost, 64));
        }
    }
}
