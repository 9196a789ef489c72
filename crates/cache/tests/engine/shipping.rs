//! What a cache has that the origin lacks goes to the host that is about to get the disk, and counts there.

use crate::rig::{Rig, lazy, page};
use block_io::{IoError, OriginVerb};
use cache::{
    Command, ControlError, ControlOutcome, NotLent, OfDirty, OwnerRecord, Tenure, WriteBack,
    WritePolicy,
};
use units::{BLOCK_BYTES, Bytes, Duration, Offset, Prng};

/// What the origin was told to write, with flushes as `None`.
fn written(rig: &Rig) -> Vec<Option<(u64, u8)>> {
    let told = rig.told.iter().flat_map(|verb| match verb {
        OriginVerb::Write { offset, data, fua } => {
            let write = Some((offset.get() / BLOCK_BYTES, data[0]));
            // What is written with FUA is flushed by itself.
            if *fua { vec![write, None] } else { vec![write] }
        }
        OriginVerb::Flush => vec![None],
        _ => Vec::new(),
    });
    told.collect()
}

fn two_hosts() -> (Rig, Rig) {
    let owner = Rig::new(lazy());
    let standby = Rig::standby_of(&owner);
    (owner, standby)
}

#[test]
fn what_was_shipped_is_read_and_destaged_by_the_successor() {
    for power_cut in [false, true] {
        let (mut owner, mut standby) = two_hosts();
        let mut next = 0;
        owner.write(3, 1);
        owner.flush();
        standby.pull(&mut owner, &mut next);
        owner.write(3, 2);
        owner.write(4, 3);
        owner.discard(8, 2);
        owner.fill_origin(8, 9);
        owner.write_zeroes(Offset::new(20 * BLOCK_BYTES), Bytes::new(BLOCK_BYTES));
        owner.fill_origin(20, 9);
        standby.pull(&mut owner, &mut next);
        if power_cut {
            standby.succeed_after_power_cut(&owner);
        } else {
            standby.succeed(&owner);
        }
        for (block, byte) in [(3, 2), (4, 3), (8, 0), (20, 0), (5, 0)] {
            assert_eq!(standby.read(block), Ok(page(byte)), "block {block}");
        }
        assert!(standby.record.unwrap().open);
        standby.destage();
        for (block, byte) in [(3, 2), (4, 3), (20, 0)] {
            assert_eq!(standby.durable_block(block), page(byte), "block {block}");
        }
        standby.cache_mut().self_check();
    }
}

/// Whether a rule holds: the successor's origin never sees the order of the owner's flushes broken.
fn intervals_travel() -> bool {
    let (mut owner, mut standby) = two_hosts();
    let mut next = 0;
    for (block, byte) in [(1, 1), (2, 2), (3, 3)] {
        owner.write(block, byte);
        owner.flush();
    }
    standby.pull(&mut owner, &mut next);
    standby.succeed(&owner);
    standby.destage();
    let flushed = |before, after| {
        let written = written(&standby);
        let at = |what| written.iter().position(|verb| *verb == Some(what));
        let (from, to) = (at(before).unwrap(), at(after).unwrap());
        from < to && written[from..to].contains(&None)
    };
    flushed((1, 1), (2, 2)) && flushed((2, 2), (3, 3))
}

/// What the owner has brought to the origin is not brought there again.
fn watermark_travels() -> bool {
    let (mut owner, mut standby) = two_hosts();
    let mut next = 0;
    owner.write(1, 1);
    owner.flush();
    owner.write(1, 2);
    owner.flush();
    standby.pull(&mut owner, &mut next);
    owner.destage();
    standby.pull(&mut owner, &mut next);
    // An empty log needs no open record, and no successor of one.
    owner.write(5, 5);
    standby.pull(&mut owner, &mut next);
    standby.succeed_after_power_cut(&owner);
    standby.destage();
    let again = written(&standby)
        .iter()
        .any(|verb| matches!(verb, Some((1, _))));
    standby.read(1) == Ok(page(2)) && standby.read(5) == Ok(page(5)) && !again
}

