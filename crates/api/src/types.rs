//! What travels over the admin API, as types: the `OpenAPI` document is made of these, the
//! server sends them and the CLI reads them.
//!
//! Units are the last word of a name. Counters never go down; a disk's count from its attachment.

pub use super::counters::DiskCounters;
pub use super::front_ends::Listener;
use super::front_ends::{NbdSocket, RequestMemory, VhostUser};
use super::limits::DiskLimits;
pub use super::problem::Problem;
use super::scrub::ScrubStatus;
use super::vms::PolicyStatus;
use super::write_back::{KeptOnFlash, WriteBackStatus};
use configuration::{Name, ReclaimPolicy, WritePolicy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The daemon and its caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// How long it has run.
    pub uptime_seconds: f64,
    /// Disks that are attached.
    pub disks: u64,
    /// NBD connections to disks.
    pub nbd_connections: u64,
    /// Connections to disks over vhost-user.
    pub vhost_user_connections: u64,
    /// Where VMs attach.
    pub listeners: Vec<Listener>,
    /// The caches.
    pub caches: Vec<CacheStatus>,
    /// The recording that is under way, or the last one since the start.
    pub recording: Option<Recording>,
    /// Requests that recordings took in and lost since the start.
    pub requests_traced: RequestsTraced,
}

/// Requests of guests, as recordings see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestsTraced {
    /// Taken in; of a sample only parts are written.
    pub recorded: u64,
    /// Lost because the recorder could not keep up.
    pub lost: u64,
}

impl RequestsTraced {
    /// These and more.
    pub fn and(self, more: Self) -> Self {
        Self {
            recorded: self.recorded + more.recorded,
            lost: self.lost + more.lost,
        }
    }
}

/// What to record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordRequest {
    /// The file: an absolute path on the daemon's host, where there is none yet.
    #[schema(example = "/var/lib/hearth/monday.csv.zst")]
    pub output: String,
    /// The disks; none for all of them, those that are attached later included.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub disks: Vec<Name>,
    /// One block in so many, with all its accesses; 1 for whole requests.
    #[serde(default = "one")]
    pub sample_one_in: u32,
    /// The recording ends before the file is larger.
    #[serde(default = "size_default")]
    pub size_bytes_max: u64,
    /// It ends after this time.
    #[serde(default)]
    pub duration_seconds_max: Option<f64>,
}

fn one() -> u32 {
    1
}

/// The size of a recording if nothing else is asked for: 1 GiB, about 100 million requests.
pub const RECORDING_SIZE_DEFAULT: units::Bytes = units::Bytes::gib(1);

fn size_default() -> u64 {
    RECORDING_SIZE_DEFAULT.get()
}

/// How a recording does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecordingState {
    /// It is under way.
    Recording,
    /// Its file is whole.
    Ended,
    /// Its file could not be written; what was flushed before can be read.
    Failed,
}

/// A recording of what guests ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Recording {
    /// The file.
    pub output: String,
    /// How it does.
    pub state: RecordingState,
    /// Why it has ended.
    pub reason: Option<String>,
    /// The disks; none for all.
    #[schema(value_type = Vec<String>)]
    pub disks: Vec<Name>,
    /// One block in so many; 1 for whole requests.
    pub sample_one_in: u32,
    /// The size that the file may have.
    pub size_bytes_max: u64,
    /// The time that it may take.
    pub duration_seconds_max: Option<f64>,
    /// The time that it has taken.
    pub duration_seconds: f64,
    /// Requests that it took in.
    pub requests: u64,
    /// Rows that it wrote: requests, or the parts of them that are in the sample.
    pub rows: u64,
    /// Requests that were lost because the recorder could not keep up.
    pub lost_requests: u64,
    /// Bytes that were handed to the file.
    pub written_bytes: u64,
}

/// How a cache does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CacheState {
    /// Its flash is being opened; disks are attached when that is done.
    Opening,
    /// It serves from flash.
    Serving,
    /// Its flash cannot be used: every request goes to the origin.
    Bypassed,
    /// Its thread does not answer.
    Silent,
}

/// Blocks in main memory, by why they are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryFrames {
    /// Admission has not decided yet whether they enter the flash.
    pub staged: u64,
    /// They were prefetched, and nobody has read them yet.
    pub ahead: u64,
    /// They were read, and are worth a copy.
    pub hot: u64,
}

