//! The record of a disk whose owner is gone for good, by an operator's word.
//!
//! A host that is gone may have left three things behind, and each is asked about:
//!
//! ```text
//!   the origin's lock      it is not gone: refused
//!   bytes on its flash     the origin is an older state of the disk: refused, unless the operator gives them up
//!   writes on their way    an NBD server may still carry them out: requests wait for `settle_time`
//! ```
//! Bytes that were given up count nowhere any more: the record names no cache then, so what is on the flash of a host that
//! comes back all the same is dropped.

use super::super::origin_lock::OriginLocked;
use super::Register;
use api::problem::{Problem, ProblemKind};
use origin::OriginSpec;
use shard::{Holder, Owner};
use units::errors::chain;

impl Register {
    /// Lets the record name this host in place of one that is gone for good; with `lose_dirty` also where that has bytes
    /// which the origin lacks. Returns the new epoch.
    ///
    /// # Errors
    /// If that host may have bytes that the origin lacks, the origin is locked or cannot be reached, or the record names
    /// this host, or none.
    pub(in crate::roaming) fn take_over(&self, lose_dirty: bool) -> Result<u64, Problem> {
        let failed =
            |error: &dyn std::error::Error| Problem::new(ProblemKind::Origin, chain(error));
        let refused = |detail: String| Problem::new(ProblemKind::Refused, detail);
        let file = self.file();
        let owner = file.load().map_err(|error| failed(&error))?;
        let Some((owner, before)) =
            owner.and_then(|owner| owner.holder.clone().map(|before| (owner, before)))
        else {
            return Err(refused(
                "no host has the disk: the first that reaches the origin takes it".to_owned(),
            ));
        };
        if before.host == self.here {
            return Err(refused("the owner's record names this host".to_owned()));
        }
        if owner.record.open && !lose_dirty {
            return Err(self.may_lose(&owner, &before));
        }
        // Whoever still serves the disk has the lock.
        let mut locked = OriginLocked::take(&self.origin, file).map_err(|error| {
            failed(&*error)
                .with_remedy("see that no host has the origin open: a host that does is not gone")
        })?;
        if let (Some(keeping), OriginSpec::Nbd(spec)) = (&self.keeping, &self.origin) {
            keeping
                .expect_anything(spec)
                .map_err(|error| failed(&error))?;
        }
        let epoch = before.epoch + 1;
        let next = Holder {
            host: self.here.clone(),
            epoch,
        };
        let is_next = |found: Option<&Holder>| found == Some(&before);
        let file = locked.file();
        let taken = if lose_dirty {
            file.hand_to_without_dirty(next, is_next)
        } else {
            file.hand_to(next, is_next)
        };
        match taken {
            Ok(true) => {
                if owner.record.open {
                    let (disk, cache, lost_host) = (self.disk, &owner.cache_name, &before.host);
                    tracing::warn!(%disk, cache, lost_host, "an operator has given up what the origin lacks: \
                        the disk goes on as the origin has it");
                }
                Ok(epoch)
            }
            Ok(false) => Err(refused(
                "the owner's record has changed meanwhile".to_owned(),
            )),
            Err(error) => Err(failed(&error)),
        }
    }

    /// The origin may lack bytes.
    fn may_lose(&self, owner: &Owner, before: &Holder) -> Problem {
        let host = &before.host;
        let at_most = self.dirty_max.map_or_else(String::new, |bytes| {
            format!(", up to {bytes} by this host's dirty_max")
        });
        let detail = format!(
            "the cache '{}' of '{host}' may have bytes that the origin lacks{at_most}",
            owner.cache_name
        );
        let remedy = format!(
            "start the daemon of '{host}' with its flash: it serves the disk, or gives it away; if that flash is gone for \
             good, repeat this with --lose-dirty: the disk goes on as the origin has it, an older state that its guest left \
             with one of its flushes"
        );
        Problem::new(ProblemKind::Dirty, detail).with_remedy(remedy)
    }
}
