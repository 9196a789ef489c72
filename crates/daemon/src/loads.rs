//! What this host's VMs want of its flash, said in the cluster's store once a window: what plans are made of.
//!
//! ```text
//!   what an operator sees (VMs, disks, caches, resources) ─► HostReport ─► load/HOST
//! ```

use super::cluster::{LoadBoard, Observed};
use super::control::Control;
use super::system::seconds_since_1970;
use api::resources::{ResourceSample, VmUsage};
use api::roaming::{HandOverOutcome, RoamingDisks};
use api::types::{DiskState, DiskStatus, Disks, Latency, Status};
use api::vms::{Curve, Share, VmStatus, Vms};
use configuration::Name;
use placement::limits::{CURVE_POINTS_MAX, REPORT_VERSION, WINDOWS_MAX};
use placement::{HostReport, Resources, VmReport};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use units::BLOCK_BYTES;
use units::number::{count_near, real};

/// A window where no VM says how long one is.
const WINDOW: Duration = Duration::from_mins(5);
/// The shortest time between two reports.
const WINDOW_LEAST: Duration = Duration::from_secs(1);
/// The longest time between two looks whether there is something to say.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The part of the flash that is held back for surges: `CloudCache`, section 6.
const RESERVE: f64 = 0.1;
/// By what part a move may slow the neighbours down: what moves are measured against (book: "Performance").
const SLOWDOWN: f64 = 0.1;

/// What an operator sees of this host at one time.
struct Seen {
    status: Status,
    vms: Vms,
    disks: Disks,
    roaming: RoamingDisks,
    used: Option<ResourceSample>,
}

/// Says it for as long as this runs.
pub(super) async fn publish(control: Arc<Control>, mut board: LoadBoard, observed: Arc<Observed>) {
    let mut reports = Reports::default();
    loop {
        let (status, disks, vms, roaming) = control.observer().snapshot().await;
        let seen = Seen {
            status,
            vms,
            disks,
            roaming,
            used: control.disk_sockets().resources().shown(1).samples.pop(),
        };
        let window = window_of(&seen.vms);
        if reports.is_due(&seen, window)
            && let Some(report) = reports.report(&board, &seen, seconds_since_1970())
        {
            observed.says(&report);
            if let Err(error) = board.say(&report, window).await {
                // The presence of this host says so aloud; the next window is said again.
                tracing::debug!(%error, "this host's load is not known to the cluster");
            }
        }
        tokio::time::sleep(window.min(LOOK_EVERY)).await;
    }
}

/// The shortest window of a VM.
fn window_of(vms: &Vms) -> Duration {
    let shares = vms.vms.iter().flat_map(|vm| &vm.shares);
    let windows = shares.map(|share| share.demand.window_seconds);
    let shortest = windows
        .filter(|seconds| *seconds > 0.0)
        .min_by(f64::total_cmp);
    let window = shortest.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    window.unwrap_or(WINDOW).max(WINDOW_LEAST)
}

/// What was said before.
#[derive(Default)]
struct Reports {
    /// Demand of earlier windows, the newest first.
    demand: VecDeque<u64>,
    /// Reads of each VM and those that hit, until now.
    reads: BTreeMap<String, (u64, u64)>,
    /// When something was said last, and of which VMs.
    last: Option<(Instant, Vec<Name>)>,
}

impl Reports {
    /// Whether a window has ended, or a VM has come or gone.
    fn is_due(&mut self, seen: &Seen, window: Duration) -> bool {
        let here: Vec<_> = running(seen).map(|vm| vm.name.clone()).collect();
        let is_said = |(at, of): &(Instant, Vec<Name>)| *of == here && at.elapsed() < window;
        if self.last.as_ref().is_some_and(is_said) {
            return false;
        }
        self.last = Some((Instant::now(), here));
        true
    }

