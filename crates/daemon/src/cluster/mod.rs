//! This host in its cluster: the store that the hosts share, what this one says of itself there, and the whole as any
//! host sees it.
//!
//! ```text
//!   records    who has which disk, for those whose origin is no file     disks/ID/owner
//!   presence   this host, by a lease                                     hosts/HOST
//!   board      what this host's VMs want of its flash, by a lease           load/HOST
//!   view       all hosts, disks and loads, for an operator
//!   moves      VMs on their way between hosts, for an operator            moves/VM
//!   observed   what has changed of all that, as events and metrics
//! ```
//!
//! Nothing that a VM waits for asks the store.

mod board;
mod driven;
mod moves;
mod observed;
mod presence;
mod records;
mod view;

pub(super) use board::LoadBoard;
pub(super) use driven::Driven;
pub(super) use moves::MoveBook;
pub(super) use observed::{ClusterNumbers, Ended, OUTCOMES, Observed, ROLES, STAGES};
pub(super) use view::View;

use crate::registry::Registry;
use crate::shards::Shards;
use configuration::{Auto, Config, StoreConfig};
use placement::Name;
use records::Records;
use shard::ClusterRecords;
use std::path::Path;
use std::sync::Arc;
use store::{FileStore, Store, StoreError};
use units::Bytes;

/// Bytes that a network of 1 Gbit/s takes in a second.
const GIGABIT: Bytes = Bytes::new(125_000_000);

/// This host in its cluster.
#[derive(Clone)]
pub(super) struct Cluster {
    store: Arc<dyn Store>,
    /// What answers call the store.
    kind: &'static str,
    name: String,
    here: String,
    /// What a move's transfer gets in a second.
    bandwidth: Bytes,
}

impl Cluster {
    /// The cluster of a configuration, if it has one. Nothing is asked of the store yet.
    ///
    /// # Errors
    /// If this program or the store does not take what is configured.
    pub(super) fn of(config: &Config) -> Result<Option<Self>, StoreError> {
        if !config.store.is_on() {
            return Ok(None);
        }
        let (store, kind) = open(&config.store)?;
        Ok(Some(Self {
            store,
            kind,
            name: config.store.cluster.clone(),
            here: host_of(config),
            bandwidth: bandwidth_of(config),
        }))
    }

    /// Where the records of disks are.
    pub(super) fn records(&self) -> Arc<dyn ClusterRecords> {
        Arc::new(Records::new(Arc::clone(&self.store), self.here.clone()))
    }

    /// Says that this host is there for as long as this runs.
    pub(super) async fn keep_present(self, registry: Arc<Registry>, shards: Arc<Shards>) {
        presence::keep(&self, &registry, &shards).await;
    }

    /// Where this host says what its VMs want of its flash.
    pub(super) fn load_board(&self) -> LoadBoard {
        LoadBoard::new(self.clone(), self.bandwidth)
    }

    /// Where all is seen.
    pub(super) fn view(&self) -> View {
        View::new(self.clone())
    }

    /// What this host is called.
    ///
    /// # Errors
    /// If the system's name cannot be one in a cluster.
    pub(super) fn me(&self) -> Result<Name, StoreError> {
        Name::new(&self.here).map_err(|error| {
            StoreError::Invalid(format!("{error}; or name this host in store.host"))
        })
    }

    /// What the hosts share.
    pub(super) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Where moves are seen and begun.
    pub(super) fn move_book(&self, me: Name, view: Arc<View>, driven: Arc<Driven>) -> MoveBook {
        MoveBook::new(self.clone(), me, (view, driven))
    }
}

/// What a host is called in its cluster.
pub(super) fn host_of(config: &Config) -> String {
    let named = config.store.host.clone().or(config.link.name.clone());
    named.unwrap_or_else(shard::host_name)
}

/// What `[link]` lets caches have of the network, or what a network of 1 Gbit/s has.
fn bandwidth_of(config: &Config) -> Bytes {
    match config.link.rate.0 {
        Auto::Fixed(rate) => rate,
        Auto::Auto => GIGABIT,
    }
}

fn open(config: &StoreConfig) -> Result<(Arc<dyn Store>, &'static str), StoreError> {
    match &config.file {
        Some(path) => Ok((Arc::new(in_file(path)?), "file")),
        None => Ok((in_etcd(config)?, "etcd")),
    }
}

fn in_file(path: &Path) -> Result<FileStore, StoreError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let is_there = folder.is_dir();
    is_there.then(|| FileStore::new(path)).ok_or_else(|| {
        let folder = folder.display();
        StoreError::Invalid(format!("the folder {folder} of store.file is missing"))
    })
}

#[cfg(feature = "etcd")]
fn in_etcd(config: &StoreConfig) -> Result<Arc<dyn Store>, StoreError> {
    use store::{Etcd, EtcdOptions, TlsFiles};

    let client = config.certificate.clone().zip(config.key.clone());
    let tls = config.authority.clone();
    let tls = tls.map(|authority| TlsFiles { authority, client });
    let etcd = Etcd::new(EtcdOptions {
        endpoints: config.etcd.clone(),
        cluster: config.cluster.clone(),
        tls,
        user: config.user.clone().zip(config.password_file.clone()),
    })?;
    Ok(Arc::new(etcd))
}

#[cfg(not(feature = "etcd"))]
fn in_etcd(_: &StoreConfig) -> Result<Arc<dyn Store>, StoreError> {
    Err(StoreError::Invalid(
        "this program was built without etcd: build it with `--features etcd`, as packages are"
            .to_owned(),
    ))
}
