//! Plain keys: one a line, a read each, without time.
//!
//! A number is a block's key (see `keys`); with `--format text` any other word is an object's name.
//! Empty lines, comments (`#`) and the breakpoints of the LIRS authors' traces (`*`) say nothing.

use crate::decode::{Out, Wrong};
use crate::format::Entry;
use crate::keys::Keys;
use crate::lines::{Line, Lines, number};
use crate::open::stream;
use crate::recognise::Strength;
use crate::record::{Op, Record};

pub(super) static ENTRY: Entry = Entry {
    name: "text",
    about: "one key a line: block numbers (LIRS's traces) or any words",
    hints: &[".trc", ".trace", ".txt"],
    recognise: |sample| {
        let format = Text {
            keys: Keys::new(units::Bytes::new(units::BLOCK_BYTES)),
            only_numbers: true,
        };
        sample.judge(format, Strength::Fair, "one number a line")
    },
    open: |input, options| {
        let format = Text {
            keys: Keys::new(options.key),
            // Recognised by its numbers, so a word would be a fault; asked for by name, it is a key.
            only_numbers: options.format.is_none(),
        };
        Ok(stream(input, Lines::new(format), options))
    },
};

struct Text {
    keys: Keys,
    only_numbers: bool,
}

impl Line for Text {
    const NAME: &'static str = ENTRY.name;

    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        let key = line.trim_ascii();
        if matches!(key, b"" | b"*" | [b'#', ..]) {
            return Ok(());
        }
        let offset = match number(key) {
            Some(block) => self.keys.offset(block),
            None if self.only_numbers => {
                return Err(Wrong::field("the key", key, "a block number")
                    .remedy("mend it, or say --format text if words are keys too"));
            }
            None => self.keys.offset_of_name(key),
        };
        let volume = out.only_volume();
        out.push(Record::new(0, volume, Op::Read, offset, self.keys.unit()))
    }
}
