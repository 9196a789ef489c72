//! What is cached of a disk while it is another host's counts for nobody but its successor in the same process.

use crate::rig::{Rig, page};
use cache::{Command, ControlOutcome, OfDirty, OwnerRecord, Tenure, WriteBack, WritePolicy};
use units::{Bytes, DiskId, Offset};

/// Another cache has had the disk.
const OTHER: OwnerRecord = OwnerRecord {
    epoch: 7,
    cache: 1,
    open: false,
};

/// Attaches the disk, which another cache has had: how many blocks of it are served.
fn attach(rig: &mut Rig, tenure: Tenure) -> u64 {
    let command = Command::Attach {
        disk: DiskId::from_u128(1),
        name: "vda".into(),
        size: rig.size,
        policy: WritePolicy::Through,
        read_only: false,
        tenant: "vm".into(),
        shared: false,
        fingerprint: None,
        owner: Some(OTHER),
        write_back: WriteBack::default(),
        tenure,
    };
    let id = rig.command(command);
    match rig.outcome(id) {
        Some(Ok(ControlOutcome::Attached {
            disk, warm_blocks, ..
        })) => {
            rig.disk = disk;
            warm_blocks
        }
        other => panic!("the disk is attached, not {other:?}"),
    }
}

/// A cache that has two blocks of a disk which is another host's, and none that was discarded.
fn copied() -> Rig {
    let mut rig = Rig::bare(Bytes::mib(8));
    assert_eq!(attach(&mut rig, Tenure::Standby), 0);
    assert_eq!(rig.record, None, "nothing is recorded");
    for block in 0..3 {
        assert!(rig.read(block).is_ok());
    }
    rig.discard(1, 1);
    rig
}

#[test]
fn what_is_copied_counts_for_the_successor() {
    let mut rig = copied();
    rig.detach(OfDirty::Keep).unwrap();
    assert_eq!(attach(&mut rig, Tenure::Successor), 2);
}

#[test]
fn what_is_copied_counts_for_nobody_else() {
    for next in [Tenure::Owner, Tenure::Standby] {
        let mut rig = copied();
        rig.detach(OfDirty::Keep).unwrap();
        assert_eq!(attach(&mut rig, next), 0, "{next:?}");
    }
}

#[test]
fn what_is_copied_does_not_count_after_a_restart() {
    let mut rig = copied();
    rig.detach(OfDirty::Keep).unwrap();
    let flash = rig.flash().to_vec();
    rig.restart_with(&flash);
    assert_eq!(attach(&mut rig, Tenure::Successor), 0);
}

#[test]
fn a_successor_that_never_was_a_standby_begins_cold() {
    let mut rig = Rig::bare(Bytes::mib(8));
    attach(&mut rig, Tenure::Owner);
    rig.write_at(Offset::ZERO, &page(1));
    rig.read(0).unwrap();
    rig.detach(OfDirty::Refuse).unwrap();
    assert_eq!(attach(&mut rig, Tenure::Successor), 0);
}