/// A cache: a flash file or device and what is on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CacheStatus {
    /// Its name.
    #[schema(value_type = String)]
    pub name: Name,
    /// Its flash file or device.
    pub path: String,
    /// How it does.
    pub state: CacheState,
    /// Why it is bypassed, or its reads are, or it began with nothing although something was on flash.
    pub reason: Option<String>,
    /// What reclaim keeps.
    pub reclaim: ReclaimPolicy,
    /// Size of the flash.
    pub flash_bytes: u64,
    /// Blocks of 4096 bytes that it holds now.
    pub cached_blocks: u64,
    /// Blocks that its segments can hold.
    pub blocks_max: u64,
    /// Main memory for all that is remembered of blocks on flash.
    pub memory_bytes: u64,
    /// Blocks in main memory, by why they are there.
    #[serde(default)]
    pub memory_frames: MemoryFrames,
    /// Bytes that wait in main memory to be written to flash.
    pub waiting_bytes: u64,
    /// Memory that its clients have allocated.
    #[serde(default)]
    pub request_memory: RequestMemory,
    /// How long recovery took at the start.
    pub recovery_seconds: f64,
    /// Blocks that recovery found.
    pub recovered_blocks: u64,
    /// Blocks that should have come back and were lost.
    pub recovery_lost_blocks: u64,
    /// Segments by state.
    pub segments: SegmentCounts,
    /// Bytes written to flash by cause.
    pub flash_written_bytes: FlashWrittenBytes,
    /// Bytes read from flash for guests.
    pub flash_read_bytes: u64,
    /// Bytes read from flash by reclaim.
    pub reclaim_read_bytes: u64,
    /// Segments that were reclaimed.
    pub segments_reclaimed: u64,
    /// Blocks that reclaim wrote again.
    pub kept_blocks: u64,
    /// Blocks that reclaim dropped.
    pub evicted_blocks: u64,
    /// Blocks that were fetched and not kept, by reason.
    pub refused_blocks: RefusedBlocks,
    /// Blocks read from flash whose checksum was wrong; they came from the origin instead.
    pub checksum_errors: u64,
    /// Flash operations that failed.
    pub flash_errors: u64,
    /// Flash operations that took too long.
    pub flash_timeouts: u64,
    /// How often the flash was taken back, warm, after writes of it had been late.
    #[serde(default)]
    pub flash_taken_back: u64,
    /// The scrub of its flash.
    #[serde(default)]
    pub scrub: ScrubStatus,
    /// Time of flash reads and writes.
    pub flash_latency: FlashLatency,
    /// Time of the requests of all its disks since the start, and of what they needed.
    pub request_latency: DiskLatency,
    /// What may enter it and how it is divided; none while it does not answer.
    pub policy: Option<PolicyStatus>,
    /// Other counters, for those who look inside.
    pub inside: CacheInside,
}

/// Segments by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SegmentCounts {
    /// Nothing in them is needed.
    pub free: u64,
    /// Being filled.
    pub open: u64,
    /// Full.
    pub closed: u64,
    /// Being reclaimed or dropped.
    pub reclaiming: u64,
}

/// Bytes written to flash, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlashWrittenBytes {
    /// Blocks that were read from the origin.
    pub fill: u64,
    /// Blocks that a guest rewrote.
    pub update: u64,
    /// Blocks that reclaim kept.
    pub reclaim: u64,
    /// Blocks that a guest wrote under write-back.
    #[serde(default)]
    pub dirty: u64,
    /// What describes blocks.
    pub descriptors: u64,
    /// Journal pages.
    pub journal: u64,
    /// Checkpoints and superblocks.
    pub checkpoint: u64,
}

impl FlashWrittenBytes {
    /// Every cause with its name, in one order for tables and metrics.
    pub fn causes(&self) -> [(&'static str, u64); 7] {
        [
            ("fill", self.fill),
            ("update", self.update),
            ("reclaim", self.reclaim),
            ("dirty", self.dirty),
            ("descriptors", self.descriptors),
            ("journal", self.journal),
            ("checkpoint", self.checkpoint),
        ]
    }

    /// All causes together.
    pub fn total(&self) -> u64 {
        self.causes().iter().map(|(_, bytes)| bytes).sum()
    }
}

/// Blocks that were fetched from the origin and not kept, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedBlocks {
    /// No segment was free: reclaim is behind.
    pub no_segment: u64,
    /// Too much waited to be written to flash.
    pub write_buffer: u64,
    /// The index had no place.
    pub index_full: u64,
    /// Settings contradict each other: it is not known what may enter.
    pub settings: u64,
}

impl RefusedBlocks {
    /// Every reason with its name.
    pub fn reasons(&self) -> [(&'static str, u64); 4] {
        [
            ("no_segment", self.no_segment),
            ("write_buffer", self.write_buffer),
            ("index_full", self.index_full),
            ("settings", self.settings),
        ]
    }
}

/// Counters of the cache's inner works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CacheInside {
    /// Journal commits.
    pub journal_commits: u64,
    /// Guest writes that waited for a journal commit.
    pub writes_waited: u64,
    /// Complete checkpoints.
    pub checkpoints: u64,
    /// Writes that found another write to the same block in flight.
    pub contended_writes: u64,
    /// Reads that shared a fetch that was under way.
    pub shared_fills: u64,
    /// Fetches whose blocks were written meanwhile.
    pub killed_fills: u64,
    /// Rewritten blocks that are trusted again.
    pub retrusted_blocks: u64,
    /// Bytes read from flash directly to where guests wanted them.
    pub landed_bytes: u64,
    /// Reads from flash that were done again, since what lay in a guest's memory was not what was
    /// written, or could not be put there.
    pub reads_repeated: u64,
}

