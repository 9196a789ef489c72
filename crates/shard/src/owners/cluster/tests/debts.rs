//! Disks that an operator has attached without the store.

use super::*;
use crate::owners::Vouched;

fn vouched(file: &OwnerFile) -> Vouched {
    file.vouch().unwrap()
}

fn is_superseded<T>(outcome: &Result<T, OwnerError>) -> bool {
    matches!(outcome, Err(OwnerError::Superseded { .. }))
}

impl Hosts {
    /// The store is away, and the operator vouches for the disk at a host, whose cache then serves it.
    fn serve_without_store(&self, at: usize, cache: u128) -> (OwnerFile, OwnerRecord) {
        self.set(|shared| shared.is_away = true);
        let mut file = self.file(at);
        assert_eq!(vouched(&file), Vouched::Written);
        file.lock(false).unwrap();
        let found = file.load().unwrap().unwrap().record;
        assert_eq!((found.cache, found.open), (0, false), "nobody's: cold");
        let record = closed(found.epoch + 1, cache);
        file.store(record, 0).unwrap();
        (file, record)
    }

    fn store_answers(&self) {
        self.set(|shared| shared.is_away = false);
    }

    /// A disk that was at a host with this cache until it let it go, in this epoch.
    fn served_before(&self, at: usize, epoch: u64, cache: u128) {
        let mut file = self.file(at);
        file.lock(false).unwrap();
        file.store(closed(epoch, cache), 0).unwrap();
        file.release().unwrap();
    }
}

#[test]
fn a_word_is_needed_only_where_the_store_is_away_and_the_disk_is_not_here() {
    let hosts = Hosts::new();
    let mut a = hosts.file(0);
    assert_eq!(vouched(&a), Vouched::Answered);
    assert!(!a.owes().unwrap());
    a.lock(false).unwrap();
    hosts.set(|shared| shared.is_away = true);
    assert_eq!(vouched(&a), Vouched::Needless, "it was attached here");
    assert!(!a.owes().unwrap());
    let mut b = hosts.file(1);
    assert!(is_unreached(&b.lock(false)));
    assert_eq!(
        [&a, &b].map(|file| file.is_had_here().unwrap()),
        [true, false]
    );
    assert_eq!(vouched(&b), Vouched::Written);
    assert_eq!(vouched(&b), Vouched::Needless, "it is owed already");
    b.lock(false).unwrap();
    b.unvouch().unwrap();
    assert!(is_unreached(&b.lock(false)));
    let alone = OwnerFile::new(
        DiskId::from_u128(1),
        &OriginSpec::File(FileSpec {
            direct: false,
            ..FileSpec::new("/dev/null".into())
        }),
        &Folders::alone(hosts.folders[0].path()),
        "main",
    );
    assert!(!alone.is_in_cluster() && a.is_in_cluster());
}

#[test]
fn a_debt_outlives_the_daemon_and_is_warm() {
    let hosts = Hosts::new();
    hosts.served_before(0, 4, 7);
    let (b, record) = hosts.serve_without_store(1, 9);
    drop(b);
    let mut again = hosts.file(1);
    again.lock(false).unwrap();
    assert_eq!(again.load().unwrap().unwrap().record, record);
    let later = closed(record.epoch + 1, 9);
    again.store(later, 0).unwrap();
    assert_eq!(hosts.file(1).load().unwrap().unwrap().record, later);
    assert!(is_superseded(&again.store(record, 1)), "it only rises");
    assert!(again.owes().unwrap());
}

#[test]
fn what_is_owed_of_a_device_that_is_missing_is_committed_all_the_same() {
    let hosts = Hosts::new();
    let (a, _) = hosts.serve_without_store(0, 7);
    let missing = OwnerFile { cluster: None, ..a };
    assert!(missing.owes().unwrap());
    hosts.store_answers();
    missing.give_up_debt().unwrap();
    assert!(!missing.owes().unwrap());
    assert_eq!(hosts.attached().as_deref(), Some("node-a"));
}

