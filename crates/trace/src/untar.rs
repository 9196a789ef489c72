//! The trace in a tar archive, as Tencent and Alibaba publish theirs: its only file, streamed.
//!
//! ```text
//!  header 512 │ content, filled up to 512 │ header │ content ... │ two empty blocks
//! ```
//!
//! Papers and checksums that lie beside a trace are passed over. A second trace is an error: nobody can say
//! whether it goes on with the first.

use std::io::{self, Read};

use crate::input::read_some;

const BLOCK_BYTES: usize = 512;

/// The largest file: what a file system can hold; sums with it do not overflow.
const SIZE_MAX: u64 = 1 << 62;

/// Words in the names of files that are no trace. The last is Alibaba's table of device sizes.
const BESIDE: [&str; 6] = [
    "readme",
    "license",
    "disclaimer",
    "md5",
    "checksum",
    "device_size",
];

/// True if a file begins with the header of an archive's member.
pub(crate) fn is_archive(first: &[u8]) -> bool {
    first.len() >= BLOCK_BYTES && &first[257..262] == b"ustar" && checksum_fits(first)
}

fn checksum_fits(header: &[u8]) -> bool {
    let blank = 8 * u64::from(b' ');
    let outside = header[..148].iter().chain(&header[156..BLOCK_BYTES]);
    let sum: u64 = outside.map(|&byte| u64::from(byte)).sum();
    number(&header[148..156]) == Some(sum + blank)
}

/// A number of a header: octal digits, or big-endian after a set bit where these do not suffice.
fn number(field: &[u8]) -> Option<u64> {
    let (&first, rest) = field.split_first()?;
    if first & 0x80 != 0 {
        let mut value = u64::from(first & 0x7f);
        for &byte in rest {
            value = value.checked_mul(256)? + u64::from(byte);
        }
        return Some(value);
    }
    let digits = field.split(|&byte| byte == 0).next()?.trim_ascii();
    let text = std::str::from_utf8(digits).ok()?;
    if text.is_empty() {
        return Some(0);
    }
    u64::from_str_radix(text, 8).ok()
}

/// Hands out the content of the archive's trace.
pub(crate) struct Untar<R> {
    inner: R,
    /// Bytes of the trace still to come, and what fills them up.
    left: u64,
    filling: u64,
    /// The trace's name, once it is known.
    name: Option<String>,
    ended: bool,
}

impl<R: Read> Untar<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self {
            inner,
            left: 0,
            filling: 0,
            name: None,
            ended: false,
        }
    }

    /// Steps to the trace's content, or to the archive's end.
    fn step(&mut self) -> io::Result<()> {
        skip(&mut self.inner, self.filling)?;
        self.filling = 0;
        let mut header = [0; BLOCK_BYTES];
        self.inner.read_exact(&mut header)?;
        if header == [0; BLOCK_BYTES] {
            self.ended = true;
            // What follows is read so that a packing around it is checked to its end.
            io::copy(&mut self.inner, &mut io::sink())?;
            return Ok(());
        }
        let size = number(&header[124..136]).filter(|&size| size <= SIZE_MAX);
        let Some(size) = size.filter(|_| checksum_fits(&header)) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the tar archive is damaged",
            ));
        };
        let filling = size.next_multiple_of(BLOCK_BYTES as u64) - size;
        let name = header[..100].split(|&byte| byte == 0).next();
        let name = String::from_utf8_lossy(name.unwrap_or_default()).into_owned();
        let is_file = matches!(header[156], b'0' | 0);
        if !is_file || size == 0 || is_beside(&name) {
            skip(&mut self.inner, size)?;
            return skip(&mut self.inner, filling);
        }
        if let Some(first) = &self.name {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("the tar archive holds {first} and {name}"),
            ));
        }
        self.name = Some(name);
        (self.left, self.filling) = (size, filling);
        Ok(())
    }
}

fn is_beside(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    BESIDE.iter().any(|word| file.contains(word))
}

fn skip(inner: &mut impl Read, count: u64) -> io::Result<()> {
    let skipped = io::copy(&mut inner.by_ref().take(count), &mut io::sink())?;
    if skipped < count {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

impl<R: Read> Read for Untar<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 && !self.ended {
            self.step()?;
        }
        if self.left == 0 || into.is_empty() {
            return Ok(0);
        }
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(into.len());
        let read = read_some(&mut self.inner, &mut into[..most])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut header = [0_u8; BLOCK_BYTES];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[156] = kind;
        header[257..262].copy_from_slice(b"ustar");
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        let mut bytes = [&header[..], content].concat();
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        bytes
    }

    fn read(archive: &[u8]) -> io::Result<Vec<u8>> {
        assert!(is_archive(archive));
        let mut content = Vec::new();
        Untar::new(archive).read_to_end(&mut content)?;
        Ok(content)
    }

    #[test]
    fn the_only_trace_is_handed_out() {
        let archive = [
            member("traces/", b'5', b""),
            member("traces/README.txt", b'0', b"read me"),
            member("traces/2018100101", b'0', &[b'1'; 700]),
            member("md5_check.md5", b'0', b"00"),
            vec![0; 1024],
        ];
        assert_eq!(read(&archive.concat()).unwrap(), [b'1'; 700]);
    }

    #[test]
    fn a_second_trace_is_an_error_that_names_both() {
        let archive = [
            member("a.csv", b'0', b"1\n"),
            member("b.csv", b'0', b"2\n"),
            vec![0; 1024],
        ];
        let error = read(&archive.concat()).unwrap_err().to_string();
        assert!(error.contains("a.csv and b.csv"), "{error}");
    }

    #[test]
    fn an_archive_that_is_cut_or_damaged_is_an_error() {
        let whole = [member("a.csv", b'0', &[b'1'; 700]), vec![0; 1024]].concat();
        for cut in [600, 1100, 1536, 1600] {
            assert!(read(&whole[..cut]).is_err(), "{cut}");
        }
        let mut damaged = [
            member("a.csv", b'0', b"1\n"),
            member("README", b'0', b"2\n"),
        ]
        .concat();
        damaged[1024 + 3] ^= 1;
        assert!(read(&damaged).is_err());
        let mut huge = member("a.csv", b'0', b"1\n");
        huge[124..136].copy_from_slice(&[
            0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        ]);
        huge[148..156].fill(b' ');
        let sum: u32 = huge[..512].iter().map(|&byte| u32::from(byte)).sum();
        huge[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        assert!(read(&huge).is_err());
    }

    #[test]
    fn sizes_beyond_octal_digits_are_binary() {
        assert_eq!(number(b"00000001274\0"), Some(700));
        assert_eq!(
            number(&[0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]),
            Some(1 << 33)
        );
        assert_eq!(number(&[0xff; 12]), None);
        assert_eq!(number(b"9"), None);
    }
}
