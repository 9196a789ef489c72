//! MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! Time and response time in Windows' filetime (100 ns since 1601), offset and size in bytes, type `Read`
//! or `Write`, no header. The host is the VM, the disk the volume. Published at SNIA (iotta, traces 386 to
//! 388) with "Write Off-Loading" (FAST '08).

use units::{Bytes, Offset};

use crate::decode::{Out, Wrong};
use crate::format::Entry;
use crate::lines::{Comma, Fields, Line, Lines, no_more};
use crate::names::{VolumeNames, printable};
use crate::open::stream;
use crate::recognise::{Sample, Strength};
use crate::record::{Op, Record};

pub(super) static ENTRY: Entry = Entry {
    name: "msr",
    about: "MSR Cambridge csv: filetime, host, disk, Read or Write, offset, size, response",
    hints: &["msr"],
    recognise: |sample: &Sample<'_>| {
        sample.judge(
            Msr::default(),
            Strength::Strong,
            "seven columns with a filetime and Read or Write",
        )
    },
    open: |input, options| Ok(stream(input, Lines::new(Msr::default()), options)),
};

/// A filetime is in units of 100 ns.
const FILETIME_PER_US: u64 = 10;

#[derive(Default)]
struct Msr {
    volumes: VolumeNames,
}

impl Line for Msr {
    const NAME: &'static str = ENTRY.name;

    #[inline]
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        if line.is_empty() || line.starts_with(b"Timestamp,") {
            return Ok(());
        }
        let mut fields = Fields::<Comma>::new(line);
        let filetime = fields.number("Timestamp")?;
        let volume = fields.rest();
        fields.text();
        fields.number("DiskNumber")?;
        let volume = &volume[..volume.len() - fields.rest().len()];
        let op = op(fields.text())?;
        let offset = Offset::new(fields.number("Offset")?);
        let length = Bytes::new(fields.number("Size")?);
        let response = fields.number("ResponseTime")? / FILETIME_PER_US;
        no_more(&fields)?;
        let volume = self.volumes.get(volume, out, |bytes| {
            let mut fields = Fields::<Comma>::new(bytes);
            (printable(fields.text()), printable(fields.text()))
        });
        let mut record = Record::new(filetime / FILETIME_PER_US, volume, op, offset, length);
        record.response_us = Some(u32::try_from(response).unwrap_or(u32::MAX));
        out.push(record)
    }
}

fn op(word: &[u8]) -> Result<Op, Wrong> {
    if word.eq_ignore_ascii_case(b"read") {
        Ok(Op::Read)
    } else if word.eq_ignore_ascii_case(b"write") {
        Ok(Op::Write)
    } else {
        Err(Wrong::field("Type", word, "Read or Write"))
    }
}
