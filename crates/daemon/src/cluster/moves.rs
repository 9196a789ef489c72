//! Moves of the cluster, for an operator at this host.

use super::Cluster;
use super::driven::Driven;
use super::view::View;
use api::cluster::{
    ClusterMove, ClusterMoves, ClusterStatus, MoveFound, MoveHost, MoveLimits, MovePlan,
};
use api::problem::ProblemKind;
use api::types::Problem;
use executor::{
    Answers, AtTarget, HostAnswer, MoveError, Planned, Recorded, Said, Settings, SettingsChange,
    all, all_planned, approve, begin, cancel, change_settings, clear, planned_of, read_settings,
    set_pace,
};
use placement::Name;
use std::sync::Arc;
use units::errors::chain;

/// Where an operator looks at moves, and has them begun and ended.
pub(crate) struct MoveBook {
    cluster: Cluster,
    me: Name,
    view: Arc<View>,
    driven: Arc<Driven>,
}

fn failed(error: &MoveError) -> Problem {
    let kind = match error {
        MoveError::Store(_) => ProblemKind::Failed,
        MoveError::None(_) => ProblemKind::NoSuchDisk,
        MoveError::Key(_) => ProblemKind::Invalid,
        MoveError::UnderWay { .. } | MoveError::Stage { .. } | MoveError::Contended(_) => {
            ProblemKind::Refused
        }
    };
    Problem::new(kind, chain(error)).with_remedy(error.remedy())
}

fn refused(detail: String, remedy: &str) -> Problem {
    Problem::new(ProblemKind::Refused, detail).with_remedy(remedy)
}

impl MoveBook {
    pub(super) fn new(
        cluster: Cluster,
        me: Name,
        (view, driven): (Arc<View>, Arc<Driven>),
    ) -> Self {
        Self {
            cluster,
            me,
            view,
            driven,
        }
    }

    /// Every VM's last move, with the mode and the limits.
    ///
    /// # Errors
    /// If the store does not answer.
    pub(crate) async fn list(&self) -> Result<ClusterMoves, Problem> {
        let store = &*self.cluster.store;
        let moves = all(store).await.map_err(|error| failed(&error.into()))?;
        let planned = all_planned(store).await;
        let planned = planned.map_err(|error| failed(&error.into()))?;
        let settings = self.settings().await?;
        let answers = Answers::all(store).await;
        let answers = answers.map_err(|error| failed(&error.into()))?;
        let shown = moves.iter().map(|one| shown(one, &planned, &answers));
        Ok(ClusterMoves {
            mode: settings.mode.word().to_owned(),
            limits: MoveLimits {
                outbound: settings.limits.outbound,
                arrivals: settings.limits.arrivals,
                cluster: settings.limits.cluster,
            },
            moves: shown.collect(),
        })
    }

    /// A VM's last move.
    ///
    /// # Errors
    /// If there is none, or the store does not answer.
    pub(crate) async fn show(&self, vm: &str) -> Result<ClusterMove, Problem> {
        let store = &*self.cluster.store;
        let found = executor::read(store, vm).await;
        let found = found.map_err(|error| failed(&error))?;
        let found = found.ok_or_else(|| failed(&MoveError::None(vm.to_owned())))?;
        self.shown_alone(&found).await
    }

    /// Begins a move of a VM, approved.
    ///
    /// # Errors
    /// If the VM is at no one host, the target is not heard of or does not list its disks, the VM is on its way, or the
    /// store does not answer.
    pub(crate) async fn start(&self, vm: &str, to: &str) -> Result<ClusterMove, Problem> {
        let name = |text: &str| {
            let name = Name::new(text);
            name.map_err(|error| Problem::new(ProblemKind::Invalid, error.to_string()))
        };
        let status = self.view.look().await;
        if let Some(problem) = status.store.problem {
            let problem = Problem::new(ProblemKind::Failed, problem);
            return Err(problem.with_remedy(status.store.remedy.unwrap_or_default()));
        }
        let from = way_of(&status, vm, to)?;
        let (of, from, to) = (name(vm)?, name(&from)?, name(to)?);
        let store = &*self.cluster.store;
        let begun = begin(store, &of, (&from, &to), None).await;
        begun.map_err(|error| failed(&error))?;
        self.approve(vm).await
    }

