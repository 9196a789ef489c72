//! Raw keys: numbers of 32 or 64 bits, little-endian, one behind the other without a header; a read each.
//!
//! A number is a block's key (see `keys`). Any file is a row of such numbers, so that these formats are never
//! guessed: `--format raw-u32` or `raw-u64` says what the file is.

use crate::decode::{Fixed, Out, Records, Wrong};
use crate::format::Entry;
use crate::format::vscsi::{u32_at, u64_at};
use crate::input::Input;
use crate::keys::Keys;
use crate::open::{Options, stream};
use crate::record::Reader;

pub(super) static NARROW: Entry = Entry {
    name: "raw-u32",
    about: "keys of 32 bits, little-endian, without a header; only if it is asked for",
    hints: &[],
    recognise: |_| None,
    open: |input, options| Ok(reader::<4>(input, options)),
};

pub(super) static WIDE: Entry = Entry {
    name: "raw-u64",
    about: "keys of 64 bits, little-endian, without a header; only if it is asked for",
    hints: &[],
    recognise: |_| None,
    open: |input, options| Ok(reader::<8>(input, options)),
};

fn reader<const BYTES: usize>(input: Input, options: &Options) -> Box<dyn Reader> {
    let format = Raw::<BYTES> {
        keys: Keys::new(options.key),
    };
    stream(input, Records(format), options)
}

/// Keys of so many bytes: 4 or 8.
struct Raw<const BYTES: usize> {
    keys: Keys,
}

impl<const BYTES: usize> Fixed for Raw<BYTES> {
    const NAME: &'static str = if BYTES == 4 { NARROW.name } else { WIDE.name };

    fn record_bytes(&self) -> usize {
        BYTES
    }

    #[inline]
    fn record(&mut self, bytes: &[u8], out: &mut Out<'_>) -> Result<(), Wrong> {
        let key = if BYTES == 4 {
            u32_at(bytes, 0).into()
        } else {
            u64_at(bytes, 0)
        };
        let volume = out.only_volume();
        self.keys.read(volume, key, 1, out)
    }
}
