//! What becomes of a disk's dirty data when it is handed over.

use super::Observer;
use crate::dirty_room::room_for_dirty;
use crate::peering::Peering;
use crate::registry::Entry;
use api::roaming::{DirtyCheck, RoamingDisk};
use api::types::DiskStatus;
use configuration::{Dirty, WritePolicy};
use link_protocol::{DirtyLook, DiskLook, DiskRole};
use units::Bytes;

impl Observer {
    /// What the origin of a disk lacks here, and what becomes of that as far as this host is asked.
    pub(super) fn dirty_look(
        &self,
        entry: &Entry,
        status: &DiskStatus,
        shown: Option<&RoamingDisk>,
    ) -> Option<DirtyLook> {
        if entry.config.write_policy != WritePolicy::Back {
            return None;
        }
        let room = room_for_dirty((&self.registry, &self.shards), entry, &entry.config);
        let moves = shown.and_then(|shown| shown.cache_move.as_ref());
        let strategy = moves.map_or(entry.config.migration.strategy, |moves| moves.strategy);
        let copies = strategy.copies_ahead();
        let lacks = status.write_back.as_ref();
        Some(DirtyLook {
            bytes: lacks.map_or(0, |lacks| lacks.dirty_bytes),
            room: room.as_ref().map_or(0, |room| room.get()),
            goes_along: entry.config.migration.dirty() == Dirty::Ship && copies && room.is_ok(),
        })
    }
}

/// What becomes of the dirty data of a disk that one of two hosts has, by what both say. None if it is not written back.
pub(super) fn becomes(here: &DiskLook, there: &DiskLook, peering: &Peering) -> Option<DirtyCheck> {
    let (ours, theirs) = ((here, peering.here()), (there, peering.there()));
    let ((owner, from), (other, to)) = match (here.role, there.role) {
        (DiskRole::Owner, _) => (ours, theirs),
        (_, DiskRole::Owner) => (theirs, ours),
        _ => return None,
    };
    let lacks = owner.dirty?;
    let otherwise = |host: &str| {
        format!("at {host} the disk has another migration.dirty or strategy, or no room for it")
    };
    let why = match (lacks.goes_along, other.dirty) {
        (true, None) => Some(format!("at {to} the disk is not under write-back")),
        (true, Some(there)) if !there.goes_along => Some(otherwise(to)),
        (true, Some(there)) => (lacks.bytes > there.room).then(|| {
            let (bytes, room) = (Bytes::new(lacks.bytes), Bytes::new(there.room));
            format!("{to} has room for {room}, and {bytes} wait")
        }),
        (false, Some(there)) if there.goes_along => Some(otherwise(from)),
        (false, _) => None,
    };
    let goes_along = lacks.goes_along && why.is_none();
    Some(DirtyCheck {
        becomes: if goes_along {
            Dirty::Ship
        } else {
            Dirty::Drain
        },
        bytes: lacks.bytes,
        why,
    })
}
