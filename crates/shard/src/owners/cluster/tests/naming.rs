//! Disks that are handed over while the store is away.

use super::*;

fn of(host: &str, epoch: u64) -> Holder {
    Holder {
        host: host.to_owned(),
        epoch,
    }
}

fn held_by(file: &OwnerFile) -> Option<Holder> {
    file.load().unwrap().unwrap().holder
}

/// Makes a host's record name the next one, as the owner does.
fn hand(file: &mut OwnerFile, to: Holder) -> Result<bool, OwnerError> {
    if file.hand_as_foreseen(&to)? {
        return Ok(true);
    }
    let before = to.epoch - 1;
    file.hand_to(to, |holder| {
        holder.is_some_and(|holder| holder.epoch == before)
    })
}

/// Takes the disk as the host that it was granted to.
fn take(file: &mut OwnerFile, granted: &Holder, from: &str) -> Result<bool, OwnerError> {
    file.receive(granted, from)?;
    file.lock(false)?;
    let may_follow = |before: Option<&Holder>| {
        before.is_some_and(|before| before.host == granted.host && before.epoch <= granted.epoch)
    };
    file.hand_to(granted.clone(), may_follow)
}

impl Hosts {
    /// The first host has the disk in epoch 1, with a cache under write-back.
    fn served(&self) -> [OwnerFile; 2] {
        let [mut a, b] = [0, 1].map(|at| self.file(at));
        a.lock(false).unwrap();
        assert!(a.hand_to(of("node-a", 1), |_| true).unwrap());
        a.store(open(4, 7), 0).unwrap();
        [a, b]
    }

    /// The same, and the record says that the disk may go to the second host, which has read that. The store is away then.
    fn foreseen(&self) -> [OwnerFile; 2] {
        let [a, b] = self.served();
        assert!(!b.heed().unwrap());
        a.name(Some("node-b")).unwrap();
        assert!(b.heed().unwrap());
        self.set(|shared| shared.is_away = true);
        [a, b]
    }

    /// The second host has the disk in epoch 2, and the store knows nothing of that.
    fn handed(&self) -> [OwnerFile; 2] {
        let [a, mut b] = self.foreseen();
        a.may_hand_to("node-b").unwrap();
        assert!(a.hand_as_foreseen(&of("node-b", 2)).unwrap());
        assert!(take(&mut b, &of("node-b", 2), "node-a").unwrap());
        [a, b]
    }
}

#[test]
fn a_move_that_the_record_foresaw_needs_no_store() {
    for is_giver_first in [true, false] {
        let hosts = Hosts::new();
        let [_a, b] = hosts.handed();
        let found = b.load().unwrap().unwrap();
        assert_eq!(found.record, closed(4, 7), "the origin has all of it");
        b.store(open(5, 9), 1).unwrap();
        // Other daemons of both hosts.
        let [mut a, mut b] = [0, 1].map(|at| hosts.file(at));
        assert_eq!(held_by(&a), Some(of("node-b", 2)));
        assert!(is_elsewhere(&a.lock(false), "node-b"));
        b.lock(false).unwrap();
        assert_eq!(b.load().unwrap().unwrap().record, open(5, 9));
        assert!(b.hand_to(of("node-b", 3), |_| true).unwrap());
        b.store(open(6, 9), 0).unwrap();
        assert!(a.owes().unwrap() && b.owes().unwrap());
        assert!(b.settle().is_err(), "the store is away");

        hosts.set(|shared| shared.is_away = false);
        if is_giver_first {
            a.give_up_debt().unwrap();
            assert_eq!(hosts.attached().as_deref(), Some("node-b"));
        }
        let settled = b.settle().unwrap().unwrap();
        assert!(settled.is_known);
        assert!(b.conclude(&settled).unwrap());
        if !is_giver_first {
            a.give_up_debt().unwrap();
        }
        assert_eq!(held_by(&a), Some(of("node-b", 3)));
        assert!(!a.owes().unwrap() && !b.owes().unwrap());
        assert_eq!(b.load().unwrap().unwrap().record, open(6, 9));
        b.store(closed(6, 9), 1).unwrap();
        // And back, with the store.
        b.may_hand_to("node-a").unwrap();
        assert!(hand(&mut b, of("node-a", 4)).unwrap());
        assert!(take(&mut a, &of("node-a", 4), "node-b").unwrap());
        assert_eq!(hosts.attached().as_deref(), Some("node-a"));
    }
}

