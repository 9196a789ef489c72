//! What the tests of this crate share.

use crate::records::Recorded;
use placement::Name;
use placement::moving::{Move, Stage};
use store::Revision;
use units::Instant;

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn recorded(vm: &str, (from, to): (&str, &str), stage: Stage) -> Recorded {
    let planned = Move::planned(name(vm), name(from), name(to), Instant::ZERO);
    Recorded {
        revision: Revision(1),
        record: planned.entered(stage, &name(from), Instant::ZERO),
    }
}
