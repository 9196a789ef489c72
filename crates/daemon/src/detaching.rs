//! How a disk goes: taken from its shard, or forgotten while it waits.
//!
//! Of a disk that waits nothing is known but what its flash says: its origin was not reached, and the
//! owner's record was not read under its lock. So it is only forgotten. Dirty log, owner's record and
//! data key stay, for the next attach or for `hearth recover`; what would need the origin, or destroy
//! one of them, is refused.

use super::control::Control;
use super::debts;
use super::keys;
use super::opening::Unattached;
use super::problems::{not_ready, on_its_way, problem, stands_by};
use super::registry::{Entry, Phase};
use super::traces::step;
use api::problem::ProblemKind;
use api::types::{DiskStatus, Problem};
use api::write_back::OfDirty;
use configuration::Name;
use events::EventKind;
use shard::ShardError;
use std::path::Path;
use std::time::{Duration, Instant};
use telemetry::Parent;

/// How long a detach without force waits for clients that are about to leave.
const GOODBYE_TIME_MAX: Duration = Duration::from_secs(2);
/// How often it looks.
const GOODBYE_LOOK: Duration = Duration::from_millis(50);

impl Control {
    /// Detaches a disk; without `force` only if no client uses it. With `erase` its data key goes,
    /// too. A disk that waits is only forgotten. Returns its last state.
    ///
    /// # Errors
    /// If there is no such disk, clients use it, it is on its way already, or it waits and more is
    /// asked for than to forget it.
    pub async fn detach(
        &self,
        name: &Name,
        force: bool,
        dirty: OfDirty,
        erase: bool,
    ) -> Result<DiskStatus, Problem> {
        self.refuse_when_stopping()?;
        let entry = self.registry().entry(name)?;
        if entry.config.moves() {
            let detail = format!("'{name}' roams, and a peer may claim it at any time");
            return Err(Problem::new(ProblemKind::Refused, detail)
                .with_remedy("take it out of the configuration and restart the daemon"));
        }
        let last = self.observer().look(&entry).await;
        match &entry.phase {
            Phase::Waiting { why } => {
                let owed = debts::settle_at_rest(self, &entry).await?;
                self.forget(&entry, why, dirty, erase)?;
                if owed {
                    self.opener().release(&entry).await;
                }
                let dirty_bytes = last.kept.as_ref().map(|kept| kept.dirty_bytes);
                tracing::info!(event = EventKind::DiskDetached.word(),
                    disk = %name, dirty_bytes, "a disk that waited is forgotten");
            }
            Phase::Attached { .. } => {
                debts::settle_before_detach(self, &entry).await?;
                // Where the list cannot be written, nothing is let go that would be back after a restart.
                self.remembered().write_disks(self.registry())?;
                self.part(&entry, force, dirty).await?;
                if let Err(problem) = self.remembered().write_disks(self.registry()) {
                    return Err(take_back(self, entry, problem).await);
                }
                if erase {
                    keys::erase(entry.id, self.remembered().dir().path())?;
                }
            }
            Phase::Standby { .. } => return Err(stands_by(name)),
            Phase::Attaching | Phase::Forgetting { .. } | Phase::Detaching { .. } => {
                return Err(on_its_way(name));
            }
        }
        Ok(last)
    }

    /// Forgets a disk that waits, if nothing else is asked for.
    fn forget(
        &self,
        entry: &Entry,
        why: &Problem,
        dirty: OfDirty,
        erase: bool,
    ) -> Result<(), Problem> {
        let name = &entry.config.name;
        let flash = &self.shards().of(entry)?.config().path;
        if let Some(remedy) = only_forgotten(name, flash, dirty, erase) {
            return Err(not_ready(name, why).with_remedy(remedy));
        }
        if !self.registry().forget(entry) {
            return Err(on_its_way(name));
        }
        if let Err(problem) = self.remembered().write_disks(self.registry()) {
            let why = why.clone();
            self.registry().set_phase(entry, Phase::Waiting { why });
            return Err(problem);
        }
        self.registry().remove(entry);
        self.disk_sockets().settle_disk(name);
        Ok(())
    }

    /// Takes an attached disk from its shard, when no client uses it any more.
    async fn part(&self, entry: &Entry, force: bool, dirty: OfDirty) -> Result<(), Problem> {
        let name = &entry.config.name;
        let Phase::Attached { geometry } = entry.phase else {
            return Err(on_its_way(name));
        };
        let begin = |entry: &mut Entry| {
            let may = matches!(entry.phase, Phase::Attached { .. });
            if may {
                entry.phase = Phase::Detaching { geometry };
            }
            may
        };
        if !self.registry().change(entry, begin) {
            return Err(on_its_way(name));
        }
        // Unless it was let go meanwhile, because its lock was lost.
        let stay = || {
            self.registry().change(entry, |entry| {
                let is_leaving = matches!(entry.phase, Phase::Detaching { .. });
                if is_leaving {
                    entry.phase = Phase::Attached { geometry };
                }
                is_leaving
            })
        };
        if !force && !self.is_deserted(entry).await {
            stay();
            return Err(Problem::new(
                ProblemKind::Busy,
                format!("clients are connected to '{name}'"),
            )
            .with_remedy(format!(
                "detach it from its VM, or cut it off: hearth disk detach {name} --force"
            )));
        }
        let gone = self.let_go(entry, dirty).await;
        if gone.is_err() && stay() {
            // It is served as before.
            self.disk_sockets().settle_disk(name);
        }
        gone
    }