#[test]
fn a_move_that_no_record_foresaw_waits_for_the_store() {
    let hosts = Hosts::new();
    let [mut a, mut b] = hosts.served();
    hosts.set(|shared| shared.is_away = true);
    assert!(is_unreached(&a.may_hand_to("node-b")));
    assert!(is_unreached(&hand(&mut a, of("node-b", 2))));
    assert!(is_unreached(&a.name(Some("node-b"))));
    assert!(is_unreached(&b.heed()));
    assert!(is_unreached(&take(&mut b, &of("node-b", 2), "node-a")));
    assert!(!a.owes().unwrap() && !b.owes().unwrap());
    a.store(open(4, 7), 1).unwrap();
}

#[test]
fn the_disk_goes_only_where_the_record_says() {
    let hosts = Hosts::new();
    let [mut a, _] = hosts.foreseen();
    assert!(is_unreached(&a.may_hand_to("node-c")));
    assert!(is_unreached(&hand(&mut a, of("node-c", 2))));
    assert!(!a.hand_as_foreseen(&of("node-b", 3)).unwrap());
    // What the origin lacks would be the other host's.
    let with_dirty = a.hand_with(of("node-b", 2), open(1, 8), |_| true);
    assert!(is_unreached(&with_dirty));
    hosts.set(|shared| shared.is_away = false);
    a.name(None).unwrap();
    assert!(!hosts.file(1).heed().unwrap());
    hosts.set(|shared| shared.is_away = true);
    assert!(is_unreached(&a.may_hand_to("node-b")));
}

/// A host that goes on in a later epoch has to say again where the disk may go: the other one knows the record of the last.
#[test]
fn what_was_foreseen_holds_for_one_epoch() {
    let hosts = Hosts::new();
    let [_a, mut b] = hosts.foreseen();
    let mut a = hosts.file(0);
    a.lock(false).unwrap();
    assert!(a.hand_to(of("node-a", 2), |_| true).unwrap());
    a.store(open(5, 7), 0).unwrap();
    assert!(is_unreached(&a.may_hand_to("node-b")));
    assert!(!a.hand_as_foreseen(&of("node-b", 3)).unwrap());
    assert!(is_unreached(&take(&mut b, &of("node-b", 3), "node-a")));
    assert!(!b.owes().unwrap());
    hosts.set(|shared| shared.is_away = false);
    assert_eq!(held_by(&a), Some(of("node-a", 2)));
    assert!(!b.heed().unwrap());
    assert!(a.hand_to(of("node-a", 3), |_| true).unwrap());
    a.name(Some("node-b")).unwrap();
    assert!(b.heed().unwrap());
    assert!(a.hand_to(of("node-a", 4), |_| true).unwrap());
    assert!(!b.heed().unwrap(), "with the store, too");
}

/// Neither host asks the store while the VM waits, though it answers.
#[test]
fn the_store_is_told_afterwards() {
    let hosts = Hosts::new();
    let [_, b] = hosts.handed();
    hosts.set(|shared| shared.is_away = false);
    assert_eq!(held_by(&hosts.file(0)), Some(of("node-b", 2)));
    b.store(open(5, 9), 1).unwrap();
    assert_eq!(hosts.attached().as_deref(), Some("node-a"));
    // The disk does not go on before.
    b.may_hand_to("node-c").unwrap();
    assert_eq!(hosts.attached().as_deref(), Some("node-b"));
    assert!(!b.owes().unwrap());
}

