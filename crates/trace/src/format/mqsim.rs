//! `MQSim`'s traces: arrival time, device, sector, sectors, type; blanks between.
//!
//! Time in nanoseconds, which is the unit of `MQSim`'s own workloads; sectors of 512 bytes; type 0 for a
//! write and 1 for a read, as `MQSim`'s README has them. The columns are those of `ssdsim`.

use super::ssdsim::{WHY, request};
use crate::decode::{Out, Wrong};
use crate::format::Entry;
use crate::lines::{Line, Lines};
use crate::names::VolumeNames;
use crate::open::stream;
use crate::recognise::{Sample, Strength};

pub(super) static ENTRY: Entry = Entry {
    name: "mqsim",
    about: "MQSim text: nanoseconds, device, sector, sectors, 0 (write) or 1 (read)",
    hints: &["mqsim"],
    recognise: |sample: &Sample<'_>| sample.judge(Mqsim::default(), Strength::Fair, WHY),
    open: |input, options| Ok(stream(input, Lines::new(Mqsim::default()), options)),
};

#[derive(Default)]
struct Mqsim {
    volumes: VolumeNames,
}

impl Line for Mqsim {
    const NAME: &'static str = ENTRY.name;

    #[inline]
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        request(line, &mut self.volumes, out)
    }
}
