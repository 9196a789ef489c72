//! Memory and file as stores, and the faults of memory. etcd: `etcd_store` of the end-to-end tests.

use super::*;
use crate::conformance::check_all;
use futures_util::FutureExt as _;

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// What a store in memory answers, which never has to be waited for.
fn now<T>(answer: Answer<'_, T>) -> Result<T, StoreError> {
    answer.now_or_never().expect("memory answers at once")
}

#[tokio::test]
async fn memory_is_a_store() {
    let memory = Memory::new(1, Faults::default());
    let pass = |time| {
        memory.pass(time);
        std::future::ready(()).boxed()
    };
    check_all(&memory.client("a"), &pass).await;
}

#[tokio::test]
async fn a_file_is_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::new(&folder.path().join("cluster.json"));
    let pass = |time| tokio::time::sleep(time).boxed();
    check_all(&store, &pass).await;
}

#[tokio::test]
async fn a_file_is_shared_and_outlives_its_processes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.json");
    let [one, other] = [(); 2].map(|()| FileStore::new(&path));
    let at = key("a/count");
    let count = async |store: FileStore| {
        let mut counted = 0;
        while counted < 50 {
            let found = store.get(&at).await.unwrap();
            let before = found.as_ref().map_or(0, |found| found.value.len());
            let when = [Compare::as_found(&at, found.as_ref())];
            let then = [Write::put(at.clone(), vec![b'x'; before + 1])];
            let committed = store.commit(&when, &then).await.unwrap();
            counted += usize::from(committed != Committed::Refused);
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(count(one), count(other));
    let again = FileStore::new(&path);
    assert_eq!(again.get(&at).await.unwrap().unwrap().value.len(), 100);
    std::fs::write(&path, "{").unwrap();
    let damaged = again.get(&at).await;
    assert!(
        matches!(damaged, Err(StoreError::Damaged(_))),
        "{damaged:?}"
    );
    let unwritten = again.commit(&[], &[Write::Delete(at)]).await;
    assert!(matches!(unwritten, Err(StoreError::Damaged(_))));
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "{",
        "and is left alone"
    );
}

/// A commit whose answer is lost was done or was not, and who reads again knows.
#[test]
fn lost_answers_and_questions_leave_all_or_nothing() {
    let faults = Faults {
        lost_answers: 300,
        lost_questions: 300,
        ..Faults::default()
    };
    let memory = Memory::new(7, faults);
    let client = memory.client("a");
    let at = key("a/count");
    let (mut lost, mut lost_but_done) = (0, 0);
    for round in 0..1_000_u32 {
        let found = now(client.get(&at)).unwrap();
        let when = [Compare::as_found(&at, found.as_ref())];
        let value = round.to_string().into_bytes();
        let then = [Write::put(at.clone(), value.clone())];
        match now(client.commit(&when, &then)) {
            Ok(Committed::Done(revision)) => {
                let found = now(client.get(&at)).unwrap().unwrap();
                assert_eq!((found.revision, found.value), (revision, value));
            }
            Ok(Committed::Refused) => panic!("nobody else changes it"),
            Err(StoreError::Unknown(_)) => {
                lost += 1;
                let after = now(client.get(&at)).unwrap();
                let is_done = after.as_ref().is_some_and(|after| after.value == value);
                assert!(is_done || after == found);
                lost_but_done += u32::from(is_done);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(lost > 300 && lost_but_done > 100, "{lost} {lost_but_done}");
}

#[test]
fn who_is_cut_off_finds_nobody_and_its_lease_ends() {
    let memory = Memory::new(1, Faults::default());
    let [a, b] = ["a", "b"].map(|name| memory.client(name));
    let ttl = Duration::from_secs(15);
    let lease = now(a.lease(ttl)).unwrap();
    let at = key("hosts/a");
    let here = Write::Put {
        key: at.clone(),
        value: b"here".to_vec(),
        lease: Some(lease),
    };
    now(a.commit(&[], &[here])).unwrap();
    memory.cut("a");
    let away = now(a.renew(lease));
    assert!(matches!(away, Err(StoreError::Away(_))), "{away:?}");
    memory.pass(ttl / 2);
    assert!(now(b.get(&at)).unwrap().is_some());
    memory.pass(ttl / 2);
    assert_eq!(now(b.get(&at)).unwrap(), None);
    memory.heal("a");
    assert_eq!(now(a.renew(lease)), Ok(Renewed::Ended));
    let next = now(a.lease(ttl)).unwrap();
    assert_ne!(next, lease, "a lease's number does not come back");
}

#[test]
fn a_watch_says_when_it_has_skipped() {
    let memory = Memory::new(1, Faults::default());
    let client = memory.client("a");
    let write = |value: &str| {
        let write = Write::put(key("a/b"), value.as_bytes().to_vec());
        match now(client.commit(&[], &[write])).unwrap() {
            Committed::Done(revision) => revision,
            Committed::Refused => panic!("nothing was compared"),
        }
    };
    let first = write("1");
    let mut watching = now(client.watch(&Prefix::ALL, first)).unwrap();
    write("2");
    memory.compact();
    for _ in 0..2 {
        assert_eq!(now(watching.next()), Ok(Change::Skipped));
    }
    let mut late = now(client.watch(&Prefix::ALL, first)).unwrap();
    assert_eq!(now(late.next()), Ok(Change::Skipped));
    let last = write("3");
    let mut ahead = now(client.watch(&Prefix::ALL, Revision(last.0 + 5))).unwrap();
    assert_eq!(now(ahead.next()), Ok(Change::Skipped), "a store made anew");
    let mut right = now(client.watch(&Prefix::ALL, Revision(last.0 - 1))).unwrap();
    assert!(matches!(now(right.next()), Ok(Change::Put(_))));
    assert!(right.next().now_or_never().is_none(), "nothing follows");
}

#[test]
fn what_is_said_under_a_lease_stays_while_it_is_said_and_comes_back() {
    let memory = Memory::new(1, Faults::default());
    let client = memory.client("a");
    let at = key("hosts/a");
    let ttl = Duration::from_secs(15);
    let mut leased = Leased::new(at.clone());
    let mut say = |value: &str| {
        let saying = leased.say(&client, value.as_bytes().to_vec(), ttl);
        saying.now_or_never().expect("memory answers at once")
    };
    let found = || now(client.get(&at)).unwrap();
    assert!(say("one").unwrap());
    let first = found().unwrap();
    memory.pass(ttl / 2);
    assert!(say("one").unwrap());
    assert_eq!(
        found().unwrap().revision,
        first.revision,
        "it is not put again"
    );
    memory.pass(ttl / 2);
    assert!(say("two").unwrap());
    assert_eq!(found().unwrap().value, b"two");
    memory.pass(ttl);
    assert_eq!(found(), None);
    memory.cut("a");
    assert!(say("two").is_err());
    memory.heal("a");
    assert!(say("two").unwrap());
    assert_eq!(found().unwrap().value, b"two");
}
