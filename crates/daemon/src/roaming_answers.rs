//! The disks that roam, as the admin API tells of them.

use super::answers;
use super::hand_overs::{Seen, View};
use super::peering::Peering;
use super::registry::Entry;
use api::roaming::{
    HandOver, HandOverCount, HandOverOutcome, HeldTime, RoamingDisk, RoamingDisks, RoamingRole,
};
use api::types::DiskStatus;
use handoff::Role;
use shard::Histogram;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::DiskId;

/// Where operators look at disks that roam.
pub(super) struct RoamingAnswers {
    peering: Peering,
    disks: BTreeMap<DiskId, Arc<Seen>>,
}

impl RoamingAnswers {
    /// Of these disks, which roam to the peer.
    pub(super) fn new(peering: Peering, disks: BTreeMap<DiskId, Arc<Seen>>) -> Self {
        Self { peering, disks }
    }

    /// This host and its peer.
    pub(super) fn peering(&self) -> &Peering {
        &self.peering
    }

    /// How a disk roams that does; `status` is how it is served.
    pub(super) fn disk(&self, entry: &Entry, status: &DiskStatus) -> RoamingDisk {
        let seen = self.disks.get(&entry.id);
        let view = seen.map_or_else(View::default, |seen| seen.view());
        let role = view.role().map_or(RoamingRole::InDoubt, shown);
        let is_here = matches!(role, RoamingRole::Owner | RoamingRole::Granting);
        let lacks = status.write_back.as_ref();
        let left = || lacks.map_or(0, |lacks| lacks.dirty_bytes);
        let problem = match role {
            RoamingRole::InDoubt => status.reason.clone(),
            _ => view.problem().map(str::to_owned),
        };
        let count = |outcome| HandOverCount {
            outcome,
            count: view.held(outcome).count(),
        };
        RoamingDisk {
            name: status.name.clone(),
            id: status.id.clone(),
            vm: status.vm.clone(),
            cache: status.cache.clone(),
            role,
            epoch: view.epoch(),
            peer: self.peering.session(),
            problem,
            left_bytes: is_here.then(left),
            last_hand_over: view.last().map(|last| HandOver {
                outcome: last.outcome,
                peer: self.peering.there().to_owned(),
                ago_seconds: last.at.elapsed().as_secs_f64(),
                held_seconds: last.held.as_secs_f64(),
            }),
            hand_overs: HandOverOutcome::ALL.map(count).to_vec(),
        }
    }

    /// This host, its peer, these disks, and the hand-overs of all.
    pub(super) fn all(&self, disks: Vec<RoamingDisk>) -> RoamingDisks {
        let views: Vec<View> = self.disks.values().map(|seen| seen.view()).collect();
        let held = HandOverOutcome::ALL.map(|outcome| {
            let mut held = Histogram::default();
            for view in &views {
                held.add(view.held(outcome));
            }
            HeldTime {
                outcome,
                held: answers::latency(&held),
            }
        });
        RoamingDisks {
            host: Some(self.peering.here().to_owned()),
            peers: vec![self.peering.session()],
            disks,
            held: held.to_vec(),
        }
    }
}

fn shown(role: Role) -> RoamingRole {
    match role {
        Role::Owner => RoamingRole::Owner,
        Role::Standby => RoamingRole::Standby,
        Role::Claiming => RoamingRole::Claiming,
        Role::Taking => RoamingRole::Taking,
        Role::Granting => RoamingRole::Granting,
        Role::Giving => RoamingRole::Giving,
    }
}
