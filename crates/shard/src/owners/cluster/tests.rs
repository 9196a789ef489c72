mod debts;
mod naming;

use super::*;
use crate::owners::{Folders, Holder, OwnerFile};
use cache::OwnerRecord;
use origin::{FileSpec, OriginSpec};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use units::Prng;

/// What hosts share, with an answer or a question lost now and then.
#[derive(Debug, Default)]
struct Shared {
    records: BTreeMap<u128, StoredRecord>,
    revision: u64,
    is_away: bool,
    /// Of a thousand replacements, how many are lost on their way there, and on their way back.
    lost: [u64; 2],
    dice: Option<Prng>,
}

#[derive(Debug)]
struct Store {
    shared: Arc<Mutex<Shared>>,
    here: &'static str,
}

impl Store {
    fn shared(&self) -> Result<std::sync::MutexGuard<'_, Shared>, Unreached> {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.is_away {
            return Err(Unreached("no answer".to_owned()));
        }
        Ok(shared)
    }
}

impl ClusterRecords for Store {
    fn here(&self) -> &str {
        self.here
    }

    fn read(&self, disk: DiskId) -> Result<Option<StoredRecord>, Unreached> {
        Ok(self.shared()?.records.get(&disk.to_u128()).cloned())
    }

    fn replace(&self, disk: DiskId, was: Option<u64>, text: &[u8]) -> Result<Replaced, Unreached> {
        let mut shared = self.shared()?;
        let [there, back] = shared.lost;
        let mut is_lost = |of| {
            let dice = shared.dice.as_mut();
            dice.is_some_and(|dice| dice.below(1_000) < of)
        };
        let (is_lost_there, is_lost_back) = (is_lost(there), is_lost(back));
        if is_lost_there {
            return Ok(Replaced::Unknown);
        }
        let found = shared.records.get(&disk.to_u128());
        if found.map(|found| found.revision) != was {
            return Ok(Replaced::No);
        }
        shared.revision += 1;
        let record = StoredRecord {
            text: text.to_vec(),
            revision: shared.revision,
        };
        shared.records.insert(disk.to_u128(), record);
        Ok(if is_lost_back {
            Replaced::Unknown
        } else {
            Replaced::Yes
        })
    }

    fn hears_of(&self, _: &str) -> Result<bool, Unreached> {
        Ok(false)
    }
}

const NAMES: [&str; 2] = ["node-a", "node-b"];

/// Two hosts of a cluster, each with a state directory of its own.
struct Hosts {
    shared: Arc<Mutex<Shared>>,
    folders: [tempfile::TempDir; 2],
}

impl Hosts {
    fn new() -> Self {
        Self {
            shared: Arc::default(),
            folders: [(); 2].map(|()| tempfile::tempdir().unwrap()),
        }
    }

    fn set(&self, change: impl FnOnce(&mut Shared)) {
        change(&mut self.shared.lock().unwrap());
    }

    /// The record as a host reaches it.
    fn file(&self, at: usize) -> OwnerFile {
        let store = Store {
            shared: Arc::clone(&self.shared),
            here: NAMES[at],
        };
        let folders = Folders {
            cluster: Some(Arc::new(store)),
            ..Folders::alone(self.folders[at].path())
        };
        let origin = OriginSpec::File(FileSpec {
            direct: false,
            ..FileSpec::new("/dev/null".into())
        });
        OwnerFile::new(DiskId::from_u128(1), &origin, &folders, "main")
    }

    fn attached(&self) -> Option<String> {
        let shared = self.shared.lock().unwrap();
        let record = shared.records.get(&1)?;
        let (_, found) = text::decode(&record.text, Path::new("")).unwrap();
        attached_at(&found).map(str::to_owned)
    }
}

const fn open(epoch: u64, cache: u128) -> OwnerRecord {
    OwnerRecord {
        epoch,
        cache,
        open: true,
    }
}

const fn closed(epoch: u64, cache: u128) -> OwnerRecord {
    OwnerRecord {
        open: false,
        ..open(epoch, cache)
    }
}

fn is_elsewhere(outcome: &Result<(), OwnerError>, name: &str) -> bool {
    matches!(outcome, Err(OwnerError::AttachedElsewhere { host, .. }) if host == name)
}

fn is_unreached<T>(outcome: &Result<T, OwnerError>) -> bool {
    matches!(outcome, Err(OwnerError::Unreached { .. }))
}

#[test]
fn a_disk_is_attached_at_one_host_until_it_is_released() {
    let hosts = Hosts::new();
    let [mut a, mut b] = [0, 1].map(|at| hosts.file(at));
    assert_eq!(a.load(), Ok(None));
    a.lock(false).unwrap();
    a.lock(false).unwrap();
    assert!(is_elsewhere(&b.lock(false), "node-a"));
    b.lock(true).unwrap();
    a.store(open(1, 7), 0).unwrap();
    a.release().unwrap();
    assert!(is_elsewhere(&b.lock(false), "node-a"), "an open one stays");
    a.store(closed(1, 7), 1).unwrap();
    b.release().unwrap();
    assert!(
        is_elsewhere(&b.lock(false), "node-a"),
        "it is not b's to release"
    );
    a.release().unwrap();
    assert_eq!(hosts.attached(), None);
    b.lock(false).unwrap();
    assert_eq!(
        b.load().unwrap().unwrap().record,
        closed(1, 7),
        "what caches had stays"
    );
    b.store(open(2, 9), 0).unwrap();
    let late = a.store(open(3, 7), 2);
    assert!(
        matches!(late, Err(OwnerError::Superseded { .. })),
        "{late:?}"
    );
}

