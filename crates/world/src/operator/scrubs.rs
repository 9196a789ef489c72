//! Scrubs that the operator begins and ends in scrubbed worlds.

use super::Operator;
use crate::context::Context;
use crate::settings::pick;
use cache::{Command, ScrubPass};
use units::Bytes;

impl Operator {
    /// Begins a scrub, changes its rate, or ends it.
    pub(super) fn scrub(&mut self, cx: &mut Context) {
        cx.run.hit("scrub");
        let command = if cx.run.one_in(4) {
            Command::StopScrub
        } else {
            let rate = *pick(
                cx.run.dice(),
                &[Bytes::mib(1), Bytes::mib(50), Bytes::gib(1)],
            );
            let from = ScrubPass::default();
            Command::Scrub { rate, from }
        };
        self.control(command, cx);
    }
}
