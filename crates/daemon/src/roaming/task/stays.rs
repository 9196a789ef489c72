//! Why the disks could not go, as operators see it for a while.

use super::Disks;
use events::EventKind;
use std::time::{Duration, Instant};

/// For how long it is shown.
const SHOWN_FOR: Duration = Duration::from_mins(1);

/// Why, and since when that is known.
#[derive(Default)]
pub(super) struct Stays(Option<(String, Instant)>);

impl Stays {
    /// One of the disks cannot go, so none goes.
    pub(super) fn learn(&mut self, disks: &Disks) {
        let reasons = disks.iter().filter_map(|disk| {
            let why = disk.steps().why_it_stays()?;
            let name = &disk.steps().entry.config.name;
            Some(format!("the disk '{name}' cannot go: {why}"))
        });
        let reasons: Vec<_> = reasons.collect();
        let Some(why) = reasons.first().cloned() else {
            return;
        };
        if disks.len() > 1 && self.0.as_ref().is_none_or(|(before, _)| *before != why) {
            let vm = disks[0].steps().entry.vm();
            tracing::warn!(event = EventKind::HandOverFailed.word(),
                %vm, reason = why, "the VM's disks stay here, since one of them cannot go");
        }
        self.0 = Some((why, Instant::now()));
    }

    /// They have gone, or have come.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }

    /// What is to be shown now.
    pub(super) fn shown(&mut self) -> Option<String> {
        self.0.take_if(|(_, since)| since.elapsed() > SHOWN_FOR);
        self.0.as_ref().map(|(why, _)| why.clone())
    }
}
