//! The seal of a Parquet file: the checksum of the whole file within its own footer.
//!
//! ```text
//!  PAR1 │ row groups │ footer ... hearth.seal = "xxh3 of this file ...: 0123456789abcdef" ... │ length │ PAR1
//! ```
//!
//! A Parquet file ends with its footer, so that nothing may follow. The sum therefore stands in the footer's
//! metadata and counts its own digits as zeros. Bytes that differ from the words before the digits by a few
//! bits are a damaged seal; a file without these words was written by another program.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use super::{Tally, bits_between};

/// The key in the file's metadata.
pub(crate) const KEY: &str = "hearth.seal";
/// The value before the sum is known.
pub(crate) const BLANK: &str =
    "xxh3 of this file with zeros in place of these digits: 0000000000000000";

const DIGITS: usize = 16;
/// The words before the digits.
const WORDS: usize = BLANK.len() - DIGITS;
/// Bits by which a damaged seal may differ from these words.
const NEAR_BITS: u32 = 8;
/// Where the metadata are: behind the row groups, within the last bytes of the file.
const TAIL_BYTES: u64 = 64 << 10;

/// Where the digits begin, and whether the words before them are sound.
fn find(file: &mut (impl Read + Seek)) -> io::Result<Option<(u64, bool)>> {
    let size = file.seek(SeekFrom::End(0))?;
    let start = size.saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let words = &BLANK.as_bytes()[..WORDS];
    let places = tail.windows(BLANK.len()).enumerate();
    let distances = places.map(|(at, some)| (bits_between(words.iter().zip(some)), at));
    let nearest = distances.min().filter(|(bits, _)| *bits <= NEAR_BITS);
    Ok(nearest.map(|(bits, at)| (start + (at + WORDS) as u64, bits == 0)))
}

/// Writes the sum of a finished file, of which the digits are still zeros.
pub(crate) fn write(file: &mut (impl Read + Write + Seek), sum: u64) -> io::Result<()> {
    if let Some((at, _)) = find(file)? {
        file.seek(SeekFrom::Start(at))?;
        file.write_all(format!("{sum:016x}").as_bytes())?;
    }
    Ok(())
}

/// Compares a file with its seal, if it has one.
///
/// # Errors
/// If it cannot be read, or is not what its seal says.
pub(crate) fn check(file: &mut File) -> io::Result<()> {
    let Some((at, is_sound)) = find(file)? else {
        return Ok(());
    };
    let mut tally = Tally::default();
    let mut digits = [0; DIGITS];
    file.seek(SeekFrom::Start(0))?;
    add(file, at, &mut tally)?;
    file.read_exact(&mut digits)?;
    tally.add(&[b'0'; DIGITS]);
    add(file, u64::MAX, &mut tally)?;
    if is_sound && digits == format!("{:016x}", tally.sum()).as_bytes() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        "its content is not what the checksum in its metadata says",
    ))
}

/// Adds the next bytes of a file, at most `count`.
fn add(file: &mut File, count: u64, tally: &mut Tally) -> io::Result<()> {
    let mut rest = file.take(count);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match rest.read(&mut buffer)? {
            0 => return Ok(()),
            read => tally.add(&buffer[..read]),
        }
    }
}
