//! What travels over the admin API about front ends: how VMs reach a disk.

use configuration::Name;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A place where VMs attach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Listener {
    /// The address, as an NBD URI without an export.
    #[schema(example = "nbd+unix:///?socket=/run/hearth/nbd.sock")]
    pub address: String,
    /// Whether plain clients are refused.
    pub tls_required: bool,
}

/// Memory that clients have allocated at a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestMemory {
    /// What they may have together: this cache's part of `daemon.request_memory_max`.
    pub limit_bytes: u64,
    /// What they have: connections' buffers, payloads that arrive or are in work, answers that are
    /// not sent.
    pub taken_bytes: u64,
    /// Connections whose next request waits for room.
    pub waiting: u64,
    /// Requests that had to wait.
    pub waits: u64,
    /// Connections that were refused for want of room, or cut off because they kept what others
    /// waited for.
    pub refused: u64,
}

/// A disk over vhost-user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VhostUser {
    /// The sockets that VMs connect to: one, or of a base image one for each VM that may read it.
    pub sockets: Vec<VhostSocket>,
    /// The smallest unit of address and length that a guest is offered.
    pub sector_bytes: u64,
    /// The serial number that a guest sees.
    #[schema(example = "web-1")]
    pub serial: String,
    /// Connections.
    pub connections: u64,
    /// Connections that wait for another one's queues to stop.
    pub waiting: u64,
    /// Queues that run.
    pub queues: u64,
    /// Requests that are not answered yet.
    pub requests_in_flight: u64,
    /// Requests that were taken from guests' queues, with those that never reach the disk.
    pub requests_taken: u64,
    /// Kicks that were received.
    pub kicks: u64,
    /// Interrupts that guests wanted.
    pub interrupts: u64,
    /// Requests taken up that had been begun and not answered before the daemon was started anew.
    pub requests_resumed: u64,
    /// Queues that were broken by their guest.
    pub queues_broken: u64,
}

/// The NBD socket of a disk's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NbdSocket {
    /// Where it is.
    #[schema(example = "/run/hearth/web-1.nbd.sock")]
    pub path: String,
    /// Why nobody listens there.
    pub error: Option<String>,
}

/// A socket of a disk over vhost-user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VhostSocket {
    /// Where it is.
    #[schema(example = "/run/hearth/vhost/web-1.sock")]
    pub path: String,
    /// Whose VM connects there.
    #[schema(value_type = String)]
    pub vm: Name,
    /// Why nobody listens there.
    pub error: Option<String>,
}
