//! What is durable in the tables before a command ends.

use crate::rig::{Rig, lazy, page};
use cache::{
    Command, ControlOutcome, DropReason, OfDirty, OwnerRecord, Tenure, WriteBack, WritePolicy,
};
use flash_format::{PAGE_BYTES, SUPERBLOCK_OFFSETS};
use units::{Bytes, DiskId, Offset};

fn attach(rig: &Rig, policy: WritePolicy) -> Command {
    Command::Attach {
        disk: DiskId::from_u128(1),
        name: "vda".into(),
        size: rig.size,
        policy,
        read_only: false,
        tenant: "vm".into(),
        shared: false,
        fingerprint: rig.fingerprint,
        owner: rig.record,
        write_back: WriteBack::default(),
        tenure: Tenure::Owner,
    }
}

#[test]
fn a_disk_has_left_whichever_superblock_is_read() {
    let mut rig = Rig::bare(Bytes::mib(8));
    rig.fingerprint = Some(7);
    rig.attach(WritePolicy::Through, WriteBack::default())
        .unwrap();
    rig.detach(OfDirty::Refuse).unwrap();
    let left = rig.flash().to_vec();
    let record = rig.record;
    for lost in SUPERBLOCK_OFFSETS {
        let mut flash = left.clone();
        flash[lost.to_usize()..][..PAGE_BYTES].fill(0);
        rig.restart_with(&flash);
        // Somebody has changed the origin since.
        rig.fingerprint = Some(8);
        rig.record = record;
        let command = attach(&rig, WritePolicy::Through);
        let id = rig.command(command);
        let Some(Ok(ControlOutcome::Attached { dropped, .. })) = rig.outcome(id) else {
            panic!("the disk is attached")
        };
        let expected = Some(DropReason::OriginChanged);
        assert_eq!(dropped, expected, "without the superblock at {lost}");
    }
}

#[test]
fn what_is_void_is_durably_so_before_the_record_is_open_again() {
    let mut rig = Rig::new(lazy());
    rig.write_at(Offset::ZERO, &page(1));
    rig.flush();
    rig.power_cut_of_nothing();
    // What waits here counts no longer: the record says that the origin has everything.
    let closed = OwnerRecord {
        open: false,
        ..rig.record.unwrap()
    };
    rig.record = Some(closed);
    rig.hold_journal = true;
    let command = attach(&rig, WritePolicy::Back);
    let id = rig.command(command);
    assert_eq!(rig.record, Some(closed));
    assert!(rig.held_at_flash().0 > 0);
    rig.free();
    assert!(rig.record.is_some_and(|record| record.open));
    assert!(matches!(rig.outcome(id), Some(Ok(_))));
}
