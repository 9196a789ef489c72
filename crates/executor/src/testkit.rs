//! What the tests of this crate share.

use crate::planner::PlannerSays;
use crate::records::Recorded;
use crate::says::FleetSays;
use placement::moving::{Move, Stage};
use placement::{Name, Plan};
use std::collections::BTreeSet;
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

/// Nobody is told anything.
pub(crate) struct Quiet;

impl PlannerSays for Quiet {
    fn leads(&self, _: bool) {}
    fn planned(&self, _: &Plan) {}
}

impl FleetSays for Quiet {
    fn saw(&self, _: &BTreeSet<String>, _: &[Recorded]) {}
    fn saw_nothing(&self) {}
}
