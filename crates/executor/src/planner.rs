//! One host plans for the cluster: the one that has `leader/balance`.

use crate::clock::now;
use crate::error::MoveError;
use crate::loads::{Loads, fleet, loads};
use crate::planned::{Planned, all_planned};
use crate::records::{Recorded, all, approve, begin, forget};
use crate::settings::{Settings, read_settings};
use placement::moving::Stage;
use placement::{Finding, FleetReport, HostLoad, Name, Plan, Proposed};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::{Compare, Exclusive, Revision, Store, StoreError, keys};
use units::Instant;

/// For how long the planner is it without saying so again.
const LEADS_FOR: Duration = Duration::from_secs(15);
/// How often it says so.
const SAYS_EVERY: Duration = Duration::from_secs(5);
/// After how many of these it plans.
const PLANS_EACH: u32 = 2;
/// How long after a move its target has to publish a load of it that counts.
const FOUND_AFTER: units::Duration = units::Duration::from_secs(600);
/// How long the record of a move that went as planned, or was rolled back, is kept where the VM does not move again.
const KEPT_FOR: units::Duration = units::Duration::from_secs(30 * 24 * 3600);

/// Who is told what a planner sees.
pub trait PlannerSays: Send + Sync {
    /// This host plans from now on, or does not any more.
    fn leads(&self, leads: bool);
    /// This host has made a plan, by the settings' rules. Called with each plan, most are as the one before.
    fn planned(&self, plan: &Plan);
}

/// This host as one that may plan.
pub struct Planner {
    store: Arc<dyn Store>,
    me: Name,
    leads: Arc<AtomicBool>,
    says: Arc<dyn PlannerSays>,
}

impl Planner {
    /// It plans when it has `leader/balance`, and says so in `leads`.
    pub fn new(
        store: Arc<dyn Store>,
        me: Name,
        leads: Arc<AtomicBool>,
        says: Arc<dyn PlannerSays>,
    ) -> Self {
        Self {
            store,
            me,
            leads,
            says,
        }
    }

    /// Plans for as long as this runs and this host has the key.
    pub async fn keep(self) {
        let value = self.me.as_str().as_bytes().to_vec();
        let mut place = Exclusive::new(keys::leader(), value, LEADS_FOR);
        let mut round = 0;
        loop {
            let held = place.hold(&*self.store).await.unwrap_or_else(|error| {
                tracing::debug!(%error, "nobody knows who plans");
                None
            });
            let leads = held.is_some();
            if self.leads.swap(leads, Ordering::Relaxed) != leads {
                self.says.leads(leads);
            }
            if let Some(held) = held {
                if round % PLANS_EACH == 0
                    && let Err(error) = self.plan(&held).await
                {
                    tracing::debug!(%error, "nothing is planned");
                }
                round = round.wrapping_add(1);
            }
            tokio::time::sleep(SAYS_EVERY).await;
        }
    }

    /// Plans once, and does with the plan what the mode says.
    pub(crate) async fn plan(&self, held: &Compare) -> Result<(), MoveError> {
        let store = &*self.store;
        let settings = read_settings(store).await?;
        let seen = Seen::look(store).await?;
        self.compare(&seen).await?;
        for old in seen.moves.iter().filter(|one| is_old(one, now())) {
            forget(store, old).await?;
        }
        if settings.mode.approves_by_itself() {
            let planned = |one: &&Recorded| one.record.stage == Stage::Planned;
            for one in seen.moves.iter().filter(planned) {
                approve(store, &self.me, one.record.vm.as_str()).await?;
            }
        }
        if !settings.mode.plans() {
            return Ok(());
        }
        let Some(plan) = planned_for(seen.fleet(&settings), &settings) else {
            return Ok(());
        };
        self.says.planned(&plan);
        if settings.mode.records_moves() {
            for proposed in plan.moves {
                self.record(proposed, &settings, held).await?;
            }
        }
        Ok(())
    }