/// Records are said to be kept when they are durable.
fn kept_is_durable() -> bool {
    let (mut owner, mut standby) = two_hosts();
    owner.write(1, 1);
    let records = owner.records(0).unwrap();
    standby.hold_flash = true;
    let id = standby.begin_keep(owner.next_epoch(), records);
    standby.pass(Duration::from_millis(200));
    let is_early = standby.outcome(id).is_some();
    standby.hold_flash = false;
    standby.pass(Duration::from_millis(200));
    assert!(matches!(standby.outcome(id), Some(Ok(_))));
    standby.succeed_after_power_cut(&owner);
    !is_early && standby.read(1) == Ok(page(1))
}

/// No record is kept twice or behind a gap.
fn records_follow() -> bool {
    let (mut owner, mut standby) = two_hosts();
    for byte in 1..4 {
        owner.write(1, byte);
    }
    let mut all = owner.records(0).unwrap();
    let epoch = owner.next_epoch();
    let mut rest = all.clone();
    all.records.truncate(1);
    rest.records.drain(..2);
    rest.first = 2;
    let first = standby.begin_keep(epoch, all.clone());
    standby.pass(Duration::from_millis(200));
    assert!(matches!(standby.outcome(first), Some(Ok(_))));
    let gap = standby.begin_keep(epoch, rest);
    standby.pass(Duration::from_millis(200));
    matches!(standby.outcome(gap), Some(Err(_)))
}

/// What a cache has of an earlier period does not come along.
fn leftovers_first() -> bool {
    let mut standby = Rig::named(9, Bytes::mib(8));
    standby.attach(WritePolicy::Back, lazy()).unwrap();
    standby.write(7, 7);
    standby.flush();
    standby.detach(OfDirty::Keep).unwrap();
    // The disk has gone to another host since, and what was left here with it.
    let mut owner = Rig::bare(Bytes::mib(8));
    owner.record = standby.record.map(|record| OwnerRecord {
        epoch: record.epoch + 1,
        cache: 7,
        open: false,
    });
    owner.attach(WritePolicy::Back, lazy()).unwrap();
    standby.stand_by(&owner);
    owner.write(1, 1);
    standby.pull(&mut owner, &mut 0);
    standby.succeed(&owner);
    standby.read(7) == Ok(page(0)) && standby.read(1) == Ok(page(1))
}

/// Of copies beside the log only who kept them knows whether they are stale.
fn shipped_log_alone() -> bool {
    let (mut owner, mut standby) = two_hosts();
    assert_eq!(standby.read(5), Ok(page(0)), "it is copied");
    owner.write(5, 5);
    owner.destage();
    owner.write(1, 1);
    let mut next = owner.records(0).unwrap().first;
    standby.pull(&mut owner, &mut next);
    standby.detach(OfDirty::Keep).unwrap();
    standby.succeed_after_power_cut(&owner);
    standby.read(5) == Ok(page(5)) && standby.read(1) == Ok(page(1))
}

/// What is not what was written is not shipped.
fn verify_before_ship() -> bool {
    let (mut owner, _) = two_hosts();
    owner.write(1, 77);
    owner.flush();
    owner.damage(&page(77));
    owner.records(0).is_err()
}

