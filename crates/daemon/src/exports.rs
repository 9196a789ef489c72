//! The disks as NBD exports: what handshakes see, and where negotiated clients go.
//!
//! A disk is an export by its name. A shared disk, a base image, is an export `DISK@VM` for each VM whose
//! settings name it, so that it is known who reads; a name has no `@`, so no two exports have one name.
//!
//! Who may open which: on the server's sockets the clients that the disk's configuration names, or
//! `nbd.clients`, or everybody if neither does; on a disk's own socket whoever can connect, and that
//! disk only. To anybody else an export is one that does not exist: it is neither found nor listed.

use super::registry::{Entry, Phase, Registry};
use super::resources::HostResources;
use super::shards::Shards;
use super::vms::VmBook;
use configuration::{ClientName, Name, Text};
use nbd_server::{Client, Exports, Found, Identity, Listed, Negotiated, Refusal, export};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which exports there are, and for whom.
enum Scope {
    /// All, each for the clients that its disk names, or for these. None: for everybody.
    Named(Option<Vec<Text<ClientName>>>),
    /// One attachment of a disk, for everybody.
    Disk { name: Name, serial: u64 },
}

/// The registry's disks as exports.
pub(super) struct DiskExports {
    registry: Arc<Registry>,
    shards: Arc<Shards>,
    vms: Arc<VmBook>,
    resources: Arc<HostResources>,
    stopping: Arc<AtomicBool>,
    scope: Scope,
}

impl DiskExports {
    /// All disks; those that name no clients are for `clients`.
    pub(super) fn new(
        registry: Arc<Registry>,
        shards: Arc<Shards>,
        vms: Arc<VmBook>,
        resources: Arc<HostResources>,
        clients: Option<Vec<Text<ClientName>>>,
    ) -> Self {
        Self {
            registry,
            shards,
            vms,
            resources,
            stopping: Arc::default(),
            scope: Scope::Named(clients),
        }
    }

    /// One attachment of a disk, for whoever asks.
    pub(super) fn only(&self, name: Name, serial: u64) -> Self {
        Self {
            registry: Arc::clone(&self.registry),
            shards: Arc::clone(&self.shards),
            vms: Arc::clone(&self.vms),
            resources: Arc::clone(&self.resources),
            stopping: Arc::clone(&self.stopping),
            scope: Scope::Disk { name, serial },
        }
    }

    /// What is known of the host's resources: whose process a client is.
    pub(super) fn resources(&self) -> &Arc<HostResources> {
        &self.resources
    }

    /// From now on no client comes through.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}

/// What a client means by an export's name: a disk, and of a shared one the VM that reads it.
struct Meant {
    entry: Entry,
    reader: Option<Name>,
}

impl Meant {
    fn description(&self) -> String {
        match &self.reader {
            Some(vm) => format!("base image, read by {vm}"),
            None => format!("disk of {}", self.entry.vm()),
        }
    }

    fn name(&self) -> String {
        match &self.reader {
            Some(vm) => image_export(&self.entry.config.name, vm),
            None => self.entry.config.name.to_string(),
        }
    }
}

/// The export through which a VM reads a base image.
pub(super) fn image_export(image: &Name, vm: &Name) -> String {
    format!("{image}@{vm}")
}

/// Whether a client has proved to be one of these.
fn is_one_of(client: &Client, names: &[Text<ClientName>]) -> bool {
    names
        .iter()
        .any(|Text(name)| match (name, &client.identity) {
            (ClientName::Certificate(name), Some(Identity::Certificate(shown))) => {
                shown.contains(name)
            }
            (ClientName::Key(name), Some(Identity::Key(used))) => name == used,
            (ClientName::Certificate(_) | ClientName::Key(_), _) => false,
        })
}

impl DiskExports {
    fn may_open(&self, client: &Client, entry: &Entry) -> bool {
        match &self.scope {
            Scope::Named(others) => {
                let named = entry.config.nbd.clients.as_ref().or(others.as_ref());
                named.is_none_or(|names| is_one_of(client, names))
            }
            Scope::Disk { name, serial } => entry.config.name == *name && entry.serial == *serial,
        }
    }

