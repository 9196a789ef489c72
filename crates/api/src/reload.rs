//! What comes of reading the configuration again.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What the configuration says otherwise than the daemon does, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reload {
    /// Whether it was only asked what would come of it.
    pub dry_run: bool,
    /// Every difference; none if the configuration is what the daemon runs with.
    pub changes: Vec<ReloadChange>,
}

/// A difference between the configuration and what the daemon runs with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReloadChange {
    /// The key, or the section with its name: `web.address`, `disk[web-1]`, `cache[main].policy`.
    pub key: String,
    /// What came of it, or would come.
    pub outcome: ReloadOutcome,
    /// Why, or what to know about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// What comes of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReloadOutcome {
    /// It holds now; in a dry run: it would.
    Applied,
    /// It holds when the daemon has started anew.
    NeedsRestart,
    /// It cannot hold as things are; nothing of it was changed.
    Refused,
}

impl ReloadOutcome {
    /// The word for it in tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::NeedsRestart => "needs-restart",
            Self::Refused => "refused",
        }
    }
}

impl Reload {
    /// How many differences are left.
    pub fn pending(&self) -> usize {
        let left = self.changes.iter();
        left.filter(|change| change.outcome != ReloadOutcome::Applied)
            .count()
    }
}
