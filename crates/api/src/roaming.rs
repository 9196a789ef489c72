//! What is asked and told of disks that roam between two hosts.

use super::types::Latency;
use configuration::{Auto, Dirty, Name, Strategy, Text};
use serde::{Deserialize, Serialize};
use units::Bytes;
use utoipa::ToSchema;

/// The disks that roam, and the peers that they roam to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RoamingDisks {
    /// What peers call this host; none if no disk roams.
    pub host: Option<String>,
    /// How things stand with each peer.
    pub peers: Vec<PeerSession>,
    /// Each disk, by name.
    pub disks: Vec<RoamingDisk>,
    /// Each base image whose cache follows the VMs that read it, by name.
    pub images: Vec<FollowingImage>,
    /// How long requests were held by hand-overs since the start, for each way in which one ended.
    pub held: Vec<HeldTime>,
}

/// How things stand with a peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PeerSession {
    /// Its name, which its certificate proves.
    pub name: String,
    /// Where it is dialed.
    pub address: String,
    /// Whether a session with it stands.
    pub stands: bool,
    /// For how long it has stood, or none has.
    pub for_seconds: f64,
    /// The version of the link's protocol that is spoken.
    pub version: Option<u16>,
    /// How many sessions there were since the start.
    pub sessions: u64,
    /// Why none stands, as far as is known.
    pub problem: Option<String>,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// What this host is to a disk that roams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RoamingRole {
    /// It has the disk: VMs are served from its cache.
    Owner,
    /// Another host has it, or nobody.
    Standby,
    /// A VM of this host waits for it, and the peer is asked.
    Claiming,
    /// It is locked and opened here.
    Taking,
    /// The peer has claimed it; nothing is decided, and requests wait.
    Granting,
    /// It is decided that the peer has it, and this host lets go of it.
    Giving,
    /// Who has it is not known: the owner's record cannot be read.
    InDoubt,
    /// The disks of its VM are at different hosts by their owner's records, and neither host serves any of them.
    Split,
}

impl RoamingRole {
    /// Every role, in one order for tables and metrics.
    pub const ALL: [Self; 8] = [
        Self::Owner,
        Self::Standby,
        Self::Claiming,
        Self::Taking,
        Self::Granting,
        Self::Giving,
        Self::InDoubt,
        Self::Split,
    ];

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Standby => "standby",
            Self::Claiming => "claiming",
            Self::Taking => "taking",
            Self::Granting => "granting",
            Self::Giving => "giving",
            Self::InDoubt => "in-doubt",
            Self::Split => "split",
        }
    }
}

/// How a hand-over ended, as one host saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HandOverOutcome {
    /// The disk came here.
    Taken,
    /// It was given to the peer.
    Given,
    /// It was claimed and held, and stayed here.
    Kept,
    /// A VM of this host waited for it in vain, and got errors.
    Failed,
}

impl HandOverOutcome {
    /// Every outcome, in one order for tables and metrics.
    pub const ALL: [Self; 4] = [Self::Taken, Self::Given, Self::Kept, Self::Failed];

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Given => "given",
            Self::Kept => "kept",
            Self::Failed => "failed",
        }
    }
}

/// A hand-over that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HandOver {
    /// How.
    pub outcome: HandOverOutcome,
    /// From whom the disk came, or to whom it went.
    pub peer: String,
    /// How long ago that was.
    pub ago_seconds: f64,
    /// How long requests of a VM of this host were held meanwhile, or would have been.
    pub held_seconds: f64,
}

/// How many hand-overs ended in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HandOverCount {
    /// How.
    pub outcome: HandOverOutcome,
    /// How many since the start.
    pub count: u64,
}

/// How long requests were held by hand-overs that ended in one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HeldTime {
    /// How.
    pub outcome: HandOverOutcome,
    /// The times.
    pub held: Latency,
}

/// How the cache of a disk comes to a host that gets it. What is not said stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MoveSettings {
    /// What comes of it.
    pub strategy: Option<Strategy>,
    /// How many bytes of it in a second, or `"auto"`.
    #[schema(value_type = Option<String>, example = "100MiB")]
    pub rate: Option<Text<Auto<Bytes>>>,
}

impl MoveSettings {
    /// What of it cannot be.
    pub fn fault(&self) -> Option<&'static str> {
        let is_rate = self.rate != Some(Text(Auto::Fixed(Bytes::ZERO)));
        if self.strategy == Some(Strategy::Piggyback) {
            Some(
                "\"piggyback\" is for storage that is copied with its VM, and a disk that roams has one origin",
            )
        } else {
            (!is_rate).then_some("a rate is more than 0, or \"auto\"")
        }
    }
}

/// What is done about the cache of a disk that is about to move, or has just come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MovePhase {
    /// Nothing: no move is expected.
    Idle,
    /// A move is expected, and nothing is copied ahead of it here.
    Expected,
    /// The cache is copied ahead.
    Ahead,
    /// What is left of it comes behind the disk.
    Behind,
}

impl MovePhase {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Expected => "expected",
            Self::Ahead => "ahead",
            Self::Behind => "behind",
        }
    }
}

