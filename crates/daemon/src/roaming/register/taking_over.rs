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
use shard::{Holder, Owner, Unreached};
use units::errors::chain;

/// A disk whose origin is locked, and whose record names a host that is gone.
struct Orphan<'a> {
    of: &'a Register,
    locked: OriginLocked,
    owner: Owner,
    before: Holder,
}

/// Lets the records of all disks of a unit name this host in place of one that is gone for good; with `lose_dirty` also
/// where that has bytes which an origin lacks. Returns the new epoch. Nothing is written before every disk may be taken.
///
/// # Errors
/// If that host may have bytes that an origin lacks, an origin is locked or cannot be reached, or no record names another
/// host.
pub(in crate::roaming) fn take_over(
    registers: &[Register],
    lose_dirty: bool,
) -> Result<u64, Problem> {
    let mut orphans = Vec::new();
    let mut last = None;
    let mut epochs = Vec::new();
    for register in registers {
        match register.orphan(lose_dirty) {
            Ok(orphan) => {
                epochs.push(orphan.before.epoch);
                orphans.push(orphan);
            }
            Err(NoOrphan::IsOurs(epoch, problem)) => {
                epochs.extend(epoch);
                last = Some(problem);
            }
            Err(NoOrphan::Refused(problem)) => return Err(problem),
        }
    }
    if let (true, Some(problem)) = (orphans.is_empty(), last) {
        return Err(problem);
    }
    let epoch = epochs.into_iter().max().unwrap_or(0) + 1;
    orphans
        .into_iter()
        .try_for_each(|orphan| orphan.take(epoch, lose_dirty))?;
    Ok(epoch)
}

/// Why a disk is not taken over.
enum NoOrphan {
    /// It need not be: its record names this host, in this epoch, or nobody.
    IsOurs(Option<u64>, Problem),
    Refused(Problem),
}

fn failed(error: &dyn std::error::Error) -> Problem {
    Problem::new(ProblemKind::Origin, chain(error))
}

fn refused(detail: &str) -> Problem {
    Problem::new(ProblemKind::Refused, detail)
}

/// A host that the cluster hears of is not gone.
fn refuse_if_heard_of(host: &str, heard: Result<bool, Unreached>) -> Result<(), Problem> {
    let why = match heard {
        Ok(false) => return Ok(()),
        Ok(true) => format!("'{host}' was heard of in the cluster's store 15 s ago or later"),
        Err(Unreached(why)) => format!("nobody knows whether '{host}' is heard of: {why}"),
    };
    let remedy = format!("see that the daemon of '{host}' has ended, and repeat this after 15 s");
    Err(refused(&why).with_remedy(remedy))
}

impl Orphan<'_> {
    fn take(mut self, epoch: u64, lose_dirty: bool) -> Result<(), Problem> {
        let next = Holder {
            host: self.of.peering.here().to_owned(),
            epoch,
        };
        let before = &self.before;
        let is_next = |found: Option<&Holder>| found == Some(before);
        let file = self.locked.file();
        let taken = if lose_dirty {
            file.hand_to_without_dirty(next, is_next)
        } else {
            file.hand_to(next, is_next)
        };
        match taken {
            Ok(true) if self.owner.record.open => {
                let (disk, cache) = (self.of.disk, &self.owner.cache_name);
                let lost_host = &self.before.host;
                tracing::warn!(%disk, cache, lost_host, "an operator has given up what the origin lacks: \
                    the disk goes on as the origin has it");
                Ok(())
            }
            Ok(true) => Ok(()),
            Ok(false) => Err(refused("the owner's record has changed meanwhile")),
            Err(error) => Err(failed(&error)),
        }
    }
}

impl Register {
    /// The disk, locked, if its record names another host and it may be taken.
    fn orphan(&self, lose_dirty: bool) -> Result<Orphan<'_>, NoOrphan> {
        let file = self.file();
        let owner = file
            .load()
            .map_err(|error| NoOrphan::Refused(failed(&error)))?;
        let Some((owner, before)) =
            owner.and_then(|owner| owner.holder.clone().map(|before| (owner, before)))
        else {
            let why = "no host has the disk: the first that reaches the origin takes it";
            return Err(NoOrphan::IsOurs(None, refused(why)));
        };
        if before.host == self.peering.here() {
            let problem = refused("the owner's record names this host");
            return Err(NoOrphan::IsOurs(Some(before.epoch), problem));
        }
        // It may have gone there while the store was away.
        let next = owner
            .attachment
            .as_ref()
            .and_then(|of| of.may_go_to.clone());
        let next = next.filter(|next| *next != self.peering.here());
        if (owner.record.open || next.is_some()) && !lose_dirty {
            return Err(NoOrphan::Refused(self.may_lose(&owner, &before)));
        }
        if let Some(cluster) = &self.folders.cluster {
            for host in [&before.host].into_iter().chain(&next) {
                let heard = cluster.hears_of(host);
                refuse_if_heard_of(host, heard).map_err(NoOrphan::Refused)?;
            }
        }
        // Whoever still serves the disk has the lock.
        let locked =
            OriginLocked::take_from(&before.host, &self.origin, file).map_err(|error| {
                let problem = failed(&*error);
                NoOrphan::Refused(problem.with_remedy(
                    "see that no host has the origin open: a host that does is not gone",
                ))
            })?;
        if let Some(keeping) = &self.keeping {
            origin::expect_anything(&self.origin, keeping)
                .map_err(|error| NoOrphan::Refused(failed(&error)))?;
        }
        Ok(Orphan {
            of: self,
            locked,
            owner,
            before,
        })
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
            "start the daemon of '{host}' with its flash: it serves the disk, or gives it away, or takes all disks of its VM by this \
             command; if that flash is gone for \
             good, repeat this with --lose-dirty: the disk goes on as the origin has it, an older state that its guest left \
             with one of its flushes"
        );
        Problem::new(ProblemKind::Dirty, detail).with_remedy(remedy)
    }
}
