//! What the shard is like now.

use super::Shard;
use crate::status::ShardStatus;

impl Shard {
    pub(super) fn status(&self) -> ShardStatus {
        let disks = self.disks.all().map(|(slot, disk)| {
            let front_ends = self.clients.status_of(slot, disk.counted_before());
            disk.status(slot, &self.cache, front_ends, self.throttles.of(slot))
        });
        let facts = self.cache.facts();
        let tenants = facts.tenants();
        let foreseen = tenants.iter().filter_map(|tenant| {
            let seen = facts.foreseen(tenant.slot)?;
            Some((tenant.slot, seen))
        });
        ShardStatus {
            foreseen: foreseen.collect(),
            name: self.config.name.clone(),
            flash: self.config.flash.clone(),
            cache: self.cache.facts().status(),
            stats: self.cache.facts().stats().clone(),
            opening: self.opening.clone(),
            scrub: facts.scrub(),
            turns: self.turns,
            request_memory: self.memory.status(),
            now: self.now,
            flash_latency: self.flash.latency(),
            detached_times: self.detached_times.clone(),
            disks: disks.collect(),
            kept: self.cache.facts().kept(),
            reports: self.cache.facts().tenant_reports(),
            host: self.cache.facts().host_report(),
            tenants,
        }
    }
}