/// While it is held nothing of a log goes to the origin, and nothing of it leaves.
fn held_stands_still() -> bool {
    let mut owner = Rig::new(lazy());
    owner.write(1, 1);
    owner.flush();
    owner.write(2, 2);
    let disk = owner.disk;
    let [first, second] = [1, 2].map(|number| Command::HoldDestage { disk, number });
    let held = [first, second].map(|hold| owner.command(hold));
    owner.pass(Duration::from_millis(200));
    let done = Some(Ok(ControlOutcome::Done));
    assert!(held.iter().all(|id| owner.outcome(*id) == done));
    let flushed = owner.told.pop();
    assert!(matches!(flushed, Some(OriginVerb::Flush)), "{flushed:?}");
    let destage = owner.command(Command::Destage { disk });
    owner.command(Command::ReleaseDestage { disk, number: 1 });
    owner.pass(Duration::from_secs(1));
    let busy = Some(Err(ControlError::Busy));
    let stood = written(&owner).iter().all(Option::is_none)
        && owner.records(0).unwrap().records.len() == 2
        && owner.outcome(destage) == busy;
    let policy = WritePolicy::Through;
    let through = owner.command(Command::SetPolicy { disk, policy });
    assert!(owner.outcome(through) == busy || !stood);
    // Who has let go twice has done nothing to the other one.
    owner.command(Command::ReleaseDestage { disk, number: 1 });
    owner.command(Command::ReleaseDestage { disk, number: 2 });
    owner.destage();
    assert_eq!(owner.durable_block(2), page(2));
    stood
}

#[test]
fn a_destage_is_held_when_what_was_on_its_way_is_durable() {
    let mut owner = Rig::new(lazy());
    // They do not lie behind each other.
    for block in 0..200 {
        owner.write(2 * block, 1);
    }
    owner.hold_writes = true;
    let disk = owner.disk;
    let destage = owner.command(Command::Destage { disk });
    owner.pass(Duration::from_millis(200));
    let sent = written(&owner).len();
    let held = owner.command(Command::HoldDestage { disk, number: 1 });
    owner.pass(Duration::from_millis(200));
    let busy = Some(Err(ControlError::Busy));
    assert_eq!(owner.outcome(destage), busy, "it would wait for ever");
    assert_eq!(owner.outcome(held), None, "writes are on their way");
    owner.hold_writes = false;
    owner.free();
    owner.pass(Duration::from_millis(200));
    assert_eq!(owner.outcome(held), Some(Ok(ControlOutcome::Done)));
    let more = written(&owner).split_off(sent);
    assert!(
        more.iter().all(Option::is_none),
        "nothing followed: {more:?}"
    );
    assert_eq!(owner.durable_block(0), page(1));
    // It goes away with its log, as it is told.
    owner.detach(OfDirty::Keep).unwrap();
    assert!(owner.record.unwrap().open);
    owner.attach(WritePolicy::Back, lazy()).unwrap();
    owner.destage();
    owner.cache_mut().self_check();
}

#[test]
fn a_destage_that_fails_is_not_held() {
    let mut owner = Rig::new(lazy());
    owner.write(1, 1);
    owner.origin_error = Some(IoError::Failed);
    let disk = owner.disk;
    let destage = owner.command(Command::Destage { disk });
    owner.pass(Duration::from_millis(10));
    let error = Some(Err(ControlError::Origin(IoError::Failed)));
    assert_eq!(owner.outcome(destage), error);
    let held = owner.command(Command::HoldDestage { disk, number: 1 });
    owner.pass(Duration::from_millis(10));
    assert_eq!(owner.outcome(held), error);
    owner.command(Command::ReleaseDestage { disk, number: 1 });
    owner.origin_error = None;
    owner.destage();
    assert_eq!(owner.durable_block(1), page(1));
    let mut through = Rig::through();
    let held = through.command(Command::HoldDestage {
        disk: through.disk,
        number: 1,
    });
    let none = Some(Err(ControlError::NoWriteBack));
    assert_eq!(through.outcome(held), none);
}

#[test]
fn what_follows_a_gap_begins_the_log_anew() {
    let (mut owner, mut standby) = two_hosts();
    let mut next = 0;
    owner.write(1, 1);
    owner.write(2, 1);
    standby.pull(&mut owner, &mut next);
    // It reaches the origin before it is shipped.
    owner.write(1, 2);
    owner.destage();
    owner.write(3, 3);
    standby.pull(&mut owner, &mut next);
    standby.succeed(&owner);
    for (block, byte) in [(1, 2), (2, 1), (3, 3)] {
        assert_eq!(standby.read(block), Ok(page(byte)), "block {block}");
    }
    standby.destage();
    assert_eq!(standby.durable_block(1), page(2));
}

