//! A generator in place of a file: `gen:zipf,blocks=1M,...`. Nothing is read, so nothing is recognised.

use crate::format::Entry;
use crate::open::OpenError;

pub(super) static ENTRY: Entry = Entry {
    name: "generated",
    about: "gen:KIND,KEY=VALUE,... instead of a file: see hearth trace generate --help",
    hints: &[],
    recognise: |_| None,
    open: |input, _| {
        Err(OpenError::NoGenerator {
            file: input.name().to_owned(),
        })
    },
};