/// Two hosts attach, write and release a disk by turns of a seed, and answers are lost on both ways: never do both believe that
/// they have it.
#[test]
fn of_two_hosts_that_race_one_has_the_disk() {
    for seed in 0..10 {
        let hosts = Hosts::new();
        hosts.set(|shared| {
            shared.lost = [150, 150];
            shared.dice = Some(Prng::new(seed));
        });
        let mut dice = Prng::new(seed + 1_000);
        let mut files = [0, 1].map(|at| hosts.file(at));
        let mut has = [false; 2];
        let mut attached = 0;
        for round in 0..60 {
            let at = usize::try_from(dice.below(2)).unwrap();
            let file = &mut files[at];
            if has[at] {
                file.store(closed(round, at as u128), round).unwrap();
                file.release().unwrap();
                has[at] = false;
            } else {
                match file.lock(false) {
                    Ok(()) => has[at] = true,
                    Err(OwnerError::AttachedElsewhere { host, .. }) => {
                        assert!(has[1 - at], "seed {seed}: nobody lets it go at {host}");
                    }
                    Err(error) => panic!("seed {seed}: {error}"),
                }
                attached += u32::from(has[at]);
            }
            assert_ne!(has, [true; 2], "seed {seed}: both have it");
        }
        assert!(attached > 5, "seed {seed}");
    }
}

#[test]
fn while_the_store_is_away_a_host_goes_on_with_what_it_has_attached() {
    let hosts = Hosts::new();
    let [mut a, mut b] = [0, 1].map(|at| hosts.file(at));
    a.lock(false).unwrap();
    a.store(open(1, 7), 0).unwrap();
    hosts.set(|shared| shared.is_away = true);
    // Another daemon of this host.
    let mut again = hosts.file(0);
    again.lock(false).unwrap();
    assert_eq!(again.load().unwrap().unwrap().record, open(1, 7));
    again.store(open(2, 7), 0).unwrap();
    again.store(closed(2, 7), 1).unwrap();
    again.store(open(3, 7), 2).unwrap();
    assert!(is_unreached(&again.release()));
    assert!(is_unreached(&b.lock(false)));
    assert!(is_unreached(&b.load()));
    hosts.set(|shared| shared.is_away = false);
    assert!(is_elsewhere(&b.lock(false), "node-a"));
    // What was kept alone is the later word.
    assert_eq!(hosts.file(0).load().unwrap().unwrap().record, open(3, 7));
    assert_eq!(
        b.load().unwrap().unwrap().record,
        open(3, 7),
        "the store has it now"
    );
}

/// Who takes the disk after this host's loss must find an open record.
#[test]
fn no_record_is_opened_while_the_store_is_away() {
    let hosts = Hosts::new();
    let mut a = hosts.file(0);
    a.lock(false).unwrap();
    a.store(closed(1, 7), 0).unwrap();
    hosts.set(|shared| shared.is_away = true);
    assert!(is_unreached(&a.store(open(2, 7), 1)));
    a.store(closed(2, 7), 2).unwrap();
    assert_eq!(a.load().unwrap().unwrap().record, closed(1, 7));
}

/// A record that was kept is nothing once the disk has been elsewhere.
#[test]
fn what_was_kept_does_not_come_back() {
    let hosts = Hosts::new();
    let [mut a, mut b] = [0, 1].map(|at| hosts.file(at));
    a.lock(false).unwrap();
    a.store(open(1, 7), 0).unwrap();
    a.store(closed(1, 7), 1).unwrap();
    a.release().unwrap();
    b.lock(false).unwrap();
    b.store(closed(2, 9), 0).unwrap();
    b.release().unwrap();
    hosts.set(|shared| shared.is_away = true);
    assert!(is_unreached(&a.lock(false)), "it was released");
    hosts.set(|shared| shared.is_away = false);
    a.lock(false).unwrap();
    assert_eq!(a.load().unwrap().unwrap().record, closed(2, 9));
}

#[test]
fn a_disk_that_is_handed_over_is_attached_at_its_next_host() {
    let hosts = Hosts::new();
    let [mut a, mut b] = [0, 1].map(|at| hosts.file(at));
    let to = |host: &str, epoch| Holder {
        host: host.to_owned(),
        epoch,
    };
    a.lock(false).unwrap();
    assert!(
        a.hand_to(to("node-a", 1), |before| before.is_none())
            .unwrap()
    );
    a.store(closed(1, 7), 0).unwrap();
    assert!(is_elsewhere(&b.lock(false), "node-a"));
    let follows = |before: Option<&Holder>| before.is_some_and(|before| before.epoch == 1);
    assert!(a.hand_to(to("node-b", 2), follows).unwrap());
    assert_eq!(hosts.attached().as_deref(), Some("node-b"));
    assert!(is_elsewhere(&a.lock(false), "node-b"));
    b.lock(false).unwrap();
    let found = b.load().unwrap().unwrap();
    assert_eq!(
        (found.record, found.holder),
        (closed(1, 7), Some(to("node-b", 2)))
    );
    // By an operator's word, from a host that is gone for good.
    let follows = |before: Option<&Holder>| before.is_some_and(|before| before.epoch == 2);
    assert!(a.hand_to(to("node-a", 3), follows).unwrap());
    assert_eq!(hosts.attached().as_deref(), Some("node-a"));
}

#[test]
fn a_damaged_record_is_never_none() {
    let hosts = Hosts::new();
    let mut a = hosts.file(0);
    a.lock(false).unwrap();
    hosts.set(|shared| {
        let record = shared.records.values_mut().next().unwrap();
        record.text[20] ^= 1;
    });
    for outcome in [a.lock(false), a.load().map(drop), a.release()] {
        assert!(
            matches!(outcome, Err(OwnerError::Damaged { .. })),
            "{outcome:?}"
        );
    }
}