#[test]
fn a_log_that_was_kept_counts_nothing_when_its_owner_has_drained() {
    let (mut owner, mut standby) = two_hosts();
    assert_eq!(standby.read(9), Ok(page(0)), "it is copied");
    owner.write(1, 1);
    standby.pull(&mut owner, &mut 0);
    owner.write(1, 2);
    owner.destage();
    standby.detach(OfDirty::Keep).unwrap();
    standby.is_granted_by(&owner);
    standby.record = owner.record.map(|record| OwnerRecord {
        open: false,
        ..record
    });
    standby
        .attach_as(Tenure::Successor, WritePolicy::Back, lazy())
        .unwrap();
    assert_eq!(standby.status().logged, Bytes::ZERO);
    standby.told.clear();
    assert_eq!(standby.read(9), Ok(page(0)));
    assert!(standby.told.is_empty(), "it is cached");
    assert_eq!(standby.read(1), Ok(page(2)));
    standby.power_cut();
    assert_eq!(standby.read(1), Ok(page(2)));
}

#[test]
fn a_standby_that_is_not_granted_the_disk_has_nothing() {
    let (mut owner, mut standby) = two_hosts();
    owner.write(1, 1);
    standby.pull(&mut owner, &mut 0);
    // Its host has lost power, and the owner has served on.
    let flash = standby.flash().to_vec();
    standby.restart_with(&flash);
    standby.record = owner.record;
    assert!(standby.attach(WritePolicy::Back, lazy()).is_err());
    owner.write(1, 2);
    standby.stand_by(&owner);
    standby.pull(&mut owner, &mut 0);
    standby.succeed(&owner);
    assert_eq!(standby.read(1), Ok(page(2)));
}

#[test]
fn only_who_has_a_disk_ships_and_only_a_standby_keeps() {
    let (mut owner, mut standby) = two_hosts();
    owner.write(1, 1);
    let records = owner.records(0).unwrap();
    let epoch = owner.next_epoch();
    let id = owner.begin_keep(epoch, records.clone());
    assert!(matches!(owner.outcome(id), Some(Err(_))));
    standby.pull(&mut owner, &mut 0);
    assert!(matches!(standby.records(0), Err(NotLent)));
    assert!(matches!(owner.records(99), Err(NotLent)));
    let mut torn = records;
    torn.first = 1;
    for record in &mut torn.records {
        if let cache::ShippedWhat::Block { bytes, .. } = &mut record.what {
            bytes.truncate(100);
        }
    }
    let id = standby.begin_keep(epoch, torn);
    assert!(matches!(standby.outcome(id), Some(Err(_))));
}

#[test]
fn a_standby_whose_flash_fails_keeps_nothing_and_holds_up_nobody() {
    let (mut owner, mut standby) = two_hosts();
    let mut next = 0;
    owner.write(1, 1);
    standby.pull(&mut owner, &mut next);
    owner.write(2, 2);
    let records = owner.records(next).unwrap();
    standby.flash_write_error = true;
    let id = standby.begin_keep(owner.next_epoch(), records.clone());
    standby.pass(Duration::from_millis(200));
    assert!(matches!(standby.outcome(id), Some(Err(_))));
    let again = standby.begin_keep(owner.next_epoch(), records);
    assert!(matches!(standby.outcome(again), Some(Err(_))));
    standby.detach(OfDirty::Refuse).unwrap();
    // The owner drains instead, and the disk comes without flash.
    owner.destage();
    standby.is_granted_by(&owner);
    standby.record = owner.record.map(|record| OwnerRecord {
        open: false,
        ..record
    });
    standby
        .attach(WritePolicy::Back, lazy())
        .expect("it is attached without flash");
    for block in 1..3 {
        let byte = u8::try_from(block).unwrap();
        assert_eq!(standby.read(block), Ok(page(byte)));
    }
}

