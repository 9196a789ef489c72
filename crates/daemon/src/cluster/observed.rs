//! What this host has observed of its cluster in this run: each change is an event, and metrics count.
//!
//! ```text
//!   executor::Drivers ─ hosts that are heard of, each VM's move ─┐
//!   executor::Planner ─ this host plans, a plan ─────────────────┼─► State ─┬─► Change ─► a log line, an event
//!   loads ─ what this host says of itself ───────────────────────┘          └─► ClusterNumbers ─► metrics
//! ```
//!
//! The store is not asked for this: it is what others have read there. A move is an event at its hosts, at its driver and
//! at the host that plans, and is counted once in the cluster, by its driver.

mod state;

pub(crate) use state::{ClusterNumbers, Ended, OUTCOMES, ROLES, STAGES};

use super::driven::Driven;
use events::EventKind;
use executor::{FleetSays, PlannerSays, Recorded};
use placement::moving::{Cause, Move, Stage};
use placement::{HostReport, Name, Plan, Proposed, Short};
use state::{Change, State};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What this host has observed.
pub(crate) struct Observed {
    me: Name,
    state: Mutex<State>,
    driven: Arc<Driven>,
}

impl Observed {
    /// Nothing yet. Moves that this host drives are spans of `driven`.
    pub(crate) fn new(me: Name, driven: Arc<Driven>) -> Self {
        Self {
            me,
            driven,
            state: Mutex::default(),
        }
    }

    /// This host says what its VMs want of its flash.
    pub(crate) fn says(&self, report: &HostReport) {
        self.state().says(report);
    }

    /// What metrics tell.
    pub(crate) fn numbers(&self) -> ClusterNumbers {
        self.state().numbers(&self.me, Instant::now())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves a count short at worst.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::HostLost(host) => tracing::warn!(
                    event = EventKind::HostLost.word(),
                    host,
                    remedy = "look at its daemon: systemctl status hearth; its disks stay its own",
                    "a host of the cluster is not heard of any more"
                ),
                Change::HostBack(host) => {
                    let event = EventKind::HostBack.word();
                    tracing::info!(event, host, "a host of the cluster is heard of");
                }
                Change::Short(short) => tell_of_short(&short),
                Change::Enough(host) => {
                    let event = EventKind::FlashEnough.word();
                    tracing::info!(event, %host, "the host has enough flash");
                }
                Change::Planned(moves) => self.tell_of_plan(&moves),
                Change::Moved(kind, record) => tell_of_move(kind, &record),
            }
        }
    }

    fn tell_of_plan(&self, moves: &[Proposed]) {
        let way = |of: &Proposed| format!("{} from {} to {}", of.vm, of.from, of.to);
        let moves = moves.iter().map(way).collect::<Vec<_>>().join(", ");
        tracing::info!(event = EventKind::PlanMade.word(), host = %self.me,
            remedy = "hearth plan --dry-run says why, hearth cluster settings what becomes of it",
            "the plan for the cluster has other moves: {moves}");
    }
}

impl FleetSays for Observed {
    fn saw(&self, heard: &BTreeSet<String>, moves: &[Recorded]) {
        let changes = self.state().saw(&self.me, heard, moves, Instant::now());
        self.tell(changes);
        self.driven.saw(moves);
    }

    fn trace_of(&self, vm: &Name) -> Option<String> {
        self.driven.trace_of(vm)
    }

    fn saw_nothing(&self) {
        self.state().saw_nothing();
    }
}

impl PlannerSays for Observed {
    fn leads(&self, leads: bool) {
        self.state().leads(leads);
        let host = &self.me;
        if leads {
            let event = EventKind::PlannerElected.word();
            tracing::info!(event, %host, "this host plans for the cluster");
        } else {
            let event = EventKind::PlannerGone.word();
            tracing::info!(event, %host, "this host plans for the cluster no more");
        }
    }

    fn planned(&self, plan: &Plan) {
        let changes = self.state().planned(plan, Instant::now());
        self.tell(changes);
    }
}

fn tell_of_short(short: &Short) {
    tracing::warn!(
        event = EventKind::FlashMissing.word(),
        host = %short.host,
        load = short.load,
        missing_bytes = short.missing.get(),
        share_of_need = short.scale,
        remedy = "give the host more flash, its VMs less of it (hearth vm set), or move a VM (hearth move start)",
        "the host lacks {} of flash, and no move helps: the shares of its VMs are scaled", short.missing
    );
}

/// Tells of a stage that a move has come to.
fn tell_of_move(kind: EventKind, record: &Move) {
    let event = kind.word();
    let (vm, from, to) = (&record.vm, &record.from, &record.to);
    let stage = record.stage.word();
    let cause = record.stage.cause().map(Cause::words);
    match record.stage {
        Stage::Failed(_) => tracing::error!(event, %vm, %from, %to, stage, reason = cause,
            remedy = format!("hearth move show {vm}, then hearth move clear {vm}"),
            "the move of the VM has failed"),
        Stage::RolledBack(_) => {
            tracing::warn!(event, %vm, %from, %to, stage, reason = cause, "the VM stays: its move is rolled back");
        }
        Stage::Withdrawing(_) => {
            tracing::warn!(event, %vm, %from, %to, stage, reason = cause, "the move of the VM is withdrawn");
        }
        Stage::Planned => tracing::info!(event, %vm, %from, %to, stage,
            remedy = format!("in the mode approve: hearth move approve {vm}"),
            "a move of the VM is planned"),
        Stage::Done => tracing::info!(event, %vm, %from, %to, stage, "the VM has moved"),
        _ => tracing::info!(event, %vm, %from, %to, stage, "the move of the VM is {stage}"),
    }
}
