//! ARC's lists (`.lis`): a range of pages a line, all read, without time.
//!
//! Four numbers, blanks between: first page, number of pages, a field to ignore, number of the request.
//! A page is a key (see `keys`). Published with "ARC: A Self-Tuning, Low Overhead Replacement Cache"
//! (FAST '03), whose authors ask to be cited.

use crate::decode::{Out, Wrong};
use crate::format::Entry;
use crate::keys::Keys;
use crate::lines::{Blanks, Fields, Line, Lines, no_more};
use crate::open::stream;
use crate::recognise::Strength;

pub(super) static ENTRY: Entry = Entry {
    name: "lis",
    about: "ARC's page lists: first page, pages, ignored, request number",
    hints: &[".lis"],
    recognise: |sample| {
        sample.judge(
            Lis::new(units::Bytes::new(units::BLOCK_BYTES)),
            Strength::Fair,
            "four numbers a line with blanks between",
        )
    },
    open: |input, options| Ok(stream(input, Lines::new(Lis::new(options.key)), options)),
};

struct Lis {
    keys: Keys,
}

impl Lis {
    fn new(page: units::Bytes) -> Self {
        Self {
            keys: Keys::new(page),
        }
    }
}

impl Line for Lis {
    const NAME: &'static str = ENTRY.name;

    #[inline]
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        let mut fields = Fields::<Blanks>::new(line);
        if fields.is_empty() {
            return Ok(());
        }
        let first = fields.number("the first page")?;
        let count = fields.number("the number of pages")?;
        fields.number("the ignored field")?;
        fields.number("the request number")?;
        no_more(&fields)?;
        let volume = out.only_volume();
        self.keys.read(volume, first, count, out)
    }
}