    /// Records a planned move while this host plans, and approves it where nobody has to.
    async fn record(
        &self,
        proposed: Proposed,
        settings: &Settings,
        held: &Compare,
    ) -> Result<(), MoveError> {
        let store = &*self.store;
        let (vm, way) = (&proposed.vm, (&proposed.from, &proposed.to));
        let recorded = match begin(store, vm, way, Some(held)).await {
            Ok(recorded) => recorded,
            // An operator was faster, or another host plans.
            Err(MoveError::UnderWay { .. } | MoveError::Contended(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let vm = proposed.vm.clone();
        let planned = Planned {
            step: recorded.record.step,
            at_s: recorded.record.since.as_nanos() / 1_000_000_000,
            proposed,
            found: None,
            found_at_s: None,
        };
        planned.put(store, None).await?;
        if settings.mode.approves_by_itself() {
            approve(store, &self.me, vm.as_str()).await?;
        }
        Ok(())
    }

    /// Compares moves that are done with what their targets publish.
    async fn compare(&self, seen: &Seen) -> Result<(), MoveError> {
        let now = now();
        for (revision, planned) in seen.planned.iter().filter(|(_, of)| of.found.is_none()) {
            let Some(compared) = seen.found(planned, now) else {
                continue;
            };
            let found = Planned {
                found: Some(compared.compared),
                found_at_s: Some(now.as_nanos() / 1_000_000_000),
                ..planned.clone()
            };
            found.put(&*self.store, Some(*revision)).await?;
        }
        Ok(())
    }
}

/// What the store has for a plan.
pub(crate) struct Seen {
    loads: Loads,
    moves: Vec<Recorded>,
    planned: Vec<(Revision, Planned)>,
}

impl Seen {
    pub(crate) async fn look(store: &dyn Store) -> Result<Self, StoreError> {
        Ok(Self {
            loads: loads(store).await?,
            moves: all(store).await?,
            planned: all_planned(store).await?,
        })
    }

    pub(crate) fn fleet(&self, settings: &Settings) -> FleetReport {
        fleet(&self.loads, &self.moves, &self.planned, settings, now())
    }

    /// What the target of a planned move has found, if the move is done for long enough.
    fn found(&self, planned: &Planned, now: Instant) -> Option<Finding> {
        let of = &planned.proposed;
        let done = self.moves.iter().find(|one| {
            let record = &one.record;
            // Each stage raises the step, and the VM's next move begins behind all of them.
            record.vm == of.vm && record.step > planned.step && record.stage == Stage::Done
        })?;
        let record = &done.record;
        let is_it = record.to == of.to && record.from == of.from;
        if !is_it || now.since(record.since) < FOUND_AFTER {
            return None;
        }
        let (_, report) = self.loads.get(of.to.as_str())?;
        let target = HostLoad::try_from(report.clone()).ok()?;
        Finding::of(of, &target, now)
    }
}

/// What a plan for the cluster is made of now: the loads of its hosts, the moves under way, what moves have found, and
/// which VMs operators have pinned.
///
/// # Errors
/// If the store does not answer.
pub async fn loads_of_cluster(store: &dyn Store) -> Result<FleetReport, MoveError> {
    let settings = read_settings(store).await?;
    Ok(Seen::look(store).await?.fleet(&settings))
}

/// The plan by the settings' rules, or none if the loads make no fleet.
fn planned_for(report: FleetReport, settings: &Settings) -> Option<Plan> {
    let at = report.at();
    let rules = settings.rules.rules();
    let told = |error: &dyn std::error::Error| {
        tracing::warn!(
            error = units::errors::chain(error),
            "nothing is planned for the cluster"
        );
    };
    let rules = rules.inspect_err(|error| told(error)).ok()?;
    let fleet = report.into_fleet().inspect_err(|error| told(error)).ok()?;
    Some(placement::plan(&fleet, &rules, at))
}

fn is_old(of: &Recorded, now: Instant) -> bool {
    let is_ended = matches!(of.record.stage, Stage::Done | Stage::RolledBack(_));
    is_ended && now.since(of.record.since) > KEPT_FOR
}
