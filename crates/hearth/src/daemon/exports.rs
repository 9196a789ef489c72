//! The disks as NBD exports: what handshakes see, and where negotiated clients go.

use super::registry::{Entry, Phase, Registry};
use super::shards::Shards;
use frontend::nbd::{Client, Exports, Found, Listed, Negotiated, Refusal, export};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The registry's disks as exports.
pub(super) struct DiskExports {
    registry: Arc<Registry>,
    shards: Arc<Shards>,
    stopping: AtomicBool,
}

impl DiskExports {
    pub(super) fn new(registry: Arc<Registry>, shards: Arc<Shards>) -> Self {
        Self {
            registry,
            shards,
            stopping: AtomicBool::new(false),
        }
    }

    /// From now on no client comes through.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}

fn description(entry: &Entry) -> String {
    format!("disk of {}", entry.vm())
}

impl Exports for DiskExports {
    fn list(&self, _client: &Client) -> Vec<Listed> {
        let entries = self.registry.all();
        let attached = entries
            .iter()
            .filter(|entry| matches!(entry.phase, Phase::Attached { .. }));
        attached
            .map(|entry| Listed {
                name: entry.config.name.to_string(),
                description: description(entry),
            })
            .collect()
    }

    /// There is no default export: which disk a VM gets must not depend on how many there are.
    fn find(&self, name: &str, _client: &Client) -> Result<Found, Refusal> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(Refusal::ShuttingDown);
        }
        let entry = self.registry.get_text(name).ok_or(Refusal::Unknown)?;
        match entry.phase {
            Phase::Attached { geometry } => Ok(Found {
                export: export(
                    geometry.size,
                    entry.config.read_only || geometry.read_only,
                    geometry.can_discard,
                ),
                description: description(&entry),
            }),
            Phase::Attaching | Phase::Waiting { .. } | Phase::Detaching { .. } => {
                Err(Refusal::Forbidden)
            }
        }
    }

    fn connect(&self, client: Negotiated) {
        let Some(entry) = self.registry.get_text(&client.export) else {
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
        shard.handle().connect(entry.id, client, None, reply);
    }
}
