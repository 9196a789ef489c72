//! `DiskSim`'s ASCII traces: arrival time, device, block, blocks, flags; blanks between.
//!
//! Time in milliseconds with decimals, from the start; blocks of 512 bytes; flags in hexadecimal, of which
//! bit 0 says read and its absence write. The device is the volume. The manual of `DiskSim` 4.0 describes
//! the form. Some tools write the same with seconds, which nothing in a file tells: that is `disksim-seconds`,
//! and never guessed.

use crate::decode::{Out, Wrong, scaled};
use crate::format::Entry;
use crate::lines::{Blanks, Fields, Line, Lines, micros, no_more};
use crate::names::{VolumeNames, unowned};
use crate::open::stream;
use crate::recognise::{Sample, Strength};
use crate::record::{Op, Record};
use units::Offset;

pub(super) static ENTRY: Entry = Entry {
    name: "disksim",
    about: "DiskSim ASCII: milliseconds, device, sector, sectors, flags (bit 0: read)",
    hints: &["disksim"],
    recognise: |sample: &Sample<'_>| {
        sample.judge(
            Disksim::<1_000>::default(),
            Strength::Fair,
            "a time, three whole numbers and flags with blanks between",
        )
    },
    open: |input, options| {
        let format = Disksim::<1_000>::default();
        Ok(stream(input, Lines::new(format), options))
    },
};

pub(super) static SECONDS: Entry = Entry {
    name: "disksim-seconds",
    about: "the same with seconds; only if it is asked for",
    hints: &[],
    recognise: |_| None,
    open: |input, options| {
        let format = Disksim::<1>::default();
        Ok(stream(input, Lines::new(format), options))
    },
};

/// `PER_SECOND` units of time are a second.
#[derive(Default)]
struct Disksim<const PER_SECOND: u64> {
    volumes: VolumeNames,
}

impl<const PER_SECOND: u64> Line for Disksim<PER_SECOND> {
    const NAME: &'static str = if PER_SECOND == 1 {
        SECONDS.name
    } else {
        ENTRY.name
    };

    #[inline]
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        let mut fields = Fields::<Blanks>::new(line);
        if fields.is_empty() {
            return Ok(());
        }
        let time = fields.text();
        let time_us = micros(time)
            .ok_or_else(|| Wrong::field("the arrival time", time, "a time such as 12.345678"))?
            / PER_SECOND;
        let device = fields.number_text("the device")?;
        let sector = fields.number("the block")?;
        let sectors = fields.number("the number of blocks")?;
        let flags = fields.text();
        no_more(&fields)?;
        let op = match hexadecimal(flags) {
            Some(bits) if bits & 1 == 1 => Op::Read,
            Some(_) => Op::Write,
            None => return Err(Wrong::field("the flags", flags, "a hexadecimal number")),
        };
        let offset = Offset::after(scaled("the block", sector, units::SECTOR_BYTES)?);
        let length = scaled("the number of blocks", sectors, units::SECTOR_BYTES)?;
        let volume = self.volumes.get(device, out, unowned);
        out.push(Record::new(time_us, volume, op, offset, length))
    }
}

fn hexadecimal(field: &[u8]) -> Option<u32> {
    let digits = field.strip_prefix(b"0x").unwrap_or(field);
    // A sign is none of the digits.
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
