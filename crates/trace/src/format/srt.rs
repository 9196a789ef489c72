//! HP Labs' SRT traces, version 1.3, big-endian, as `DiskSim` 4.0 has one.
//!
//! A text header that begins with `$$TR_IOREC-` and ends with a form feed, then records:
//!
//! ```text
//!   0 u32 length of the record: 56     24 u32 length in bytes
//!   4 u32 kind and version             28 u32 block, in sectors of 256 bytes
//!   8 u32 time, seconds                32 u32 device: major, disk (16 bits), section (8 bits)
//!  12 u32 time, microseconds           44 u32 flags, bit 0: a read
//! ```
//!
//! Blocks count from the disk's beginning, so a volume is a disk, whatever its section and whether the
//! block or the character device was used. A flush or discard does not occur.

use units::{Bytes, Offset};

use crate::decode::{Decode, Fault, Fixed, FixedSize, Out, Window, Wrong, scaled};
use crate::error::Position;
use crate::format::Entry;
use crate::format::vscsi::array_at;
use crate::limits::LINE_BYTES_MAX;
use crate::names::VolumeNames;
use crate::open::stream;
use crate::recognise::{Guess, Sample, Strength};
use crate::record::{Op, Record};

pub(super) static ENTRY: Entry = Entry {
    name: "srt",
    about: "HP Labs' SRT 1.3 (DiskSim), binary",
    hints: &[".srt"],
    recognise: |sample: &Sample<'_>| {
        sample
            .bytes
            .starts_with(MAGIC)
            .then(|| Guess::new(Strength::Certain, "its $$TR_IOREC header"))
    },
    open: |input, options| Ok(stream(input, Srt::Header, options)),
};

const MAGIC: &[u8] = b"$$TR_IOREC-";
const HEADER_END: u8 = 0x0c;
const RECORD_BYTES: usize = 56;
const SECTOR_BYTES: u64 = 256;

enum Srt {
    Header,
    Records(FixedSize<Requests>),
}

impl Decode for Srt {
    const NAME: &'static str = ENTRY.name;

    fn decode(&mut self, window: Window<'_>, out: &mut Out<'_>) -> Result<usize, Fault> {
        if let Self::Records(records) = self {
            return records.decode(window, out);
        }
        let header = &window.bytes[..window.bytes.len().min(LINE_BYTES_MAX)];
        let has_magic = MAGIC.starts_with(&header[..header.len().min(MAGIC.len())]);
        if !has_magic && !header.starts_with(MAGIC) {
            let found = &header[..header.len().min(MAGIC.len())];
            return Err(Fault::Wrong(
                Position::Byte(window.offset),
                Wrong::field("the header", found, "$$TR_IOREC-"),
            ));
        }
        match memchr::memchr(HEADER_END, header) {
            Some(end) => {
                *self = Self::Records(FixedSize(Requests::default()));
                Ok(end + 1)
            }
            None if window.last || header.len() == LINE_BYTES_MAX => Err(Fault::Truncated {
                position: Position::Byte(window.offset),
                found: format!("{} bytes of header", header.len()),
                expected: "a form feed ends the header".to_owned(),
            }),
            None => Ok(0),
        }
    }
}

#[derive(Default)]
struct Requests {
    disks: VolumeNames,
}

impl Fixed for Requests {
    const NAME: &'static str = ENTRY.name;

    fn record_bytes(&self) -> usize {
        RECORD_BYTES
    }

    fn record(&mut self, bytes: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        let word = |at| u32::from_be_bytes(array_at(bytes, at));
        if word(0) != 56 {
            return Err(Wrong::found("record length", word(0).to_string(), "56"));
        }
        let time_us = u64::from(word(8)) * 1_000_000 + u64::from(word(12));
        let op = if word(44) & 1 == 1 {
            Op::Read
        } else {
            Op::Write
        };
        let offset = Offset::after(scaled("block", u64::from(word(28)), SECTOR_BYTES)?);
        let length = Bytes::new(u64::from(word(24)));
        let disk = (word(32) >> 8) & 0xffff;
        let volume = self.disks.get(&disk.to_be_bytes(), out, |_| {
            (String::new(), disk.to_string())
        });
        out.push(Record::new(time_us, volume, op, offset, length))
    }
}
