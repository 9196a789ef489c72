//! What QEMU or libvirt says of a VM.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What QEMU or libvirt says of a VM. Nobody says all of it of every VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VmReading {
    /// Its name: that of its QMP socket, or of libvirt's domain.
    pub vm: String,
    /// The rest.
    #[serde(flatten)]
    pub figures: VmFigures,
}

/// The figures that QEMU or libvirt knows of a VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VmFigures {
    /// Processors that the guest has.
    pub vcpus: Option<u64>,
    /// Memory that the VM was given, in bytes, whatever its balloon has taken back.
    pub given_memory_bytes: Option<u64>,
    /// Memory that the balloon leaves the guest, in bytes. Without a balloon QEMU says nothing, and libvirt all that was given.
    pub balloon_bytes: Option<u64>,
    /// What all disks together have done that QEMU serves itself; none if it serves none.
    pub block: Option<BlockReading>,
}

/// What the disks of a VM have done since its start, as QEMU counts it. It counts nothing of a vhost-user disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockReading {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests that read.
    pub reads: u64,
    /// Requests that wrote.
    pub writes: u64,
}

impl BlockReading {
    /// This and another disk's. A sum that is beyond 64 bits stays at the end of them.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_add(other.read_bytes),
            written_bytes: self.written_bytes.saturating_add(other.written_bytes),
            reads: self.reads.saturating_add(other.reads),
            writes: self.writes.saturating_add(other.writes),
        }
    }
}

impl VmFigures {
    /// These, and what another source says where these say nothing.
    pub fn or(self, other: Self) -> Self {
        Self {
            vcpus: self.vcpus.or(other.vcpus),
            given_memory_bytes: self.given_memory_bytes.or(other.given_memory_bytes),
            balloon_bytes: self.balloon_bytes.or(other.balloon_bytes),
            block: self.block.or(other.block),
        }
    }
}
