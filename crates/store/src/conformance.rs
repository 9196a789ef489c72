//! What every form of a store does alike, as one body of checks.

use crate::{
    Change, Committed, Compare, Events, Key, Lease, PAGE_ENTRIES_MAX, Prefix, Renewed, Store,
    StoreError, VALUE_BYTES_MAX, WRITES_MAX, Write, everything,
};
use std::pin::Pin;
use std::time::{Duration, Instant};

/// Lets time pass, or waits for it.
pub type Pass<'a> = &'a (dyn Fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> + Sync);

/// Checks a store that is empty.
///
/// # Panics
/// If it is no store.
pub async fn check_all(store: &dyn Store, pass: Pass<'_>) {
    values(store).await;
    commits(store).await;
    pages(store).await;
    changes(store).await;
    leases(store, pass).await;
    limits(store).await;
}

fn key(text: &str) -> Key {
    Key::new(text).expect("a key")
}

fn prefix(text: &str) -> Prefix {
    Prefix::below(&key(text))
}

async fn put(store: &dyn Store, at: &Key, value: &[u8]) {
    let write = Write::put(at.clone(), value.to_vec());
    let committed = store.commit(&[], &[write]).await.expect("an answer");
    assert!(matches!(committed, Committed::Done(_)), "{at}");
}

async fn values(store: &dyn Store) {
    let at = key("values/a");
    assert_eq!(store.get(&at).await.expect("an answer"), None);
    put(store, &at, b"one").await;
    let first = store.get(&at).await.expect("an answer").expect("a value");
    assert_eq!(
        (&first.key, first.value.as_slice()),
        (&at, b"one".as_slice())
    );
    put(store, &at, &[0xff, 0, 7]).await;
    let second = store.get(&at).await.expect("an answer").expect("a value");
    assert_eq!(second.value, [0xff, 0, 7], "bytes that are no text");
    assert!(second.revision > first.revision, "the revision rises");
    let gone = [Write::Delete(at.clone()), Write::Delete(key("values/none"))];
    store.commit(&[], &gone).await.expect("an answer");
    assert_eq!(store.get(&at).await.expect("an answer"), None);
}

/// Of a commit all is done or nothing.
async fn commits(store: &dyn Store) {
    let [a, b] = ["commits/a", "commits/b"].map(key);
    let both = [
        Write::put(a.clone(), b"1".to_vec()),
        Write::put(b.clone(), b"1".to_vec()),
    ];
    let absent = [Compare::Absent(a.clone()), Compare::Absent(b.clone())];
    let done = store.commit(&absent, &both).await.expect("an answer");
    let found = store.get(&a).await.expect("an answer").expect("a value");
    assert_eq!(done, Committed::Done(found.revision));
    let again = store.commit(&absent, &both).await.expect("an answer");
    assert_eq!(again, Committed::Refused, "it is there");
    let next = [
        Write::put(a.clone(), b"2".to_vec()),
        Write::Delete(b.clone()),
    ];
    let when = [
        Compare::as_found(&a, Some(&found)),
        Compare::as_found(&b, None),
    ];
    let half = store.commit(&when, &next).await.expect("an answer");
    assert_eq!(half, Committed::Refused, "one of both does not hold");
    let unchanged = store.get(&a).await.expect("an answer").expect("a value");
    assert_eq!(unchanged, found, "so nothing was done");
    let when = [Compare::as_found(&a, Some(&found))];
    let done = store.commit(&when, &next).await.expect("an answer");
    assert!(matches!(done, Committed::Done(_)));
    assert_eq!(store.get(&b).await.expect("an answer"), None);
    let late = store.commit(&when, &next).await.expect("an answer");
    assert_eq!(late, Committed::Refused, "it was changed since");
}

/// All entries come, each once, by rising key, and none of another prefix.
async fn pages(store: &dyn Store) {
    let count = 2 * PAGE_ENTRIES_MAX + 1;
    let names: Vec<_> = (0..count)
        .map(|at| key(&format!("pages/{at:05}")))
        .collect();
    for some in names.chunks(WRITES_MAX) {
        let writes: Vec<_> = some
            .iter()
            .map(|name| Write::put(name.clone(), b"x".to_vec()))
            .collect();
        store.commit(&[], &writes).await.expect("an answer");
    }
    for beside in ["page", "pages2/x", "pages-/x"] {
        put(store, &key(beside), b"").await;
    }
    let below = prefix("pages");
    let first = store.page(&below, None).await.expect("an answer");
    assert_eq!((first.entries.len(), first.more), (PAGE_ENTRIES_MAX, true));
    let last = names.last();
    let end = store.page(&below, last).await.expect("an answer");
    assert_eq!((end.entries.len(), end.more), (0, false));
    let all = everything(store, &below).await.expect("an answer");
    let found: Vec<_> = all.entries.into_iter().map(|entry| entry.key).collect();
    assert_eq!(found, names);
}

