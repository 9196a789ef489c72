//! Raw keys: numbers of 32 or 64 bits, little-endian, one behind the other without a header; a read each.
//!
//! A number is a block's key (see `keys`). Any file is a row of such numbers, so that these formats are never
//! guessed: `--format raw-u32` or `raw-u64` says what the file is.

use crate::format::Entry;
use crate::format::vscsi::{u32_at, u64_at};
use crate::input::Input;
use crate::keys::{Keyed, KeyedRecords, Keys};
use crate::open::{Options, stream};
use crate::records::Reader;

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
    let decoder = KeyedRecords::<Raw<BYTES>>::new(Keys::new(options.key));
    stream(input, decoder, options)
}

/// Keys of so many bytes: 4 or 8.
struct Raw<const BYTES: usize>;

impl<const BYTES: usize> Keyed for Raw<BYTES> {
    const NAME: &'static str = if BYTES == 4 { NARROW.name } else { WIDE.name };
    const RECORD_BYTES: usize = BYTES;

    #[inline]
    fn time_us(_: &[u8]) -> u64 {
        0
    }

    #[inline]
    fn key(record: &[u8]) -> u64 {
        if BYTES == 4 {
            u32_at(record, 0).into()
        } else {
            u64_at(record, 0)
        }
    }
}
