//! The host at a glance, and rows of its VMs and disks.

use super::Observer;
use crate::glance::{Asked, DiskOrder, Glance, VmOrder, flash, latency};
use crate::shards::Pulse;
use api::overview::Overview;
use api::rows::{DiskRows, VmRows};
use api::vms::Images;

/// A look at many things of an observer at once.
pub(crate) struct AtAGlance<'a>(&'a Observer);

impl<'a> AtAGlance<'a> {
    /// What this observer sees.
    pub(crate) fn of(observer: &'a Observer) -> Self {
        Self(observer)
    }

    /// The host at a glance, which is in this cluster.
    pub(crate) async fn overview(&self, cluster: Option<String>) -> Overview {
        let (entries, pulses) = (self.0.registry.all(), self.0.shards.pulses().await);
        let glance = Glance::new(&entries, &pulses);
        let caches = pulses
            .iter()
            .map(|(shard, pulse)| self.0.cache(shard, pulse));
        let caches: Vec<_> = caches.collect();
        let (vms, images) = glance.vms_and_images(&self.0.remembered.vms().names());
        let shards = pulses.iter().filter_map(|(_, pulse)| match pulse {
            Pulse::Status(status) => Some(status.as_ref()),
            Pulse::Opening | Pulse::Silent => None,
        });
        Overview {
            health: glance.health(&caches, vms),
            cluster,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: self.0.started.elapsed().as_secs_f64(),
            disks: entries.len() as u64,
            vms,
            images,
            reads: glance.reads(),
            latency: latency(shards),
            dirty: glance.dirty(),
            flash: flash(&caches),
        }
    }

    /// Some VMs.
    pub(crate) async fn vm_rows(&self, order: VmOrder, asked: &Asked) -> VmRows {
        let (entries, pulses) = (self.0.registry.all(), self.0.shards.pulses().await);
        let known = self.0.remembered.vms().names();
        Glance::new(&entries, &pulses).vm_rows(&known, order, asked)
    }

    /// Some disks; only those that keep something from their origins, or may, if `back`.
    pub(crate) async fn disk_rows(&self, back: bool, order: DiskOrder, asked: &Asked) -> DiskRows {
        let (entries, pulses) = (self.0.registry.all(), self.0.shards.pulses().await);
        Glance::new(&entries, &pulses).disk_rows(back, order, asked)
    }

    /// Every base image.
    pub(crate) async fn images(&self) -> Images {
        let shards = self.0.shard_states().await;
        let ledger = self.0.ledger();
        let entries = self.0.registry.all();
        Images {
            images: self.0.seen(&entries, &shards, &ledger).images(),
        }
    }
}