    /// Lets a VM's migration send so many bytes a second, for a minute if nobody says so again.
    ///
    /// # Errors
    /// If that is none, or the store does not answer.
    pub(crate) async fn pace(&self, vm: &str, bytes: u64) -> Result<(), Problem> {
        if bytes == 0 {
            let detail = "a migration that sends nothing does not end";
            return Err(Problem::new(ProblemKind::Invalid, detail));
        }
        let set = set_pace(&*self.cluster.store, vm, bytes).await;
        set.map_err(|error| failed(&error))
    }

    /// Approves a planned move.
    ///
    /// # Errors
    /// If there is none, or the store does not answer.
    pub(crate) async fn approve(&self, vm: &str) -> Result<ClusterMove, Problem> {
        // Before its driver sees the record.
        self.driven.asked(vm);
        let approved = approve(&*self.cluster.store, &self.me, vm).await;
        if approved.is_err() {
            self.driven.asked_in_vain(vm);
        }
        self.shown_alone(&approved.map_err(|error| failed(&error))?)
            .await
    }

    /// Cancels a move.
    ///
    /// # Errors
    /// If there is none, it is too late, or the store does not answer.
    pub(crate) async fn cancel(&self, vm: &str) -> Result<ClusterMove, Problem> {
        let cancelled = cancel(&*self.cluster.store, &self.me, vm).await;
        self.shown_alone(&cancelled.map_err(|error| failed(&error))?)
            .await
    }

    /// Clears a move that has failed.
    ///
    /// # Errors
    /// If it has not, or the store does not answer.
    pub(crate) async fn clear(&self, vm: &str) -> Result<ClusterMove, Problem> {
        let cleared = clear(&*self.cluster.store, &self.me, vm).await;
        self.shown_alone(&cleared.map_err(|error| failed(&error))?)
            .await
    }

    /// What operators have set for the cluster.
    ///
    /// # Errors
    /// If the store does not answer.
    pub(crate) async fn settings(&self) -> Result<Settings, Problem> {
        let settings = read_settings(&*self.cluster.store).await;
        settings.map_err(|error| failed(&error))
    }

    /// Changes that.
    ///
    /// # Errors
    /// If the change makes no sense, or the store does not answer.
    pub(crate) async fn set(&self, change: &SettingsChange) -> Result<Settings, Problem> {
        if let Some(fault) = change.fault() {
            return Err(Problem::new(ProblemKind::Invalid, fault));
        }
        let store = &*self.cluster.store;
        let changed = change_settings(store, |settings| change.apply(settings)).await;
        changed.map_err(|error| failed(&error))
    }

    async fn shown_alone(&self, of: &Recorded) -> Result<ClusterMove, Problem> {
        let (store, vm) = (&*self.cluster.store, of.record.vm.as_str());
        let planned = planned_of(store, vm)
            .await
            .map_err(|error| failed(&error))?;
        let answers = Answers::of(store, vm)
            .await
            .map_err(|error| failed(&error))?;
        Ok(shown(of, &planned, &answers))
    }
}

/// A move as it is told of.
fn shown(of: &Recorded, planned: &[(store::Revision, Planned)], answers: &Answers) -> ClusterMove {
    let record = &of.record;
    let hosts = [&record.from, &record.to];
    let hosts = hosts.map(|host| host_of(host, answers.get(&record.vm, host)));
    let since = placement::instant_of_seconds(crate::system::seconds_since_1970());
    ClusterMove {
        vm: record.vm.to_string(),
        from: record.from.to_string(),
        to: record.to.to_string(),
        stage: record.stage.word().to_owned(),
        is_final: record.stage.is_final(),
        cause: record.stage.cause().map(|cause| cause.words().to_owned()),
        for_seconds: since.since(record.since).to_std().as_secs_f64(),
        driver: record.driver.as_ref().map(ToString::to_string),
        step: record.step,
        hosts: hosts.into(),
        planned: executor::plan_of(record, planned).map(plan),
    }
}