/// What the cache says between the store's answer and the end of the debt is owed, too.
#[test]
fn a_record_that_changes_meanwhile_stays_owed() {
    let hosts = Hosts::new();
    let [_, b] = hosts.handed();
    b.store(closed(5, 9), 1).unwrap();
    hosts.set(|shared| shared.is_away = false);
    let settled = b.settle().unwrap().unwrap();
    b.store(open(5, 9), 2).unwrap();
    assert!(!b.conclude(&settled).unwrap());
    let settled = b.settle().unwrap().unwrap();
    assert!(b.conclude(&settled).unwrap());
    assert_eq!(
        hosts.file(0).load().unwrap().unwrap().record,
        closed(4, 7),
        "it owes, too"
    );
    hosts.file(0).give_up_debt().unwrap();
    assert_eq!(hosts.file(0).load().unwrap().unwrap().record, open(5, 9));
}

#[test]
fn an_old_grant_takes_nothing() {
    let hosts = Hosts::new();
    let [mut a, mut b] = hosts.handed();
    hosts.set(|shared| shared.is_away = false);
    b.may_hand_to("node-a").unwrap();
    assert!(hand(&mut b, of("node-a", 3)).unwrap());
    assert!(take(&mut a, &of("node-a", 3), "node-b").unwrap());
    assert!(!a.owes().unwrap());
    hosts.set(|shared| shared.is_away = true);
    let late = take(&mut b, &of("node-b", 2), "node-a");
    assert!(is_unreached(&late), "{late:?}");
}

/// An operator has given the disk to a host in place of the one that handed it over.
#[test]
fn a_disk_that_was_taken_over_meanwhile_is_told_of() {
    let hosts = Hosts::new();
    let [a, mut b] = hosts.handed();
    assert!(b.hand_to(of("node-b", 3), |_| true).unwrap());
    hosts.set(|shared| {
        shared.is_away = false;
        let record = shared.records.get_mut(&1).unwrap();
        let (disk, owner) = text::decode(&record.text, Path::new("")).unwrap();
        let attachment = Attachment {
            serial: 9,
            host: Some("node-c".to_owned()),
            may_go_to: None,
        };
        let holder = of("node-c", 2);
        let said = Said {
            holder: Some(&holder),
            attachment: Some(&attachment),
            ..Said::by(&owner)
        };
        record.text = text::encode(disk, said);
        shared.revision += 1;
        record.revision = shared.revision;
    });
    assert!(is_elsewhere(&b.settle().map(drop), "node-c"));
    assert!(b.owes().unwrap(), "its operator decides");
    a.give_up_debt().unwrap();
    assert_eq!(
        held_by(&a),
        Some(of("node-c", 2)),
        "this host has no more to say"
    );
    assert!(!a.owes().unwrap());
}

/// Answers are lost both ways: at the end both hosts and the store say the same.
#[test]
fn the_store_has_the_disk_where_it_is_whatever_is_lost() {
    for seed in 0..50 {
        let hosts = Hosts::new();
        let [_a, b] = hosts.handed();
        b.store(open(5, 9), 1).unwrap();
        hosts.set(|shared| {
            shared.is_away = false;
            shared.lost = [300, 300];
            shared.dice = Some(Prng::new(seed));
        });
        let mut dice = Prng::new(seed + 1_000);
        while [0, 1].map(|at| hosts.file(at).owes().unwrap()) != [false; 2] {
            let at = usize::try_from(dice.below(2)).unwrap();
            let file = hosts.file(at);
            assert_eq!(held_by(&file), Some(of("node-b", 2)), "seed {seed}");
            match file.settle() {
                Ok(Some(settled)) => assert!(file.conclude(&settled).unwrap()),
                Ok(None) | Err(OwnerError::Unreached { .. }) => {}
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
        hosts.set(|shared| shared.dice = None);
        assert_eq!(hosts.attached().as_deref(), Some("node-b"));
        assert_eq!(hosts.file(1).load().unwrap().unwrap().record, open(5, 9));
    }
}
