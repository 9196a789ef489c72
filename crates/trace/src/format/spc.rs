//! The Storage Performance Council's trace files: `ASU,LBA,Size,Opcode,Timestamp`, more columns allowed.
//!
//! The unit that is asked (ASU) is the volume. LBA in sectors of 512 bytes, size in bytes, opcode `r` or
//! `w`, time in seconds from the start. `UMass` publishes `WebSearch` and `Financial` in this form
//! (`traces.cs.umass.edu`, Storage).

use units::{Bytes, Offset};

use crate::decode::{Out, Wrong, scaled};
use crate::format::Entry;
use crate::lines::{Comma, Fields, Line, Lines};
use crate::names::{VolumeNames, unowned};
use crate::open::stream;
use crate::recognise::{Sample, Strength};
use crate::record::{Op, Record};

pub(super) static ENTRY: Entry = Entry {
    name: "spc",
    about: "SPC csv (UMass): unit, sector, size, r or w, seconds",
    hints: &[".spc", "websearch", "financial"],
    recognise: |sample: &Sample<'_>| {
        sample.judge(
            Spc::default(),
            Strength::Strong,
            "three numbers, r or w, and seconds",
        )
    },
    open: |input, options| Ok(stream(input, Lines::new(Spc::default()), options)),
};

#[derive(Default)]
struct Spc {
    volumes: VolumeNames,
}

impl Line for Spc {
    const NAME: &'static str = ENTRY.name;

    #[inline]
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        if line.is_empty() {
            return Ok(());
        }
        let mut fields = Fields::<Comma>::new(line);
        let unit = fields.number_text("ASU")?;
        let offset = Offset::after(scaled("LBA", fields.number("LBA")?, units::SECTOR_BYTES)?);
        let length = Bytes::new(fields.number("Size")?);
        let op = read_or_write("Opcode", fields.text())?;
        let time_us = fields.seconds("Timestamp")?;
        let volume = self.volumes.get(unit, out, unowned);
        out.push(Record::new(time_us, volume, op, offset, length))
    }
}

/// One letter, in either case.
pub(super) fn read_or_write(column: &'static str, word: &[u8]) -> Result<Op, Wrong> {
    match word {
        b"R" | b"r" => Ok(Op::Read),
        b"W" | b"w" => Ok(Op::Write),
        _ => Err(Wrong::field(column, word, "R or W")),
    }
}
