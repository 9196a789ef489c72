//! The disks as NBD exports: what handshakes see, and where negotiated clients go.
//!
//! A disk is an export by its name. A shared disk, a base image, is an export `DISK@VM` for each VM whose
//! settings name it, so that it is known who reads; a name has no `@`, so no two exports have one name.

use super::registry::{Entry, Phase, Registry};
use super::shards::Shards;
use super::vms::VmBook;
use crate::config::Name;
use frontend::nbd::{Client, Exports, Found, Listed, Negotiated, Refusal, export};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The registry's disks as exports.
pub(super) struct DiskExports {
    registry: Arc<Registry>,
    shards: Arc<Shards>,
    vms: Arc<VmBook>,
    stopping: AtomicBool,
}

impl DiskExports {
    pub(super) fn new(registry: Arc<Registry>, shards: Arc<Shards>, vms: Arc<VmBook>) -> Self {
        Self {
            registry,
            shards,
            vms,
            stopping: AtomicBool::new(false),
        }
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

impl DiskExports {
    fn meant(&self, export: &str) -> Option<Meant> {
        let Some((image, vm)) = export.split_once('@') else {
            let entry = self.registry.get_text(export)?;
            let is_one_vms = !entry.config.shared;
            return is_one_vms.then_some(Meant {
                entry,
                reader: None,
            });
        };
        let (entry, vm) = (self.registry.get_text(image)?, vm.parse().ok()?);
        let may = entry.config.shared && self.vms.may_read(&vm, &entry.config.name);
        if entry.config.shared && !may {
            let remedy = format!("hearth vm set {vm} --image {image}");
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
    fn list(&self, _client: &Client) -> Vec<Listed> {
        let attached = self.registry.all().into_iter();
        let attached = attached.filter(|entry| matches!(entry.phase, Phase::Attached { .. }));
        attached
            .flat_map(|entry| self.exports_of(entry))
            .map(|meant| Listed {
                name: meant.name(),
                description: meant.description(),
            })
            .collect()
    }

    /// There is no default export: which disk a VM gets must not depend on how many there are.
    fn find(&self, name: &str, _client: &Client) -> Result<Found, Refusal> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(Refusal::ShuttingDown);
        }
        let meant = self.meant(name).ok_or(Refusal::Unknown)?;
        let config = &meant.entry.config;
        match meant.entry.phase {
            Phase::Attached { geometry } => Ok(Found {
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

    fn connect(&self, client: Negotiated) {
        let Some(Meant { entry, reader }) = self.meant(&client.export) else {
            return;
        };
        let Some(shard) = self.shards.get(&entry.cache) else {
            return;
        };
        let name = entry.config.name;
        let reply = Box::new(move |result: Result<(), shard::ShardError>| {
            if let Err(error) = result {
                tracing::warn!(disk = %name, %error, "NBD client turned away");
            }
        });
        let reader = reader.map(|vm| vm.to_string());
        shard.handle().connect(entry.id, client, reader, reply);
    }
}