async fn next(events: &mut Box<dyn Events>) -> Change {
    let next = tokio::time::timeout(Duration::from_secs(10), events.next());
    next.await.expect("a change").expect("an answer")
}

/// Who watches sees what follows a revision, in order, and nothing else.
async fn changes(store: &dyn Store) {
    let below = prefix("changes");
    let [a, b] = ["changes/a", "changes/b"].map(key);
    put(store, &a, b"before").await;
    let seen = everything(store, &below).await.expect("an answer").revision;
    put(store, &key("elsewhere/a"), b"").await;
    put(store, &b, b"missed").await;
    let mut events = store.watch(&below, seen).await.expect("an answer");
    let Change::Put(first) = next(&mut events).await else {
        panic!("a value was put");
    };
    assert_eq!(
        (&first.key, first.value.as_slice()),
        (&b, b"missed".as_slice())
    );
    let gone = [Write::Delete(a.clone())];
    let done = store.commit(&[], &gone).await.expect("an answer");
    let Committed::Done(revision) = done else {
        panic!("nothing was compared");
    };
    let deleted = Change::Deleted { key: a, revision };
    assert_eq!(next(&mut events).await, deleted);
}

/// What is put with a lease stays while that is renewed, and goes after its time.
async fn leases(store: &dyn Store, pass: Pass<'_>) {
    let ttl = Duration::from_secs(2);
    let at = key("leases/a");
    let write = |value: &[u8], lease| Write::Put {
        key: at.clone(),
        value: value.to_vec(),
        lease: Some(lease),
    };
    // On a machine that holds this up the lease ends because nobody renewed it in time: a try that shows nothing.
    let lease = loop {
        let from = Instant::now();
        let lease = store.lease(ttl).await.expect("a lease");
        let written = store.commit(&[], &[write(b"1", lease)]).await;
        written.expect("an answer");
        if is_kept(store, pass, lease, (ttl, from)).await {
            break lease;
        }
    };
    assert!(store.get(&at).await.expect("an answer").is_some());
    let seen = everything(store, &prefix("leases"))
        .await
        .expect("an answer");
    let mut events = store
        .watch(&prefix("leases"), seen.revision)
        .await
        .expect("an answer");
    // etcd ends a lease within a second after its time.
    pass(2 * ttl).await;
    assert!(matches!(next(&mut events).await, Change::Deleted { key, .. } if key == at));
    assert_eq!(store.get(&at).await, Ok(None));
    assert_eq!(store.renew(lease).await, Ok(Renewed::Ended));
    let late = store.commit(&[], &[write(b"2", lease)]).await;
    assert_eq!(late, Ok(Committed::Refused), "the lease has ended");

    let lease = store.lease(ttl).await.expect("a lease");
    let written = store.commit(&[], &[write(b"3", lease)]).await;
    written.expect("an answer");
    store.revoke(lease).await.expect("an answer");
    store.revoke(lease).await.expect("a second time is nothing");
    assert_eq!(store.get(&at).await, Ok(None));
}

/// Whether a lease could be renewed after each half of its time; false only if this came too late for that.
async fn is_kept(
    store: &dyn Store,
    pass: Pass<'_>,
    lease: Lease,
    times: (Duration, Instant),
) -> bool {
    let (ttl, mut from) = times;
    for _ in 0..3 {
        pass(ttl / 2).await;
        let asked = Instant::now();
        if store.renew(lease).await == Ok(Renewed::Stands) {
            from = asked;
            continue;
        }
        let held_up = from.elapsed();
        assert!(held_up >= ttl, "it ended within {held_up:?}");
        return false;
    }
    true
}

async fn limits(store: &dyn Store) {
    let at = key("limits/a");
    let most = vec![b'x'; VALUE_BYTES_MAX];
    put(store, &at, &most).await;
    let found = store.get(&at).await.expect("an answer").expect("a value");
    assert_eq!(found.value, most);
    let more = Write::put(at.clone(), vec![b'x'; VALUE_BYTES_MAX + 1]);
    let twice = Write::put(at.clone(), Vec::new());
    for wrong in [vec![more], vec![twice.clone(), twice]] {
        let refused = store.commit(&[], &wrong).await;
        assert!(
            matches!(refused, Err(StoreError::Invalid(_))),
            "{refused:?}"
        );
    }
    assert_eq!(store.get(&at).await, Ok(Some(found)), "and nothing changed");
}
