//! The disks of a VM, as a move needs them.

use crate::control::Control;
use crate::orders::{Obeyed, Order};
use api::roaming::{MovePhase, RoamingDisk, RoamingRole};
use configuration::Name;
use std::sync::Arc;
use telemetry::Parent;
use units::number::count_near;

/// The VM's disks at this host.
pub(super) struct VmDisks {
    control: Arc<Control>,
    vm: Name,
}

/// Why disks cannot be used so.
pub(super) struct Why(pub(super) String);

/// What ends by itself, as when a host was restarted: see the codes of `hearth migrate check`.
const PASSES: [&str; 7] = [
    "busy",
    "cache-opens",
    "cache-silent",
    "in-doubt",
    "link-down",
    "peer-not-ready",
    "peer-silent",
];

/// Why a hand-over would not be right now.
pub(super) enum Unready {
    /// It may be soon.
    Yet(Why),
    /// An operator has to do something.
    Wrong(Why),
}

impl VmDisks {
    pub(super) fn new(control: Arc<Control>, vm: Name) -> Self {
        Self { control, vm }
    }

    /// The disks that roam; never none.
    pub(super) async fn all(&self) -> Result<Vec<RoamingDisk>, Why> {
        let mut all = self.control.observer().roaming().await.disks;
        all.retain(|disk| disk.vm == self.vm);
        if all.is_empty() {
            let vm = &self.vm;
            return Err(Why(format!("no disk of a VM '{vm}' roams here")));
        }
        Ok(all)
    }

    /// Why a hand-over of them to this host would not be right now, if so.
    pub(super) async fn check(&self) -> Result<(), Unready> {
        let checked = self.control.observer().check(&self.vm, None).await;
        let checked = checked.map_err(|problem| Unready::Wrong(Why(problem.detail)))?;
        let of_disk = |disk: &api::roaming::DiskCheck| {
            let reason = disk.reasons.first()?;
            let (name, code, detail) = (&disk.name, &reason.code, &reason.detail);
            let why = Why(format!("{name}: {code}: {detail}"));
            let passes = PASSES.contains(&code.as_str());
            Some(if passes {
                Unready::Yet(why)
            } else {
                Unready::Wrong(why)
            })
        };
        checked.disks.iter().find_map(of_disk).map_or(Ok(()), Err)
    }

    /// The VM comes from this host, if it comes.
    pub(super) async fn expect_from(&self, host: &str) -> Result<(), Why> {
        self.order(|reply| Order::Turn {
            to: host.to_owned(),
            reply,
        })
        .await
    }

    /// Says that the VM is about to come here.
    pub(super) async fn announce(&self) -> Result<(), Why> {
        self.order(|reply| Order::Announce {
            to: None,
            above: Parent::here(),
            reply,
        })
        .await
    }

    /// Says that it does not.
    pub(super) async fn abort(&self) -> Result<(), Why> {
        self.order(Order::Abort).await
    }

    async fn order(&self, order: impl Fn(Obeyed) -> Order) -> Result<(), Why> {
        let why = |problem: api::types::Problem| Why(problem.detail);
        let (entries, roaming) = self.control.observer().roam_all(&self.vm).map_err(why)?;
        for entry in &entries {
            roaming.order(entry, &order).await.map_err(why)?;
        }
        Ok(())
    }
}

/// Whether this host has all of them.
pub(super) fn are_here(disks: &[RoamingDisk]) -> bool {
    disks.iter().all(|disk| disk.role == RoamingRole::Owner)
}

/// Whether everything of them is here.
pub(super) fn are_whole(disks: &[RoamingDisk]) -> bool {
    let is_idle = |disk: &RoamingDisk| {
        let phase = disk.cache_move.as_ref().map(|cache| cache.phase);
        phase == Some(MovePhase::Idle)
    };
    are_here(disks) && disks.iter().all(is_idle)
}

/// How warm this host is for the VM, in percent of the other one: as warm as for the coldest disk.
pub(super) fn warm_percent(disks: &[RoamingDisk]) -> u8 {
    let of_disk = |disk: &RoamingDisk| {
        let Some(cache) = &disk.cache_move else {
            return 0;
        };
        match (cache.phase, cache.expected_hit_ratio) {
            (_, Some(ratio)) => count_near((ratio * 100.0).clamp(0.0, 100.0)),
            // It is not known yet how much there is.
            (MovePhase::Ahead, None) => 0,
            // Nothing is copied ahead, so nothing is waited for.
            (_, None) => 100,
        }
    };
    let least = disks.iter().map(of_disk).min().unwrap_or(0);
    u8::try_from(least).unwrap_or(100)
}
