//! Alibaba's block traces of 2020: `device_id,opcode,offset,length,timestamp`.
//!
//! Offset and length in bytes, opcode `R` or `W`, time in microseconds since 1970; no header in
//! `io_traces.csv`, which is sorted by time over a thousand devices. Each device is a volume of its own
//! VM. Published at github.com/alibaba/block-traces.

use units::{Bytes, Offset};

use crate::decode::{Out, Wrong};
use crate::format::Entry;
use crate::format::spc::read_or_write;
use crate::lines::{Comma, Fields, Line, Lines, no_more};
use crate::names::{VolumeNames, printable};
use crate::open::stream;
use crate::recognise::{Sample, Strength};
use crate::record::Record;

pub(super) static ENTRY: Entry = Entry {
    name: "alibaba",
    about: "Alibaba 2020 csv: device, R or W, offset, length, microseconds",
    hints: &["alibaba", "io_traces"],
    recognise: |sample: &Sample<'_>| {
        sample.judge(
            Alibaba::default(),
            Strength::Strong,
            "a number, R or W, and three numbers",
        )
    },
    open: |input, options| Ok(stream(input, Lines::new(Alibaba::default()), options)),
};

#[derive(Default)]
struct Alibaba {
    volumes: VolumeNames,
}

impl Line for Alibaba {
    const NAME: &'static str = ENTRY.name;

    #[inline]
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        if line.is_empty() || line.starts_with(b"device_id,") {
            return Ok(());
        }
        let mut fields = Fields::<Comma>::new(line);
        let device = fields.number_text("device_id")?;
        let op = read_or_write("opcode", fields.text())?;
        let offset = Offset::new(fields.number("offset")?);
        let length = Bytes::new(fields.number("length")?);
        let time_us = fields.number("timestamp")?;
        no_more(&fields)?;
        let volume = self
            .volumes
            .get(device, out, |bytes| (printable(bytes), String::new()));
        out.push(Record::new(time_us, volume, op, offset, length))
    }
}
