//! etcd as the store of a cluster: it does what every store does, and says so when it is away, loses its leader or forgets.

use anyhow::{Context as _, bail, ensure};
use e2e::{Etcd, Lab, scenario};
use std::time::{Duration, Instant};
use store::conformance::check_all;
use store::{
    Change, Committed, Compare, EtcdOptions, Key, Prefix, Revision, Store, StoreError, Write,
    everything,
};
use tokio::runtime::Runtime;

/// Keys of a cluster of 10,000 disks.
const MANY: usize = 10_000;

fn options(etcd: &Etcd, cluster: &str) -> EtcdOptions {
    EtcdOptions {
        endpoints: etcd.endpoints(),
        cluster: cluster.to_owned(),
        tls: None,
        user: None,
    }
}

/// Runs a body with an etcd of so many members, and a store in it.
fn with_etcd(
    members: usize,
    body: impl AsyncFnOnce(&Lab, Etcd, &store::Etcd) -> anyhow::Result<()>,
) {
    scenario(Etcd::TOOLS, |lab| {
        let etcd = Etcd::start(lab, members)?;
        Runtime::new()?.block_on(async {
            let store = store::Etcd::new(options(&etcd, "test"))?;
            body(lab, etcd, &store).await
        })
    });
}

fn key(text: &str) -> anyhow::Result<Key> {
    Ok(Key::new(text)?)
}

async fn put(store: &store::Etcd, at: &Key, value: &str) -> Result<Revision, StoreError> {
    let write = Write::put(at.clone(), value.as_bytes().to_vec());
    match store.commit(&[], &[write]).await? {
        Committed::Done(revision) => Ok(revision),
        Committed::Refused => Err(StoreError::Invalid("nothing was compared".to_owned())),
    }
}

#[test]
fn etcd_is_a_store_and_clusters_do_not_see_each_other() {
    with_etcd(1, async |_, etcd, store| {
        let pass = |time| -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(tokio::time::sleep(time))
        };
        check_all(store, &pass).await;
        let other = store::Etcd::new(options(&etcd, "test-2"))?;
        ensure!(everything(&other, &Prefix::ALL).await?.entries.is_empty());
        Ok(())
    });
}

#[test]
fn ten_thousand_keys_come_in_pages_and_a_change_that_was_compacted_is_told() {
    with_etcd(1, async |_, etcd, store| {
        let names: Vec<_> = (0..MANY)
            .map(|at| key(&format!("many/{at:05}")))
            .collect::<Result<_, _>>()?;
        let mut first = None;
        for some in names.chunks(store::WRITES_MAX) {
            let value = vec![b'x'; 512];
            let writes: Vec<_> = some
                .iter()
                .map(|name| Write::put(name.clone(), value.clone()))
                .collect();
            let Committed::Done(revision) = store.commit(&[], &writes).await? else {
                bail!("nothing was compared");
            };
            first.get_or_insert(revision);
        }
        let all = everything(store, &Prefix::below(&key("many")?)).await?;
        ensure!(all.entries.len() == MANY, "{} came", all.entries.len());
        etcd.control(&["compact", &all.revision.0.to_string()])?;
        let first = first.context("a commit")?;
        let mut events = store.watch(&Prefix::ALL, first).await?;
        ensure!(events.next().await? == Change::Skipped);
        let mut events = store.watch(&Prefix::ALL, all.revision).await?;
        let last = put(store, &names[0], "again").await?;
        let Change::Put(seen) = events.next().await? else {
            bail!("a value was put");
        };
        ensure!(seen.revision == last);
        Ok(())
    });
}

#[test]
fn an_etcd_that_stands_still_is_away_and_goes_on() {
    with_etcd(1, async |_, etcd, store| {
        let at = key("a/b")?;
        let before = put(store, &at, "before").await?;
        etcd.pause()?;
        let began = Instant::now();
        let read = store.get(&at).await;
        ensure!(matches!(read, Err(StoreError::Away(_))), "{read:?}");
        let found = put(store, &at, "while it stands").await;
        ensure!(matches!(found, Err(StoreError::Unknown(_))), "{found:?}");
        let waited = began.elapsed();
        ensure!(waited < Duration::from_secs(20), "waited {waited:?}");
        etcd.go_on()?;
        let is_back = async {
            loop {
                if let Ok(Some(found)) = store.get(&at).await {
                    break found;
                }
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(20), is_back).await?;
        ensure!(found.revision >= before);
        put(store, &at, "after").await?;
        Ok(())
    });
}

/// Each commit is done once or not at all, also around the death of the leader, and who asked can find out.
#[test]
fn the_death_of_a_leader_loses_no_commit() {
    with_etcd(3, async |lab, mut etcd, store| {
        let at = key("counter/a")?;
        let mut counted = 0_u64;
        let mut killed = None;
        let began = Instant::now();
        while counted < 300 {
            ensure!(began.elapsed() < Duration::from_mins(1), "no leader");
            if counted == 100 && killed.is_none() {
                let leader = etcd.leader()?;
                etcd.kill(leader)?;
                killed = Some(leader);
            }
            let Ok(found) = store.get(&at).await else {
                continue;
            };
            let there = found.as_ref().map_or("0", |found| {
                std::str::from_utf8(&found.value).unwrap_or_default()
            });
            let there: u64 = there.parse()?;
            ensure!(
                there == counted || there == counted + 1,
                "{there} of {counted}"
            );
            let next = (there + 1).to_string().into_bytes();
            let when = [Compare::as_found(&at, found.as_ref())];
            match store.commit(&when, &[Write::put(at.clone(), next)]).await {
                Ok(Committed::Done(_)) => counted = there + 1,
                Ok(Committed::Refused) => bail!("nobody else counts"),
                // It is there when it is read again, or it is not.
                Err(StoreError::Unknown(_)) => counted = there,
                Err(error) => bail!(error),
            }
        }
        etcd.again(lab, killed.context("a leader was killed")?)?;
        let found = store.get(&at).await?.context("the counter")?;
        ensure!(found.value == b"300");
        Ok(())
    });
}
