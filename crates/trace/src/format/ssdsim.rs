//! `SSDsim`'s ASCII traces: time, device, sector, sectors, operation; blanks between.
//!
//! Time in nanoseconds, sectors of 512 bytes, operation 0 for a write and 1 for a read. The device is the
//! volume. `MQSim` has the same columns (see `mqsim`), and so has `disksim` but for its milliseconds: a file
//! of whole numbers is not told from those, and `--format` must say what it is.

use crate::decode::{Out, Wrong, scaled};
use crate::format::Entry;
use crate::lines::{Blanks, Fields, Line, Lines, no_more};
use crate::names::{VolumeNames, unowned};
use crate::open::stream;
use crate::recognise::{Sample, Strength};
use crate::record::{Op, Record};
use units::Offset;

pub(super) static ENTRY: Entry = Entry {
    name: "ssdsim",
    about: "SSDsim ASCII: nanoseconds, device, sector, sectors, 0 (write) or 1 (read)",
    hints: &["ssdsim"],
    recognise: |sample: &Sample<'_>| sample.judge(Ssdsim::default(), Strength::Fair, WHY),
    open: |input, options| Ok(stream(input, Lines::new(Ssdsim::default()), options)),
};

pub(super) const WHY: &str = "five whole numbers with blanks between, the last 0 or 1";

#[derive(Default)]
struct Ssdsim {
    volumes: VolumeNames,
}

impl Line for Ssdsim {
    const NAME: &'static str = ENTRY.name;

    #[inline]
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        request(line, &mut self.volumes, out)
    }
}

/// A line of the five columns.
#[inline]
pub(super) fn request(
    line: &[u8],
    volumes: &mut VolumeNames,
    out: &mut Out<'_>,
) -> Result<(), Wrong> {
    let mut fields = Fields::<Blanks>::new(line);
    if fields.is_empty() {
        return Ok(());
    }
    let time_us = fields.number("the time")? / 1_000;
    let device = fields.number_text("the device")?;
    let sector = fields.number("the sector")?;
    let sectors = fields.number("the number of sectors")?;
    let op = match fields.text() {
        b"0" => Op::Write,
        b"1" => Op::Read,
        other => {
            let expected = "0 for a write or 1 for a read";
            return Err(Wrong::field("the operation", other, expected));
        }
    };
    no_more(&fields)?;
    let offset = Offset::after(scaled("the sector", sector, units::SECTOR_BYTES)?);
    let length = scaled("the number of sectors", sectors, units::SECTOR_BYTES)?;
    let volume = volumes.get(device, out, unowned);
    out.push(Record::new(time_us, volume, op, offset, length))
}