    /// This window's report; none before a cache says how much flash is divided.
    fn report(&mut self, board: &LoadBoard, seen: &Seen, now: u64) -> Option<HostReport> {
        let policies = seen
            .status
            .caches
            .iter()
            .filter_map(|cache| cache.policy.as_ref());
        let divided: u64 = policies.map(|policy| policy.capacity_blocks).sum();
        let images = seen
            .vms
            .images
            .iter()
            .filter_map(|image| image.share.as_ref());
        let images: u64 = images.map(wanted_blocks).sum();
        let capacity = divided.saturating_sub(images);
        if capacity == 0 {
            return None;
        }
        let caches = &seen.status.caches;
        let vms: Vec<_> = running(seen).map(|vm| self.vm(vm, seen, now)).collect();
        let demand = vms.iter().map(|vm| vm.rwss_bytes).sum();
        let report = HostReport {
            version: REPORT_VERSION,
            host: board.here().to_owned(),
            capacity_bytes: capacity * BLOCK_BYTES,
            reserve: RESERVE,
            demand_before_bytes: self.demand.iter().copied().collect(),
            free: free(seen.used.as_ref()),
            origins: seen
                .disks
                .disks
                .iter()
                .map(|disk| disk.id.clone())
                .collect(),
            hit_us: mean_us(caches.iter().map(|cache| &cache.flash_latency.read)),
            miss_us: mean_us(
                caches
                    .iter()
                    .map(|cache| &cache.request_latency.origin_read),
            ),
            bandwidth_bytes: board.bandwidth().get(),
            slowdown: SLOWDOWN,
            vms,
        };
        self.demand.push_front(demand);
        self.demand.truncate(WINDOWS_MAX);
        Some(report)
    }

    fn vm(&mut self, vm: &VmStatus, seen: &Seen, now: u64) -> VmReport {
        let name = vm.name.to_string();
        let own = || disks_of(vm, &seen.disks);
        let dirty = own().filter_map(|disk| disk.write_back.as_ref());
        let used = seen.used.as_ref();
        let used = used.and_then(|used| used.vms.iter().find(|used| used.vm == name));
        let busiest = vm.shares.iter().max_by(|one, other| {
            let reads = |share: &Share| share.demand.reads_per_second;
            reads(one).total_cmp(&reads(other))
        });
        VmReport {
            rwss_bytes: vm.shares.iter().map(wanted_blocks).sum::<u64>() * BLOCK_BYTES,
            dirty_bytes: dirty.map(|back| back.dirty_bytes).sum(),
            needs: used.map(needs).unwrap_or_default(),
            curve: busiest.map_or_else(Vec::new, |share| curve(&share.curve)),
            reads_per_second: vm
                .shares
                .iter()
                .map(|share| share.demand.reads_per_second)
                .sum(),
            hits: self.hits(vm),
            moved_at_s: moved_ago(&name, &seen.roaming).map(|ago| now.saturating_sub(ago)),
            pinned: !own().all(|disk| roams(disk, &seen.roaming)),
            group: None,
            origins: own().map(|disk| disk.id.clone()).collect(),
            vm: name,
        }
    }

    /// The part of the VM's reads that hit since the last report.
    fn hits(&mut self, vm: &VmStatus) -> Option<f64> {
        let sum = |of: fn(&Share) -> u64| vm.shares.iter().map(of).sum::<u64>();
        let reads = sum(|share| share.blocks.reads);
        let hits = sum(|share| share.blocks.flash_hits + share.blocks.memory_hits);
        let before = self.reads.insert(vm.name.to_string(), (reads, hits));
        let (reads_before, hits_before) = before?;
        let reads = reads.checked_sub(reads_before)?;
        let hits = hits.checked_sub(hits_before)?;
        (reads > 0).then(|| (real(hits) / real(reads)).min(1.0))
    }
}