/// Who takes the disk by the store's record must not miss a dirty log.
#[test]
fn no_record_is_opened_while_it_is_owed() {
    let hosts = Hosts::new();
    let (a, record) = hosts.serve_without_store(0, 7);
    let opened = open(record.epoch, 7);
    assert!(is_unreached(&a.store(opened, 1)));
    hosts.store_answers();
    assert!(is_unreached(&a.store(opened, 2)), "it is owed still");
    let settled = a.settle().unwrap().unwrap();
    assert!(is_unreached(&a.store(opened, 3)), "it is not concluded");
    a.conclude(&settled).unwrap();
    a.store(opened, 4).unwrap();
    assert_eq!(hosts.file(1).load().unwrap().unwrap().record, opened);
}

#[test]
fn what_is_owed_is_committed_when_the_store_answers() {
    for before in [None, Some(5)] {
        let hosts = Hosts::new();
        if let Some(epoch) = before {
            hosts.served_before(1, epoch, 9);
        }
        let (a, record) = hosts.serve_without_store(0, 7);
        assert!(is_unreached(&a.settle()));
        hosts.store_answers();
        let settled = a.settle().unwrap().unwrap();
        assert_eq!(settled.is_known, before.is_none());
        a.conclude(&settled).unwrap();
        assert!(!a.owes().unwrap());
        assert!(a.settle().unwrap().is_none(), "once");
        assert_eq!(hosts.attached().as_deref(), Some("node-a"));
        assert!(is_elsewhere(&hosts.file(1).lock(false), "node-a"));
        assert_eq!(hosts.file(1).load().unwrap().unwrap().record, record);
        // From here on it is a disk like any other.
        hosts.set(|shared| shared.is_away = true);
        hosts.file(0).lock(false).unwrap();
        hosts.store_answers();
        a.release().unwrap();
        hosts.file(1).lock(false).unwrap();
    }
}

/// Questions and answers are lost at random: what is owed is committed once in the end, and never twice.
#[test]
fn lost_answers_do_not_lose_what_is_owed() {
    for seed in 0..20 {
        let hosts = Hosts::new();
        hosts.served_before(1, 5, 9);
        let (a, record) = hosts.serve_without_store(0, 7);
        hosts.store_answers();
        hosts.set(|shared| {
            shared.lost = [400, 400];
            shared.dice = Some(Prng::new(seed));
        });
        let settled = (0..50).find_map(|_| a.settle().ok().flatten());
        a.conclude(&settled.unwrap()).unwrap();
        hosts.set(|shared| shared.lost = [0, 0]);
        let found = hosts.file(1).load().unwrap().unwrap();
        assert_eq!(found.record, record, "seed {seed}");
        assert!(!a.owes().unwrap());
    }
}

#[test]
fn a_disk_that_another_host_has_attached_is_not_taken() {
    let hosts = Hosts::new();
    hosts.served_before(0, 4, 7);
    let (a, record) = hosts.serve_without_store(0, 7);
    hosts.store_answers();
    let mut b = hosts.file(1);
    b.lock(false).unwrap();
    b.store(closed(5, 9), 0).unwrap();
    let elsewhere = |outcome: Result<(), OwnerError>| is_elsewhere(&outcome, "node-b");
    assert!(elsewhere(a.settle().map(drop)));
    assert!(elsewhere(hosts.file(0).lock(false)), "at the next start");
    assert!(elsewhere(hosts.file(0).load().map(drop)));
    assert_eq!(b.load().unwrap().unwrap().record, closed(5, 9));
    assert_eq!(hosts.attached().as_deref(), Some("node-b"));
    assert!(a.owes().unwrap());
    // Detached there.
    b.release().unwrap();
    let settled = a.settle().unwrap().unwrap();
    assert!(!settled.is_known, "node-b may have written it");
    a.conclude(&settled).unwrap();
    assert_eq!(a.load().unwrap().unwrap().record, record);
    assert_eq!(hosts.attached().as_deref(), Some("node-a"));
}

