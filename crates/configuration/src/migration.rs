//! `[disk.migration]`: how a disk's cache comes with it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What comes of the cache that a disk had at the host that gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Nothing: the cache fills as the disk is read.
    None,
    /// The addresses, newest first: the blocks are read from the origin.
    Hotlist,
    /// What a read needs comes from that host at once, and everything else behind it, newest first.
    OnDemand,
    /// Blocks come from when a VM is there, while it runs at the other host, and what is left as under `on-demand`.
    #[default]
    Live,
}

impl Strategy {
    /// Whether the contents of the other host's cache are listed.
    pub const fn lists(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether blocks are read there.
    pub const fn borrows(self) -> bool {
        matches!(self, Self::OnDemand | Self::Live)
    }

    /// Whether they are copied before the disk comes.
    pub const fn goes_ahead(self) -> bool {
        matches!(self, Self::Live)
    }
}

/// `[disk.migration]`: how a disk that roams comes to this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MigrationConfig {
    /// What comes of its cache.
    pub strategy: Strategy,
}