/// What is foreseen that it will want, or what it wanted while nothing is foreseen yet.
fn wanted_blocks(share: &Share) -> u64 {
    let demand = share.demand;
    demand
        .predicted_blocks
        .map_or(demand.reused_blocks, |blocks| count_near(blocks.max(0.0)))
}

/// At most 16 sizes in bytes, growing, with miss ratios that never grow.
fn curve(curve: &Curve) -> Vec<(u64, f64)> {
    let mut points: Vec<(u64, f64)> = Vec::new();
    let mut least = 1.0_f64;
    for point in &curve.points {
        let bytes = point.size_blocks * BLOCK_BYTES;
        if bytes <= points.last().map_or(0, |(bytes, _)| *bytes) {
            continue;
        }
        least = least.min((1.0 - point.read_hit_ratio).clamp(0.0, 1.0));
        points.push((bytes, least));
    }
    let count = points.len();
    if count <= CURVE_POINTS_MAX {
        return points;
    }
    let taken = (1..=CURVE_POINTS_MAX).map(|at| at * count / CURVE_POINTS_MAX - 1);
    taken.map(|at| points[at]).collect()
}

/// Its disks that are not base images.
fn disks_of<'a>(vm: &'a VmStatus, disks: &'a Disks) -> impl Iterator<Item = &'a DiskStatus> {
    let of_vm = |disk: &&DiskStatus| vm.disks.contains(&disk.name);
    disks.disks.iter().filter(of_vm)
}

/// The VMs that have a disk attached here.
fn running(seen: &Seen) -> impl Iterator<Item = &VmStatus> {
    let is_attached = |disk: &DiskStatus| disk.state == DiskState::Attached;
    let vms = seen.vms.vms.iter();
    vms.filter(move |vm| disks_of(vm, &seen.disks).any(is_attached))
}

fn roams(disk: &DiskStatus, roaming: &RoamingDisks) -> bool {
    disk.read_only || roaming.disks.iter().any(|other| other.name == disk.name)
}

/// How many seconds ago it came from another host, if it did since the daemon's start.
fn moved_ago(vm: &str, roaming: &RoamingDisks) -> Option<u64> {
    let of_vm = roaming.disks.iter().filter(|disk| disk.vm.as_str() == vm);
    let last = of_vm.filter_map(|disk| disk.last_hand_over.as_ref());
    let taken = last.filter(|last| last.outcome == HandOverOutcome::Taken);
    taken
        .map(|last| count_near(last.ago_seconds.max(0.0)))
        .min()
}

/// The mean of all, in microseconds; 0 while nothing was measured.
fn mean_us<'a>(all: impl Iterator<Item = &'a Latency> + Clone) -> f64 {
    let count: u64 = all.clone().map(|latency| latency.count).sum();
    let seconds: f64 = all.map(|latency| latency.sum_seconds).sum();
    if count == 0 {
        0.0
    } else {
        seconds / real(count) * 1e6
    }
}

/// What the host has left; nothing where no monitor says so, so that no VM comes which needs something.
fn free(used: Option<&ResourceSample>) -> Resources {
    let Some(ResourceSample { host, .. }) = used else {
        return Resources::default();
    };
    let left = |share: f64| (1.0 - share).clamp(0.0, 1.0);
    let memory = if host.memory_share > 0.0 {
        real(host.memory_bytes)
    } else {
        0.0
    };
    Resources {
        cpu_millis: count_near(left(host.cpu_share) * millis_of_host()),
        memory_bytes: count_near(left(host.memory_share) * memory),
    }
}

fn needs(vm: &VmUsage) -> Resources {
    Resources {
        cpu_millis: count_near(vm.cpu_share.max(0.0) * millis_of_host()),
        memory_bytes: vm.memory_bytes,
    }
}

/// Thousandths of processors that the host has.
fn millis_of_host() -> f64 {
    let count = std::thread::available_parallelism();
    1_000.0 * real(count.map_or(1, std::num::NonZero::get) as u64)
}