/// How the cache of a disk moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CacheMove {
    /// What is done now.
    pub phase: MovePhase,
    /// How it comes here.
    pub strategy: Strategy,
    /// How many bytes of it in a second.
    #[schema(value_type = String, example = "auto")]
    pub rate: Text<Auto<Bytes>>,
    /// Bytes that have come from the peer's cache since the start.
    pub came_bytes: u64,
    /// Bytes that were lent to the peer since the start.
    pub lent_bytes: u64,
    /// What becomes of what the origin lacks.
    pub dirty: Dirty,
    /// Bytes of what the origin lacks that went to the peer since the start.
    pub shipped_bytes: u64,
    /// Bytes of what the origin lacks that came from the peer since the start.
    pub kept_bytes: u64,
    /// Bytes of what the owner has written and the other host does not have yet; none if they do not go there now.
    pub behind_bytes: Option<u64>,
    /// Of the reads that hit the peer's cache, how many are expected to hit here: the part of its blocks that is cached
    /// here. None if nothing is copied, or it is not known yet how many blocks there are.
    pub expected_hit_ratio: Option<f64>,
}

/// A disk that roams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RoamingDisk {
    /// Its name.
    #[schema(value_type = String)]
    pub name: Name,
    /// Its identity, the same on both hosts.
    #[schema(example = "00112233445566778899aabbccddeeff")]
    pub id: String,
    /// Whose disk it is.
    #[schema(value_type = String)]
    pub vm: Name,
    /// The other disks of its VM that roam: they move with it.
    #[schema(value_type = Vec<String>)]
    pub moves_with: Vec<Name>,
    /// The cache that serves it when it is here.
    #[schema(value_type = String)]
    pub cache: Name,
    /// What this host is to it.
    pub role: RoamingRole,
    /// The epoch of its last owner that this host knows of; none before its record was read.
    pub epoch: Option<u64>,
    /// The host that it roams to.
    pub peer: PeerSession,
    /// What cannot be done now and is tried again; or why it is in doubt who has the disk, or why nobody has it.
    pub problem: Option<String>,
    /// What to do about it, if it does not end by itself.
    pub remedy: Option<String>,
    /// Bytes that go to the origin before the disk can be given away; none if it is not here.
    pub left_bytes: Option<u64>,
    /// How its cache moves; none before its record was read.
    pub cache_move: Option<CacheMove>,
    /// How long the hand-over that is under way has held requests here; none if none does.
    pub held_seconds: Option<f64>,
    /// The last hand-over since the start.
    pub last_hand_over: Option<HandOver>,
    /// Hand-overs since the start.
    pub hand_overs: Vec<HandOverCount>,
}

/// A base image whose cache follows the VMs that read it. Both hosts serve it all the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FollowingImage {
    /// Its name.
    #[schema(value_type = String)]
    pub name: Name,
    /// Its identity, the same on both hosts.
    #[schema(example = "00112233445566778899aabbccddeeff")]
    pub id: String,
    /// The cache that has it.
    #[schema(value_type = String)]
    pub cache: Name,
    /// The other host that serves it.
    pub peer: PeerSession,
    /// What is done now: nothing, or what is missing is copied here ahead of a VM, or behind one.
    pub phase: MovePhase,
    /// The VMs that are about to come here and read it.
    #[schema(value_type = Vec<String>)]
    pub coming: Vec<Name>,
    /// Why its cache did not follow the last VM, if so.
    pub problem: Option<String>,
    /// How many bytes of it come in a second.
    #[schema(value_type = String, example = "auto")]
    pub rate: Text<Auto<Bytes>>,
    /// Bytes that have come from the peer's cache since the start.
    pub came_bytes: u64,
    /// Bytes that were lent to the peer since the start.
    pub lent_bytes: u64,
    /// Of the blocks that the peer had cached when that was looked at last, how many are cached here; none if it was not
    /// looked at.
    pub expected_hit_ratio: Option<f64>,
}

/// Whether a live migration would be right now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MigrationCheck {
    /// The disk, or the VM.
    pub name: String,
    /// The host that it would go to; none if no disk of this host roams.
    pub to: Option<String>,
    /// Whether nothing is in the way.
    pub is_right: bool,
    /// Each disk, by name.
    pub disks: Vec<DiskCheck>,
}

/// Whether a disk can be handed over now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskCheck {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub id: String,
    /// What is in the way; nothing if it can.
    pub reasons: Vec<CheckReason>,
    /// What becomes of bytes that its origin lacks; none if it is not under write-back, or that is not known.
    pub dirty: Option<DirtyCheck>,
    /// Whether its cache follows, if it is a base image that says so.
    pub image: Option<ImageCheck>,
}

/// What becomes of bytes that the origin of a disk lacks when it is handed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DirtyCheck {
    /// `ship`: they go along with the disk. `drain`: they are brought to the origin, and the VM waits for the last of them.
    pub becomes: Dirty,
    /// How many there are now, in bytes: some go while the VM still runs.
    pub bytes: u64,
    /// Why they are brought to the origin although a host wants them to go along.
    pub why: Option<String>,
}

/// Whether the cache of a base image follows a VM. If not the VM reads what is missing from the image's origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageCheck {
    /// Whether it does.
    pub follows: bool,
    /// Why not.
    pub why: Option<String>,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// What is in the way of a hand-over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckReason {
    /// A word for it.
    #[schema(example = "link-down")]
    pub code: String,
    /// The host where it is, if it is at one.
    pub host: Option<String>,
    /// What there is.
    pub detail: String,
    /// What to do about it.
    pub remedy: Option<String>,
}
