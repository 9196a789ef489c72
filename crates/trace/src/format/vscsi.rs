//! vscsiStats, versions 1 and 2: SCSI commands of a virtual disk (`CloudPhysics`), little-endian.
//!
//! ```text
//!  version 1, 32 bytes              version 2, 40 bytes
//!   0 u32 serial number              0 u16 command
//!   4 u32 length in bytes            2 u16 version, 2 in the upper byte
//!   8 u32 scatter-gather elements    4 u32 serial number
//!  12 u16 command                    8 u32 length in bytes
//!  14 u16 version, 1 above          12 u32 scatter-gather elements
//!  16 u64 sector of 512 bytes       16 u64 sector of 512 bytes
//!  24 u64 time in us                24 u64 time in us
//!                                   32 u64 response time in us
//! ```
//!
//! Commands that touch no block (inquiry, mode sense ...) are passed over.

use crate::decode::{Decode, Fault, Fixed, FixedSize, Out, Window, Wrong, scaled};
use crate::error::Position;
use crate::format::Entry;
use crate::open::stream;
use crate::recognise::{Guess, Sample, Strength};
use crate::record::{Op, Record};

use units::{Bytes, Offset};

pub(super) static ENTRY: Entry = Entry {
    name: "vscsi",
    about: "vscsiStats versions 1 and 2 (CloudPhysics), binary",
    hints: &["vscsi"],
    recognise,
    open: |input, options| Ok(stream(input, Vscsi::Unknown, options)),
};

/// Records that a version is recognised by.
const RECORDS_JUDGED: usize = 64;

fn recognise(sample: &Sample<'_>) -> Option<Guess> {
    let version = version_of(sample.bytes)?;
    let size = version.record_bytes();
    let fits = sample
        .bytes
        .chunks_exact(size)
        .take(RECORDS_JUDGED)
        .all(|record| version.version_field(record) == Some(version));
    let (number, size) = (version as u8, size);
    fits.then(|| Guess {
        strength: Strength::Strong,
        why: format!("version {number} in every record of {size} bytes"),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One = 1,
    Two = 2,
}

impl Version {
    fn record_bytes(self) -> usize {
        match self {
            Self::One => 32,
            Self::Two => 40,
        }
    }

    fn version_field(self, record: &[u8]) -> Option<Self> {
        let upper = match self {
            Self::One => record.get(15),
            Self::Two => record.get(3),
        };
        match upper {
            Some(1) => Some(Self::One),
            Some(2) => Some(Self::Two),
            _ => None,
        }
    }
}

/// The version that the first record has, looked for where each version has it.
fn version_of(bytes: &[u8]) -> Option<Version> {
    [Version::Two, Version::One].into_iter().find(|&version| {
        bytes.len() >= version.record_bytes() && version.version_field(bytes) == Some(version)
    })
}

/// The decoder, before and after the first record.
enum Vscsi {
    Unknown,
    Known(FixedSize<Commands>),
}

impl Decode for Vscsi {
    const NAME: &'static str = ENTRY.name;

    fn decode(&mut self, window: Window<'_>, out: &mut Out<'_>) -> Result<usize, Fault> {
        match self {
            Self::Known(records) => records.decode(window, out),
            Self::Unknown => {
                if window.bytes.len() < Version::Two.record_bytes() && !window.last {
                    return Ok(0);
                }
                let Some(version) = version_of(window.bytes) else {
                    let found = window.bytes.get(..16).unwrap_or(window.bytes);
                    return Err(Fault::Wrong(
                        Position::Byte(window.offset),
                        Wrong::field("version", found, "version 1 or 2"),
                    ));
                };
                let mut records = FixedSize(Commands { version });
                let used = records.decode(window, out);
                *self = Self::Known(records);
                used
            }
        }
    }
}

struct Commands {
    version: Version,
}

impl Fixed for Commands {
    const NAME: &'static str = ENTRY.name;

    fn record_bytes(&self) -> usize {
        self.version.record_bytes()
    }

    #[inline]
    fn record(&mut self, bytes: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        let (command_at, length_at) = match self.version {
            Version::One => (12, 4),
            Version::Two => (0, 8),
        };
        if self.version.version_field(bytes) != Some(self.version) {
            let found = u16_at(bytes, command_at + 2).to_string();
            return Err(Wrong::found(
                "version",
                found,
                "the version of the first record",
            ));
        }
        let Some(op) = op(u16_at(bytes, command_at)) else {
            return Ok(());
        };
        let offset = Offset::after(scaled("sector", u64_at(bytes, 16), units::SECTOR_BYTES)?);
        let length = Bytes::new(u64::from(u32_at(bytes, length_at)));
        let volume = out.only_volume();
        let mut record = Record::new(u64_at(bytes, 24), volume, op, offset, length);
        if self.version == Version::Two {
            record.response_us = Some(u32::try_from(u64_at(bytes, 32)).unwrap_or(u32::MAX));
        }
        out.push(record)
    }
}

/// What a SCSI command asks of the blocks; `None` if it touches none.
fn op(command: u16) -> Option<Op> {
    match command {
        // READ 6, 10, 12, 16.
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Op::Read),
        // WRITE 6, 10, 12, 16, and WRITE AND VERIFY 10, 12, 16.
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Some(Op::Write),
        // SYNCHRONIZE CACHE 10, 16.
        0x35 | 0x91 => Some(Op::Flush),
        // UNMAP.
        0x42 => Some(Op::Discard),
        // WRITE SAME 10, 16.
        0x41 | 0x93 => Some(Op::WriteZeroes),
        _ => None,
    }
}

#[inline]
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

#[inline]
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

#[inline]
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

#[inline]
pub(super) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..]
        .first_chunk()
        .expect("a record has its format's size")
}
