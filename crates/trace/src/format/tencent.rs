//! Tencent's cloud block storage: `Timestamp,Offset,Size,IOType,VolumeID`.
//!
//! Time in seconds since 1970, offset and size in sectors of 512 bytes, type 0 for a read and 1 for a
//! write. Records of one second are not sorted. Published at SNIA (iotta, trace 27917) with "OSCA"
//! (ATC '20).

use crate::decode::{Out, Wrong, scaled};
use crate::format::Entry;
use crate::lines::{Comma, Fields, Line, Lines, no_more};
use crate::names::{VolumeNames, printable};
use crate::open::stream;
use crate::recognise::{Sample, Strength};
use crate::record::{Op, Record};
use units::Offset;

pub(super) static ENTRY: Entry = Entry {
    name: "tencent",
    about: "Tencent CBS csv: seconds, sector, sectors, 0 or 1, volume",
    hints: &["tencent", "cbs"],
    recognise: |sample: &Sample<'_>| {
        sample.judge(
            Tencent::default(),
            Strength::Strong,
            "five numbers, the fourth 0 or 1",
        )
    },
    open: |input, options| Ok(stream(input, Lines::new(Tencent::default()), options)),
};

#[derive(Default)]
struct Tencent {
    volumes: VolumeNames,
}

impl Line for Tencent {
    const NAME: &'static str = ENTRY.name;

    #[inline]
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        if line.is_empty() || line.starts_with(b"Timestamp,") {
            return Ok(());
        }
        let mut fields = Fields::<Comma>::new(line);
        let time_us = scaled("Timestamp", fields.number("Timestamp")?, 1_000_000)?.get();
        let offset = Offset::after(scaled(
            "Offset",
            fields.number("Offset")?,
            units::SECTOR_BYTES,
        )?);
        let length = scaled("Size", fields.number("Size")?, units::SECTOR_BYTES)?;
        let op = match fields.text() {
            b"0" => Op::Read,
            b"1" => Op::Write,
            other => {
                return Err(Wrong::field(
                    "IOType",
                    other,
                    "0 for a read or 1 for a write",
                ));
            }
        };
        let volume = fields.number_text("VolumeID")?;
        no_more(&fields)?;
        let volume = self
            .volumes
            .get(volume, out, |bytes| (printable(bytes), String::new()));
        out.push(Record::new(time_us, volume, op, offset, length))
    }
}
