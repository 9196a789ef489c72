//! What the admin API tells of the agents in guests.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use utoipa::ToSchema;

/// The channel to the agent in a VM's guest, and what came over it. The guest says it: nothing of it is proved but
/// which VM it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GuestStatus {
    /// The socket that the VM's QEMU connects to.
    #[schema(example = "/run/hearth/guest/web.sock")]
    pub socket: String,
    /// Why nobody can connect there.
    pub error: Option<String>,
    /// The process that is connected, such as the VM's QEMU.
    pub process: Option<i32>,
    /// The boot of the guest, if its agent has said something since QEMU connected.
    #[schema(example = "7c1f2a6e-9a4b-4a63-8f6e-2f4a1d0c9b11")]
    pub boot: Option<String>,
    /// Serial numbers of the disks that the guest sees.
    pub disks: Vec<String>,
    /// The guest's memory, if its agent has said it.
    pub memory: Option<GuestMemory>,
    /// What has come from the guest since the daemon's start.
    pub frames: GuestFrames,
    /// What the guest has said of its disks since it began to say so last.
    #[serde(default)]
    pub hints: GuestHints,
    /// What the guest has exchanged over TCP since its agent began to say so; none without `guest.sockets`, or if it does not.
    #[serde(default)]
    pub traffic: Option<GuestTraffic>,
}

/// What a guest has exchanged with others over TCP, since the first message about that of its agent's connection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GuestTraffic {
    /// Addresses that are known.
    pub peers: u64,
    /// Bytes both ways with them.
    pub bytes: u64,
    /// Bytes with addresses that were dropped, since there were more than 1,024.
    pub dropped_bytes: u64,
    /// The time of these bytes: from the first message to the last one.
    pub span_seconds: f64,
    /// How long ago the last message came.
    pub age_seconds: f64,
}

/// Whom a guest speaks with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GuestPeers {
    /// All together; none if the guest has said nothing since QEMU connected.
    pub traffic: Option<GuestTraffic>,
    /// Each address, the most bytes first.
    pub peers: Vec<GuestPeer>,
}

/// Another end of a guest's connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GuestPeer {
    /// Its IP address.
    #[schema(value_type = String, example = "10.0.0.5")]
    pub address: IpAddr,
    /// Bytes both ways, over all connections with it.
    pub bytes: u64,
}

/// What a guest says of ranges of its disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GuestHints {
    /// Ranges that are known.
    pub ranges: u64,
    /// Ranges beyond those that a VM may have.
    pub refused_ranges: u64,
    /// Bytes that the guest wants kept out: swap, journals, temporary files, what is read once.
    pub keep_out_bytes: u64,
    /// Bytes that it will want again.
    pub wanted_bytes: u64,
    /// Blocks that were not let in because of that, since their disks were attached.
    pub kept_out_blocks: u64,
}

/// A guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GuestMemory {
    /// What programs can have without swapping.
    pub available_bytes: u64,
    /// Its page cache.
    pub cache_bytes: u64,
    /// Share of the last 10 s in which some task waited for memory.
    pub pressure_percent: f64,
    /// How long ago the agent said so.
    pub age_seconds: f64,
}

/// What has come from a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GuestFrames {
    /// Messages.
    pub messages: u64,
    /// Frames beyond the 100 of a second, which nobody looked into.
    pub dropped: u64,
    /// Frames that were torn, or none of this version.
    pub invalid: u64,
    /// Frames that are missing between those that came.
    pub missed: u64,
    /// Bytes that belonged to no frame, padding included.
    pub skipped_bytes: u64,
}

impl GuestFrames {
    /// What became of frames, each with its name, in one order for tables and metrics.
    pub fn outcomes(&self) -> [(&'static str, u64); 4] {
        [
            ("taken", self.messages),
            ("dropped", self.dropped),
            ("invalid", self.invalid),
            ("missed", self.missed),
        ]
    }
}