/// Where a VM is, if all its disks are there and it can go where it is to go.
fn way_of(status: &ClusterStatus, vm: &str, to: &str) -> Result<String, Problem> {
    let disks: Vec<_> = status.disks.iter().filter(|disk| disk.vm == vm).collect();
    let mut at = disks.iter().filter_map(|disk| disk.host.as_deref());
    let Some(from) = at.next() else {
        let detail = format!("no host has a disk of a VM '{vm}' attached");
        return Err(Problem::new(ProblemKind::NoSuchDisk, detail)
            .with_remedy("hearth cluster status lists the VMs"));
    };
    if let Some(other) = at.find(|other| *other != from) {
        let detail = format!("disks of the VM '{vm}' are at {from} and at {other}");
        return Err(refused(detail, "hearth migrate show VM at both hosts"));
    }
    if from == to {
        let detail = format!("the VM '{vm}' is at {to} already");
        return Err(refused(detail, "name another host: hearth cluster status"));
    }
    if status.hosts.iter().all(|host| host.name != to) {
        let detail = format!("the host {to} is not heard of");
        return Err(refused(
            detail,
            "hearth cluster status lists the hosts that are",
        ));
    }
    let lacks = disks
        .iter()
        .find(|disk| disk.lists.iter().all(|host| host != to));
    if let Some(disk) = lacks {
        let detail = format!("the host {to} does not list the disk '{}'", disk.name);
        return Err(refused(
            detail,
            "write the disk, with its id, in that host's configuration",
        ));
    }
    Ok(from.to_owned())
}

fn host_of(host: &Name, said: Option<&Said>) -> MoveHost {
    let mut of = MoveHost {
        host: host.to_string(),
        problem: None,
        warm_percent: None,
        migrates: None,
        left_bytes: None,
        dirty_bytes_per_second: None,
    };
    let Some(said) = said else {
        return of;
    };
    of.problem = said.answer.problem().map(str::to_owned);
    match &said.answer {
        HostAnswer::Source(source) => {
            of.migrates = Some(source.migrates);
            of.left_bytes = source.left.map(|left| left.bytes);
            of.dirty_bytes_per_second = source.left.map(|left| left.dirty_per_second);
        }
        HostAnswer::Target(AtTarget { warm_percent, .. }) => of.warm_percent = Some(*warm_percent),
        _ => {}
    }
    of
}

fn plan(of: &Planned) -> MovePlan {
    let Planned {
        proposed, found, ..
    } = of;
    let expected = &proposed.expected;
    MovePlan {
        at_s: of.at_s,
        load: proposed.why.load,
        load_max: proposed.why.load_max,
        windows: proposed.why.windows,
        demand_bytes: proposed.demand.get(),
        dirty_bytes: proposed.dirty.get(),
        source_load: expected.source.load_after,
        target_load: expected.target.load_after,
        vm_hits: expected.vm_hits,
        transfer_seconds: expected.transfer_s,
        gain_seconds: expected.gain_s,
        cost_seconds: expected.cost_s,
        found: found.map(|found| MoveFound {
            demand_bytes: found.demand_found_bytes,
            hits: found.hits_found,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::cluster::{ClusterDisk, ClusterHost, HostSays, StoreState};

    fn status(disks: &[(&str, Option<&str>, &[&str])]) -> ClusterStatus {
        let host = |name: &str| ClusterHost {
            name: name.to_owned(),
            says: HostSays::default(),
        };
        let disk = |(vm, host, lists): &(&str, Option<&str>, &[&str])| ClusterDisk {
            name: "d".to_owned(),
            vm: (*vm).to_owned(),
            host: host.map(str::to_owned),
            lists: lists.iter().map(|&host| host.to_owned()).collect(),
            ..ClusterDisk::default()
        };
        ClusterStatus {
            cluster: "main".to_owned(),
            here: "a".to_owned(),
            store: StoreState {
                kind: "file".to_owned(),
                answers: true,
                problem: None,
                remedy: None,
                age_seconds: None,
            },
            hosts: vec![host("a"), host("b")],
            disks: disks.iter().map(disk).collect(),
        }
    }

    #[test]
    fn a_vm_goes_from_where_all_its_disks_are_to_a_host_that_lists_them() {
        let both: &[&str] = &["a", "b"];
        let is_right = status(&[("v", Some("a"), both)]);
        assert_eq!(way_of(&is_right, "v", "b").unwrap(), "a");
        for (disks, to, why) in [
            (vec![("w", Some("a"), both)], "b", "no host has a disk"),
            (vec![("v", None, both)], "b", "no host has a disk"),
            (
                vec![("v", Some("a"), both), ("v", Some("b"), both)],
                "b",
                "are at a and at b",
            ),
            (vec![("v", Some("b"), both)], "b", "at b already"),
            (vec![("v", Some("a"), both)], "c", "not heard of"),
            (vec![("v", Some("a"), &["a"][..])], "b", "does not list"),
        ] {
            let problem = way_of(&status(&disks), "v", to).unwrap_err();
            assert!(problem.detail.contains(why), "{}", problem.detail);
        }
    }
}
