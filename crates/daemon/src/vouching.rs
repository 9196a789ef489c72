//! An operator's word that no other host has a disk, taken while the cluster's store is away.
//!
//! What holds of the record that is owed to the store then is in `shard::owners`.

use super::answers;
use super::opening::Opener;
use super::registry::{Entry, Phase};
use super::remembered::Remembered;
use super::shards::{Pulse, Shards};
use api::problem::ProblemKind;
use api::types::Problem;
use configuration::WritePolicy;
use shard::{OwnerFile, Vouched};

/// What takes the word.
#[derive(Clone, Copy)]
pub(super) struct Vouching<'a> {
    pub(super) opener: &'a Opener,
    pub(super) shards: &'a Shards,
    pub(super) remembered: &'a Remembered,
}

impl Vouching<'_> {
    /// Attaches a disk that is reserved, by an operator's word. One that is to be under write-back is written through until
    /// the store has its record; the reason is given.
    pub(super) async fn attach(self, entry: &Entry) -> Result<(Phase, Option<Problem>), Problem> {
        let vouched = self.vouch(entry).await?;
        let problem = match self.open(entry).await {
            Ok(attached) => return Ok(attached),
            Err(problem) => problem,
        };
        if vouched == Vouched::Written {
            self.opener.ask_record(entry, OwnerFile::unvouch).await?;
        }
        Err(problem)
    }

    async fn open(self, entry: &Entry) -> Result<(Phase, Option<Problem>), Problem> {
        let policy = entry.config.write_policy;
        let why = match self.opener.open_and_attach(entry, policy).await {
            Ok(phase) => return Ok((phase, None)),
            Err(unattached) if unattached.is_unrecorded && policy == WritePolicy::Back => {
                unattached.problem
            }
            Err(unattached) => return Err(unattached.problem),
        };
        let through = self.opener.open_and_attach(entry, WritePolicy::Through);
        let phase = through.await.map_err(|unattached| unattached.problem)?;
        Ok((phase, Some(why)))
    }

    /// Writes an operator's word down, if it is needed.
    pub(super) async fn vouch(self, entry: &Entry) -> Result<Vouched, Problem> {
        let name = &entry.config.name;
        let refused = |detail: String| Problem::new(ProblemKind::Refused, detail);
        let plainly = "attach it without --without-store";
        if entry.config.moves() {
            let detail = format!("'{name}' roams, and its hand-over needs the record in the store");
            return Err(
                refused(detail).with_remedy("see that the store of [store] runs and is reached")
            );
        }
        if entry.config.is_only_read() {
            let detail =
                format!("'{name}' is only read: it has no record that the store could lack");
            return Err(refused(detail).with_remedy(plainly));
        }
        if self.remembered.dir().folders().cluster.is_none() {
            let detail = "this host is in no cluster: there is no [store] in its configuration";
            return Err(refused(detail.to_owned()).with_remedy(plainly));
        }
        let opener = self.opener;
        let known = opener.ask_record(entry, |owner| {
            Ok((owner.is_in_cluster(), owner.is_had_here()?))
        });
        let (is_in_cluster, is_had_here) = known.await?;
        if !is_in_cluster {
            let detail = format!("the origin of '{name}' is a file, and its record is beside it");
            return Err(refused(detail).with_remedy(plainly));
        }
        if !is_had_here {
            self.refuse_dirty(entry).await?;
        }
        let vouched = opener.ask_record(entry, OwnerFile::vouch).await?;
        match vouched {
            Vouched::Answered => {
                let detail = format!("the cluster's store answers, and says who has '{name}'");
                return Err(refused(detail).with_remedy(plainly));
            }
            Vouched::Written => {
                tracing::warn!(disk = %name, "attached by an operator's word, without the cluster's store");
            }
            Vouched::Needless => {}
        }
        Ok(vouched)
    }

    /// Refuses a disk of which the flash has a log that the store alone can judge.
    async fn refuse_dirty(self, entry: &Entry) -> Result<(), Problem> {
        let name = &entry.config.name;
        let kept = match self.shards.of(entry)?.pulse().await {
            Pulse::Status(status) => {
                answers::kept(entry, &status, &self.remembered.dir().folders())
            }
            Pulse::Opening | Pulse::Silent => None,
        };
        let what = match kept {
            Some(kept) if kept.dirty_bytes == 0 && kept.locked.is_none() => return Ok(()),
            Some(_) => "its flash has bytes of it that the origin may lack",
            None => "it is not known whether its flash has bytes of it that the origin lacks",
        };
        let detail = format!("'{name}' is not attached without the cluster's store: {what}");
        Err(Problem::new(ProblemKind::Dirty, detail).with_remedy(
            "see that the store of [store] runs and is reached: it says whether they count",
        ))
    }
}