#[test]
fn a_disk_that_is_detached_here_while_another_host_has_it_is_owed_no_more() {
    let hosts = Hosts::new();
    let (a, _) = hosts.serve_without_store(0, 7);
    assert!(is_unreached(&a.give_up_debt()));
    a.release().unwrap();
    assert!(a.owes().unwrap(), "the store is away");
    hosts.store_answers();
    hosts.file(1).lock(false).unwrap();
    a.give_up_debt().unwrap();
    a.release().unwrap();
    assert!(!a.owes().unwrap());
    assert_eq!(hosts.attached().as_deref(), Some("node-b"));
}

/// The daemon was down, and another host may have had the disk meanwhile: what is cached here is from before.
#[test]
fn what_is_cached_does_not_count_where_another_host_had_the_disk_since() {
    let hosts = Hosts::new();
    let (_, record) = hosts.serve_without_store(0, 7);
    hosts.store_answers();
    hosts.served_before(1, 1, 9);
    let mut again = hosts.file(0);
    again.lock(false).unwrap();
    let found = again.load().unwrap().unwrap().record;
    assert_eq!(found, closed(record.epoch, 0), "nobody's: cold");
    assert!(!again.owes().unwrap());
    // Nobody had it.
    let hosts = Hosts::new();
    let (_, record) = hosts.serve_without_store(0, 7);
    hosts.store_answers();
    let mut again = hosts.file(0);
    again.lock(false).unwrap();
    assert_eq!(again.load().unwrap().unwrap().record, record, "warm");
}

/// A daemon that ends between the commit and what follows it drops what it would have dropped.
#[test]
fn a_commit_that_was_not_concluded_is_cold_at_the_next_start() {
    let hosts = Hosts::new();
    hosts.served_before(1, 5, 9);
    let (a, record) = hosts.serve_without_store(0, 7);
    hosts.store_answers();
    let settled = a.settle().unwrap().unwrap();
    assert!(!settled.is_known);
    let mut again = hosts.file(0);
    again.lock(false).unwrap();
    let found = again.load().unwrap().unwrap().record;
    assert_eq!(found, closed(record.epoch + 1, 0));
}

#[test]
fn a_record_of_a_later_epoch_is_not_replaced_while_the_disk_is_served() {
    let hosts = Hosts::new();
    let (a, record) = hosts.serve_without_store(0, 7);
    hosts.store_answers();
    let later = record.epoch + 100;
    hosts.served_before(1, later, 9);
    assert!(is_superseded(&a.settle()));
    assert!(a.owes().unwrap());
    // At rest the epoch can rise above it.
    a.give_up_debt().unwrap();
    assert_eq!(a.load().unwrap().unwrap().record, closed(later + 1, 0));
}

#[test]
fn the_epoch_is_above_the_one_that_this_host_knows_although_the_clock_is_wrong() {
    let hosts = Hosts::new();
    hosts.served_before(0, 90, 7);
    hosts.set(|shared| shared.is_away = true);
    let file = hosts.file(0);
    let cluster = file.cluster.as_ref().unwrap();
    cluster.vouch(std::time::Duration::from_secs(3)).unwrap();
    assert_eq!(file.load().unwrap().unwrap().record, closed(91, 0));
}

#[test]
fn a_damaged_debt_is_never_none() {
    let hosts = Hosts::new();
    let (mut a, _) = hosts.serve_without_store(0, 7);
    let path = a.cluster.as_ref().unwrap().owed.clone();
    let mut text = std::fs::read(&path).unwrap();
    text[20] ^= 1;
    std::fs::write(&path, text).unwrap();
    for outcome in [a.lock(false), a.load().map(drop), a.settle().map(drop)] {
        assert!(
            matches!(outcome, Err(OwnerError::Damaged { .. })),
            "{outcome:?}"
        );
    }
}
