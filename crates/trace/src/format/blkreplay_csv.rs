//! A short csv of block requests: `time_us,op,sector,sectors`.
//!
//! Time in microseconds, sectors of 512 bytes, the operation's first letter `R`, `W`, `D` or `F`; comments
//! begin with `#`. blkreplay's loads are handed on in this form where they had to be corrected.

use crate::decode::{Out, Wrong, scaled};
use crate::format::Entry;
use crate::format::blkreplay::letter;
use crate::lines::{Comma, Fields, Line, Lines, no_more};
use crate::open::stream;
use crate::recognise::{Sample, Strength};
use crate::record::Record;
use units::Offset;

pub(super) static ENTRY: Entry = Entry {
    name: "blkreplay-csv",
    about: "short csv: microseconds, R or W, sector, sectors",
    hints: &["blkreplay"],
    recognise: |sample: &Sample<'_>| {
        sample.judge(
            BlkreplayCsv,
            Strength::Strong,
            "four columns: a number, R or W, two numbers",
        )
    },
    open: |input, options| Ok(stream(input, Lines::new(BlkreplayCsv), options)),
};

struct BlkreplayCsv;

impl Line for BlkreplayCsv {
    const NAME: &'static str = ENTRY.name;

    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        if line.is_empty() || line[0] == b'#' {
            return Ok(());
        }
        let mut fields = Fields::<Comma>::new(line);
        let time_us = fields.number("time_us")?;
        let op = letter("op", fields.text())?;
        let offset = Offset::after(scaled(
            "sector",
            fields.number("sector")?,
            units::SECTOR_BYTES,
        )?);
        let length = scaled("sectors", fields.number("sectors")?, units::SECTOR_BYTES)?;
        no_more(&fields)?;
        let volume = out.only_volume();
        out.push(Record::new(time_us, volume, op, offset, length))
    }
}
