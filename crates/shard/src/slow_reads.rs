//! Tells the log when reads begin to go past slow flash, and when they go to it again.

use crate::run::Shard;

impl Shard {
    pub(crate) fn tell_of_slow_reads(&mut self) {
        let bypasses = self.cache.bypasses_reads();
        if std::mem::replace(&mut self.bypasses_reads, bypasses) == bypasses {
            return;
        }
        let (cache, flash) = (&self.config.name, self.config.flash.display());
        if bypasses {
            tracing::warn!(cache, %flash,
                "the flash is late with reads: they go to the origins until it is in time");
        } else {
            tracing::info!(cache, %flash, "reads of cached blocks go to the flash again");
        }
    }
}
