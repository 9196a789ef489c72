//! What a shard tells about itself: plain values, copied out of its thread.

use crate::latency::{Histogram, ReadWrite};
use cache::{
    DirtyStatus, DiskStats, DropReason, Foreseen, Hinted, Kept, TenantStatus, ViewStats, WriteBack,
    WritePolicy,
};
use frontend::budget::BudgetStatus;
use frontend::{Counters, FrontEnd, Report};
use std::collections::BTreeMap;
use std::path::PathBuf;
use throttle::{Limits, Throttled};
use units::{Bytes, DiskId, Duration, Instant, TenantSlot};

/// A shard at a moment.
#[derive(Clone, Debug)]
pub struct ShardStatus {
    /// What it is called.
    pub name: String,
    /// Its flash.
    pub flash: PathBuf,
    /// Whether the flash is in use, and if not, why; what is in it.
    pub cache: cache::Status,
    /// Counters since the start.
    pub stats: cache::Stats,
    /// How opening the flash went.
    pub opening: Opening,
    /// How far the scrub is.
    pub scrub: cache::ScrubStatus,
    /// Turns of its loop since the start: an idle shard makes none.
    pub turns: u64,
    /// How long flash operations have taken.
    pub flash_latency: ReadWrite,
    /// Memory that its clients have allocated.
    pub request_memory: BudgetStatus,
    /// The time of its clock.
    pub now: Instant,
    /// How long the requests of disks that have been detached had taken.
    pub detached_times: RequestTimes,
    /// Its disks, by slot.
    pub disks: Vec<DiskStatus>,
    /// What the flash has of disks that are not attached; none if it cannot be used.
    pub kept: Option<Vec<Kept>>,
    /// VMs and base images, by slot.
    pub tenants: Vec<TenantStatus>,
    /// What the tenancy knows of each that has a disk here; nothing while it is off.
    pub reports: Vec<tenancy::Report>,
    /// What became of guesses of what each reads next; nothing while nobody guesses.
    pub foreseen: BTreeMap<TenantSlot, Foreseen>,
    /// What it knows of all together.
    pub host: Option<tenancy::HostReport>,
}

/// How opening the flash went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// How long it took.
    pub time: Duration,
    /// Blocks that came back.
    pub blocks: u64,
    /// Blocks that should have come back and were lost.
    pub blocks_lost: u64,
    /// Why nothing came back although something was there.
    pub cold: Option<String>,
    /// Whether the last life ended with a clean stop.
    pub clean: bool,
}

/// Where a disk is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskPhase {
    /// It takes requests.
    Serving,
    /// It takes no more requests; those in flight are waited for.
    Detaching,
}

/// A disk's connections over one front end at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontEndStatus {
    /// Which.
    pub front_end: FrontEnd,
    /// How many connections there are.
    pub connections: usize,
    /// Those of them that wait for another one's queues to stop.
    pub waiting: usize,
    /// Queues that run.
    pub queues: usize,
    /// Requests that are not answered yet.
    pub in_flight: usize,
    /// Counters since the disk was attached.
    pub counters: Counters,
}

impl FrontEndStatus {
    /// One without connections.
    pub(crate) fn unused(front_end: FrontEnd, counters: Counters) -> Self {
        Self {
            front_end,
            connections: 0,
            waiting: 0,
            queues: 0,
            in_flight: 0,
            counters,
        }
    }

    /// Counts a connection.
    pub(crate) fn add(&mut self, report: Report, in_flight: usize) {
        self.connections += 1;
        self.waiting += usize::from(report.is_waiting);
        self.queues += report.queues;
        self.in_flight += in_flight;
        self.counters += report.counters;
    }
}

/// A disk at a moment.
#[derive(Clone, Debug)]
pub struct DiskStatus {
    /// Who it is.
    pub id: DiskId,
    /// What people call it.
    pub name: String,
    /// Its size.
    pub size: Bytes,
    /// What writes do.
    pub policy: WritePolicy,
    /// How writes reach the origin if they do so later: as it was asked for last.
    pub write_back: WriteBack,
    /// What its origin lacks.
    pub dirty: DirtyStatus,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whose share of the flash it takes.
    pub tenant: String,
    /// Whether it is a base image that VMs share.
    pub shared: bool,
    /// What each VM asked of it, if it is shared.
    pub views: Vec<(TenantSlot, ViewStats)>,
    /// Where it is in its life.
    pub phase: DiskPhase,
    /// Clients, over all front ends.
    pub connections: usize,
    /// The same by front end, of those over which there were any.
    pub front_ends: Vec<FrontEndStatus>,
    /// Requests that are not answered yet.
    pub in_flight: u32,
    /// Whether its origin can be reached, as far as is known.
    pub origin_connected: bool,
    /// Bytes of changes that were given up and may still happen at its origin: requests of their
    /// ranges wait.
    pub late_bytes: Bytes,
    /// Blocks that were on flash when it was attached.
    pub warm_blocks: u64,
    /// Why blocks on flash were not used when it was attached.
    pub dropped: Option<DropReason>,
    /// Counters since it was attached.
    pub stats: DiskStats,
    /// What its guest has said of it.
    pub hinted: Hinted,
    /// Requests that ended with an error.
    pub failed_requests: u64,
    /// What its guests may ask in a second.
    pub limits: Limits,
    /// What has waited for that.
    pub throttled: Throttled,
    /// How long its guests' requests have taken.
    pub guest_latency: GuestLatency,
    /// How long its origin's operations have taken.
    pub origin_latency: ReadWrite,
}

/// How long requests of disks have taken, and what they needed of the origins.
#[derive(Clone, Debug, Default)]
pub struct RequestTimes {
    /// Guests' requests.
    pub guest: GuestLatency,
    /// Operations of origins.
    pub origin: ReadWrite,
}

impl RequestTimes {
    /// Counts all that a disk has counted.
    pub(crate) fn add(&mut self, guest: &GuestLatency, origin: &ReadWrite) {
        self.guest.read.add(&guest.read);
        self.guest.write.add(&guest.write);
        self.guest.flush.add(&guest.flush);
        self.origin.add(origin);
    }
}

impl DiskStatus {
    /// Its connections over one front end.
    pub fn over(&self, front_end: FrontEnd) -> FrontEndStatus {
        let mut all = self.front_ends.iter();
        let used = all.find(|one| one.front_end == front_end).copied();
        used.unwrap_or(FrontEndStatus::unused(front_end, Counters::default()))
    }

    /// How long its requests have taken.
    pub fn request_times(&self) -> RequestTimes {
        RequestTimes {
            guest: self.guest_latency.clone(),
            origin: self.origin_latency.clone(),
        }
    }
}

impl ShardStatus {
    /// How long the requests of all disks have taken since the start, detached disks included.
    pub fn request_times(&self) -> RequestTimes {
        let mut times = self.detached_times.clone();
        for disk in &self.disks {
            times.add(&disk.guest_latency, &disk.origin_latency);
        }
        times
    }
}

/// How long guests' requests have taken, from parsed request to queued answer.
#[derive(Clone, Debug, Default)]
pub struct GuestLatency {
    /// Reads.
    pub read: Histogram,
    /// Writes, discards and write-zeroes.
    pub write: Histogram,
    /// Flushes.
    pub flush: Histogram,
}
