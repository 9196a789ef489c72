//! Tells the log when guests begin to go past slow flash, when they wait for it again, and when it is
//! given up.

use crate::failures::FlashName;
use block_io::FailureKind;
use cache::Cache;
use events::EventKind;

/// What the log was told of the flash.
#[derive(Debug)]
pub(crate) struct Told {
    bypasses_reads: bool,
    is_in_doubt: bool,
    is_given_up: bool,
}

impl Told {
    /// Whoever opened the flash has said whether it is used.
    pub(crate) fn at_start(cache: &Cache) -> Self {
        Self {
            bypasses_reads: false,
            is_in_doubt: false,
            is_given_up: cache.facts().why_bypassed().is_some(),
        }
    }
}

/// Whether something has become so, or is so no longer; nothing if it is as it was.
fn changed(told: &mut bool, now: bool) -> Option<bool> {
    (std::mem::replace(told, now) != now).then_some(now)
}

impl Told {
    /// Tells what has changed.
    pub(crate) fn tell(&mut self, state: &Cache, at: FlashName<'_>) {
        let (cache, flash) = (at.cache, at.flash.display());
        let given_up = state.facts().why_bypassed();
        if let (Some(true), Some(reason)) =
            (changed(&mut self.is_given_up, given_up.is_some()), given_up)
        {
            let kind = FailureKind::FlashGivenUp;
            tracing::error!(event = EventKind::FlashGivenUp.word(),
                kind = kind.name(), message_id = kind.message_id(), cache, %flash, reason,
                "the flash was given up: every disk of this cache is served from its origin");
        }
        match changed(&mut self.bypasses_reads, state.facts().bypasses_reads()) {
            Some(true) => tracing::warn!(event = EventKind::FlashSlow.word(), cache, %flash,
                "the flash is late with reads: they go to the origins until it is in time"),
            Some(false) if given_up.is_none() => {
                tracing::info!(event = EventKind::FlashInTime.word(),
                    cache, %flash, "reads of cached blocks go to the flash again");
            }
            Some(false) | None => {}
        }
        match changed(&mut self.is_in_doubt, state.facts().is_in_doubt()) {
            Some(true) => tracing::warn!(event = EventKind::FlashSlow.word(), cache, %flash,
                "the flash is late with writes: guests do not wait for it until it is in time, and after \
                 a crash the cache would start empty"),
            Some(false) if given_up.is_none() => {
                tracing::info!(event = EventKind::FlashInTime.word(),
                    cache, %flash, "the flash is in time again, and the cache survives a crash");
            }
            Some(false) | None => {}
        }
    }
}