#[test]
fn a_log_that_would_be_too_long_is_not_kept() {
    let mut owner = Rig::new(lazy());
    let mut standby = Rig::named(9, Bytes::mib(8));
    standby.see_origin_of(&owner);
    standby.record = owner.record;
    let small = WriteBack {
        dirty_max: Bytes::kib(16),
        ..lazy()
    };
    standby
        .attach_as(Tenure::Standby, WritePolicy::Through, small)
        .unwrap();
    for block in 0..20 {
        owner.write(block, 1);
    }
    let records = owner.records(0).unwrap();
    let id = standby.begin_keep(owner.next_epoch(), records);
    assert!(matches!(
        standby.outcome(id),
        Some(Err(ControlError::LogFull))
    ));
}

/// The owner and its standby, whatever happens; then the disk goes.
fn moves(seed: u64) {
    let dice = &mut Prng::new(seed);
    let (mut owner, mut standby) = two_hosts();
    let (mut next, mut has) = (0, [0; 24]);
    for _ in 0..10 + dice.below(60) {
        match dice.below(10) {
            0..5 => {
                let (block, byte) = (dice.below(24), 1 + dice.below(250));
                let byte = u8::try_from(byte).unwrap();
                owner.write(block, byte);
                has[usize::try_from(block).unwrap()] = byte;
            }
            5 => {
                let first = dice.below(22);
                owner.discard(first, 2);
                let first = usize::try_from(first).unwrap();
                has[first..first + 2].fill(0);
            }
            6 => owner.flush(),
            7 => owner.destage(),
            8 => standby.pull(&mut owner, &mut next),
            _ => {
                if dice.one_in(3) {
                    let flash = standby.flash().to_vec();
                    standby.restart_with(&flash);
                    standby.stand_by(&owner);
                    next = 0;
                }
            }
        }
    }
    owner.write(23, 23);
    has[23] = 23;
    standby.pull(&mut owner, &mut next);
    if dice.one_in(2) {
        standby.succeed(&owner);
    } else {
        standby.succeed_after_power_cut(&owner);
    }
    for again in [false, true] {
        for (block, byte) in (0..).zip(has) {
            let read = standby.read(block);
            assert_eq!(read, Ok(page(byte)), "seed {seed} block {block} {again}");
        }
        standby.destage();
        standby.power_cut();
    }
    standby.cache_mut().self_check();
}

#[test]
fn nothing_is_lost_whatever_came_before_the_move() {
    for seed in 0..150 {
        moves(seed);
    }
}

macro_rules! rules {
    ($($name:ident: $guard:ident;)+) => {
        $(
            #[test]
            fn $name() {
                assert!(super::$name());
            }
        )+

        /// Each rule is missed when it is taken out.
        #[cfg(feature = "mutants")]
        mod without {
            $(
                #[test]
                fn $name() {
                    core_guards::remove(Some(core_guards::Guard::$guard));
                    let broken = std::panic::catch_unwind(|| !super::super::$name());
                    core_guards::remove(None);
                    assert!(broken.unwrap_or(true));
                }
            )+
        }
    };
}

mod rules {
    rules! {
        intervals_travel: IntervalsTravel;
        watermark_travels: WatermarkTravels;
        kept_is_durable: KeptIsDurable;
        records_follow: RecordsFollow;
        leftovers_first: LeftoversFirst;
        shipped_log_alone: ShippedLogAlone;
        verify_before_ship: VerifyBeforeShip;
        held_stands_still: HeldStandsStill;
    }
}

#[test]
fn what_of_a_log_the_origin_has_is_listed_for_the_next_host() {
    let mut owner = Rig::new(lazy());
    for block in 0..200 {
        owner.write(block, 1);
    }
    owner.destage();
    owner.write(0, 2);
    owner.write(300, 2);
    let listed = owner.listed();
    assert_eq!(listed, (1..200).collect(), "block 0 and 300 are dirty");
}