    /// The disk of this name, if there is one for this client.
    fn disk(&self, name: &str, client: &Client) -> Option<Entry> {
        let entry = self.registry.get_text(name)?;
        if self.may_open(client, &entry) {
            return Some(entry);
        }
        // What the client is told it could have guessed; the operator may want to know.
        tracing::info!(disk = name, peer = client.peer, identity = ?client.identity,
            "an NBD client asks for a disk that does not name it among its clients");
        None
    }

    fn meant(&self, export: &str, client: &Client) -> Option<Meant> {
        let Some((image, vm)) = export.split_once('@') else {
            let entry = self.disk(export, client)?;
            let is_one_vms = !entry.config.shared;
            return is_one_vms.then_some(Meant {
                entry,
                reader: None,
            });
        };
        let (entry, vm) = (self.disk(image, client)?, vm.parse().ok()?);
        let may = entry.config.shared && self.vms.may_read(&vm, &entry.config.name);
        if entry.config.shared && !may {
            let is_known = self.vms.names().contains(&vm)
                || self.registry.all().iter().any(|entry| entry.vm() == vm);
            let new = if is_known { "" } else { "--new " };
            let remedy = format!("hearth vm set {vm} {new}--image {image}");
            tracing::warn!(disk = image, %vm, remedy, "a VM whose settings do not name this image asks for it");
        }
        may.then_some(Meant {
            entry,
            reader: Some(vm),
        })
    }

    /// The exports of a disk.
    fn exports_of(&self, entry: Entry) -> Vec<Meant> {
        if !entry.config.shared {
            let reader = None;
            return vec![Meant { entry, reader }];
        }
        let readers = self.vms.names().into_iter();
        readers
            .filter(|vm| self.vms.may_read(vm, &entry.config.name))
            .map(|vm| Meant {
                entry: entry.clone(),
                reader: Some(vm),
            })
            .collect()
    }
}

impl Exports for DiskExports {
    fn list(&self, client: &Client) -> Vec<Listed> {
        let attached = self.registry.all().into_iter();
        let attached = attached
            .filter(|entry| matches!(entry.phase, Phase::Attached { .. } | Phase::Standby { .. }));
        attached
            .filter(|entry| self.may_open(client, entry))
            .flat_map(|entry| self.exports_of(entry))
            .map(|meant| Listed {
                name: meant.name(),
                description: meant.description(),
            })
            .collect()
    }

    /// There is no default export: which disk a VM gets must not depend on how many there are.
    fn find(&self, name: &str, client: &Client) -> Result<Found, Refusal> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(Refusal::ShuttingDown);
        }
        let meant = self.meant(name, client).ok_or(Refusal::Unknown)?;
        let config = &meant.entry.config;
        match meant.entry.phase {
            Phase::Attached { geometry } | Phase::Standby { geometry } => Ok(Found {
                export: export(
                    geometry.size,
                    config.read_only || config.shared || geometry.read_only,
                    geometry.can_discard,
                ),
                description: meant.description(),
            }),
            Phase::Attaching
            | Phase::Waiting { .. }
            | Phase::Forgetting { .. }
            | Phase::Detaching { .. } => Err(Refusal::Forbidden),
        }
    }

    fn connect(&self, connection: Negotiated, client: &Client) {
        let Some(Meant { entry, reader }) = self.meant(&connection.export, client) else {
            return;
        };
        let Some(shard) = self.shards.get(&entry.cache) else {
            return;
        };
        let vm = reader.clone().unwrap_or_else(|| entry.vm());
        self.resources.came(vm, client.process);
        let name = entry.config.name;
        let reply = Box::new(move |result: Result<(), shard::ShardError>| {
            if let Err(error) = result {
                tracing::warn!(disk = %name, %error, "NBD client turned away");
            }
        });
        let reader = reader.map(|vm| vm.to_string());
        shard
            .handle()
            .connect(entry.id, Box::new(connection), reader, reply);
    }
}
