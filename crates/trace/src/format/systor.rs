//! SYSTOR '17: `Timestamp,Response,IOType,LUN,Offset,Size` with a header.
//!
//! Time in seconds since 1970, response in seconds (may be empty), type `R` or `W`, offset and size in
//! bytes. A logical unit is a volume. Sorted by completion, not by time. Published at SNIA (iotta, trace
//! 4964) with "Understanding storage traffic characteristics on enterprise virtual desktop infrastructure".

use units::{Bytes, Offset};

use crate::decode::{Out, Wrong};
use crate::format::Entry;
use crate::format::spc::read_or_write;
use crate::lines::{Comma, Fields, Line, Lines, micros, no_more};
use crate::names::{VolumeNames, unowned};
use crate::open::stream;
use crate::recognise::{Sample, Strength};
use crate::record::Record;

pub(super) static ENTRY: Entry = Entry {
    name: "systor",
    about: "SYSTOR '17 csv: seconds, response, R or W, unit, offset, size",
    hints: &["systor", "lun"],
    recognise: |sample: &Sample<'_>| {
        sample.judge(
            Systor::default(),
            Strength::Strong,
            "two times in seconds, R or W, and three numbers",
        )
    },
    open: |input, options| Ok(stream(input, Lines::new(Systor::default()), options)),
};

#[derive(Default)]
struct Systor {
    volumes: VolumeNames,
}

impl Line for Systor {
    const NAME: &'static str = ENTRY.name;

    #[inline]
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        if line.is_empty() || line.starts_with(b"Timestamp,") {
            return Ok(());
        }
        let mut fields = Fields::<Comma>::new(line);
        let time_us = fields.seconds("Timestamp")?;
        let response = response(fields.text())?;
        let op = read_or_write("IOType", fields.text())?;
        let unit = fields.number_text("LUN")?;
        let offset = Offset::new(fields.number("Offset")?);
        let length = Bytes::new(fields.number("Size")?);
        no_more(&fields)?;
        let volume = self.volumes.get(unit, out, unowned);
        let mut record = Record::new(time_us, volume, op, offset, length);
        record.response_us = response;
        out.push(record)
    }
}

fn response(field: &[u8]) -> Result<Option<u32>, Wrong> {
    if field.is_empty() {
        return Ok(None);
    }
    match micros(field) {
        Some(us) => Ok(Some(u32::try_from(us).unwrap_or(u32::MAX))),
        None => Err(Wrong::field(
            "Response",
            field,
            "seconds such as 0.001234, or nothing",
        )),
    }
}