    /// Whether no client is connected to a disk, or none is within a moment.
    async fn is_deserted(&self, entry: &Entry) -> bool {
        let _span = Parent::here().child("clients leave");
        let deadline = Instant::now() + GOODBYE_TIME_MAX;
        while self.observer().look(entry).await.connections > 0 {
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(GOODBYE_LOOK).await;
        }
        true
    }

    /// Takes a disk from its shard and forgets it.
    pub(super) async fn let_go(&self, entry: &Entry, dirty: OfDirty) -> Result<(), Problem> {
        let name = &entry.config.name;
        let id = entry.id;
        self.disk_sockets().settle_disk(name);
        let shard = self.shards().of(entry)?;
        let detaching = shard.ask(|handle, reply| handle.detach(id, of_dirty(dirty), reply));
        let detached = step("cache detach", detaching).await;
        match detached {
            Ok(()) | Err(ShardError::NoSuchDisk) => {
                self.opener().settle_origin(entry, false).await;
                debts::give_up_debt(self, entry).await;
                self.opener().release(entry).await;
                self.registry().remove(entry);
                // There may be room for one that had none.
                self.try_waiting();
                Ok(())
            }
            Err(error) => {
                let why = problem(name, &error);
                if error == ShardError::FlushGivenUp {
                    // Whoever watches its lock has it attached again.
                    let why = why.clone();
                    self.registry().set_phase(entry, Phase::Waiting { why });
                }
                Err(why)
            }
        }
    }
}

/// Attaches a disk anew that was let go and cannot be taken off the list. Returns why it cannot.
async fn take_back(control: &Control, mut entry: Entry, why: Problem) -> Problem {
    let name = entry.config.name.clone();
    entry.phase = Phase::Attaching;
    let Ok(entry) = control.registry().reserve(entry) else {
        // Somebody has attached it meanwhile.
        return why;
    };
    control
        .tenancies()
        .tell_of(&entry.config, &entry.cache)
        .await;
    match control
        .opener()
        .open_and_attach(&entry, entry.config.write_policy)
        .await
    {
        Ok(phase) => {
            control.registry().set_phase(&entry, phase);
            control.disk_sockets().settle_disk(&name);
            tracing::warn!(event = EventKind::DiskStays.word(),
                disk = %name, reason = why.in_a_line(), "a disk stays attached");
            why
        }
        Err(Unattached { problem, .. }) => {
            control.registry().remove(&entry);
            let reason = problem.in_a_line();
            tracing::error!(event = EventKind::DiskStays.word(),
                disk = %name, reason, "a disk is detached, and is back after a restart");
            Problem::new(
                ProblemKind::Failed,
                format!(
                    "'{name}' is detached, and is back after a restart: {}",
                    why.detail
                ),
            )
            .with_remedy("make room in the state directory, then attach and detach it once more")
        }
    }
}

/// What to do instead if more is asked of a disk that waits than to forget it.
fn only_forgotten(name: &Name, flash: &Path, dirty: OfDirty, erase: bool) -> Option<String> {
    let flash = flash.display();
    let keeps = "without these flags it is only forgotten, and what its flash has stays";
    match dirty {
        OfDirty::Flush => Some(format!(
            "repeat the command when it is attached; or stop the daemon: hearth recover destage {flash} --disk {name}; {keeps}"
        )),
        OfDirty::Drop => Some(format!(
            "repeat the command when it is attached; or stop the daemon: hearth recover drop {flash} --disk {name} --yes-lose-data; {keeps}"
        )),
        OfDirty::Refuse | OfDirty::Keep if erase => Some(format!(
            "repeat the command when it is attached: the key may be all that opens bytes which the origin lacks; to save them stop the daemon: hearth recover export {flash} --disk {name} --to FILE; {keeps}"
        )),
        OfDirty::Refuse | OfDirty::Keep => None,
    }
}

/// The same to the cache.
const fn of_dirty(dirty: OfDirty) -> cache::OfDirty {
    match dirty {
        OfDirty::Refuse => cache::OfDirty::Refuse,
        OfDirty::Flush => cache::OfDirty::Flush,
        OfDirty::Keep => cache::OfDirty::Keep,
        OfDirty::Drop => cache::OfDirty::Drop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_waits_is_forgotten_and_nothing_else() {
        let name = "web".parse().unwrap();
        let remedy = |dirty, erase| only_forgotten(&name, Path::new("/flash"), dirty, erase);
        assert_eq!(remedy(OfDirty::Refuse, false), None);
        assert_eq!(remedy(OfDirty::Keep, false), None);
        for (dirty, erase, verb) in [
            (OfDirty::Flush, false, "recover destage /flash"),
            (OfDirty::Flush, true, "recover destage /flash"),
            (OfDirty::Drop, false, "recover drop /flash"),
            (OfDirty::Drop, true, "recover drop /flash"),
            (OfDirty::Refuse, true, "recover export /flash"),
            (OfDirty::Keep, true, "recover export /flash"),
        ] {
            let said = remedy(dirty, erase).unwrap();
            assert!(said.contains(verb), "{said}");
        }
    }
}