/// Time of flash operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlashLatency {
    /// Reads.
    pub read: Latency,
    /// Writes and flushes.
    pub write: Latency,
}

/// The disks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Disks {
    /// Each disk, by name.
    pub disks: Vec<DiskStatus>,
}

/// Who attached a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskSource {
    /// The configuration file.
    Config,
    /// The admin API; remembered in the state directory.
    Runtime,
}

/// Whether a disk can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskState {
    /// Its origin is being opened.
    Attaching,
    /// It could not be attached, for the reason that is given; that is tried again.
    Waiting,
    /// VMs can attach to it.
    Attached,
    /// It roams, and is not here: a VM can attach to it, and reads at its owner until it writes.
    Standby,
    /// Its last requests are being answered, or it is being forgotten.
    Detaching,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own in the JSON"
)]
pub struct DiskStatus {
    /// Its name.
    #[schema(value_type = String)]
    pub name: Name,
    /// Its identity.
    #[schema(example = "00112233445566778899aabbccddeeff")]
    pub id: String,
    /// Whose disk it is.
    #[schema(value_type = String)]
    pub vm: Name,
    /// The cache that keeps it warm.
    #[schema(value_type = String)]
    pub cache: Name,
    /// Where its bytes live.
    #[schema(example = "nbd://storage:10809/web-1")]
    pub origin: String,
    /// Who attached it.
    pub source: DiskSource,
    /// Whether it can be used.
    pub state: DiskState,
    /// Why it cannot; or why its writes go through to the origin although they are to go back later; or why the cluster's
    /// store has yet to be told that it is attached here.
    pub reason: Option<String>,
    /// Whether the cluster's store has yet to be told that it is attached here.
    #[serde(default)]
    pub owes_record: bool,
    /// Its size; unknown while it waits.
    pub size_bytes: Option<u64>,
    /// What writes do.
    pub write_policy: WritePolicy,
    /// What its origin lacks and how it gets that; none for a disk that keeps nothing from it.
    pub write_back: Option<WriteBackStatus>,
    /// What the flash has of it while it waits; none if it does not, or nobody knows.
    #[serde(default)]
    pub kept: Option<KeptOnFlash>,
    /// What its guests may ask in a second, and what has waited for that.
    #[serde(default)]
    pub limits: DiskLimits,
    /// The settings that were changed while the daemon ran and hold over the configuration file.
    pub changed: Vec<String>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether it is a base image, read by several VMs.
    pub shared: bool,
    /// Connections to it, over NBD and vhost-user.
    pub connections: u64,
    /// Its own NBD socket, if it has one.
    pub nbd_socket: Option<NbdSocket>,
    /// What there is of it over vhost-user.
    pub vhost_user: VhostUser,
    /// Whether its origin can be reached, as far as is known.
    pub origin_connected: bool,
    /// Bytes of writes that its origin may still carry out although they were given up.
    pub late_write_bytes: u64,
    /// Blocks of 4096 bytes that were on flash when it was attached.
    pub warm_blocks: u64,
    /// Why blocks on flash were not used when it was attached.
    pub dropped: Option<String>,
    /// Blocks on flash now.
    pub cached_blocks: u64,
    /// Counters.
    pub counters: DiskCounters,
    /// Time of its requests and of what they needed.
    pub latency: DiskLatency,
}

/// Time of requests and of what they needed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DiskLatency {
    /// Guests' reads, from parsed request to queued answer.
    pub guest_read: Latency,
    /// Guests' writes, discards and write-zeroes.
    pub guest_write: Latency,
    /// Guests' flushes.
    pub guest_flush: Latency,
    /// Reads of the origin.
    pub origin_read: Latency,
    /// Writes, discards and flushes of the origin.
    pub origin_write: Latency,
}

/// A latency histogram.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum_seconds: f64,
    /// Half were at most this long.
    pub p50_seconds: f64,
    /// 99 in 100 were at most this long.
    pub p99_seconds: f64,
    /// The longest.
    pub max_seconds: f64,
    /// How many fell into each bucket; empty buckets are left out.
    pub buckets: Vec<LatencyBucket>,
}

/// A bucket of a latency histogram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LatencyBucket {
    /// The longest time that falls into it.
    pub to_seconds: f64,
    /// How many fell into it and into no shorter one.
    pub count: u64,
}
