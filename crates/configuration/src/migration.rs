//! `[disk.migration]`: how a disk's cache comes with it.

use crate::text::{Auto, Text};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use strategies::{Ahead, Place, Row};
use units::Bytes;
use utoipa::ToSchema;

/// What comes of the cache that a disk had at the host that gives it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Nothing: the cache fills as the disk is read.
    None,
    /// The addresses, newest first: the blocks are read from the origin.
    Hotlist,
    /// All blocks, from that host, while the VM waits.
    Copy,
    /// All blocks, from that host, behind the VM, which reads the rest from the origin meanwhile.
    CopyFilter,
    /// The addresses while the VM runs there; the blocks are read from the origin meanwhile.
    Proactive,
    /// What of the addresses passes when the VM's storage is copied through this host, and the rest from the origin.
    Piggyback,
    /// What a read needs comes from that host at once, and everything else behind it, newest first.
    OnDemand,
    /// What a read needs comes from that host each time, and nothing is kept.
    Pool,
    /// Blocks come from when a VM is there, while it runs at the other host, and what is left as under `on-demand`.
    #[default]
    Live,
}

impl Strategy {
    /// What it does.
    pub const fn row(self) -> Row {
        self.of_table().row()
    }

    const fn of_table(self) -> strategies::Strategy {
        match self {
            Self::None => strategies::Strategy::None,
            Self::Hotlist => strategies::Strategy::Hotlist,
            Self::Copy => strategies::Strategy::Copy,
            Self::CopyFilter => strategies::Strategy::CopyFilter,
            Self::Proactive => strategies::Strategy::Proactive,
            Self::Piggyback => strategies::Strategy::Piggyback,
            Self::OnDemand => strategies::Strategy::OnDemand,
            Self::Pool => strategies::Strategy::Pool,
            Self::Live => strategies::Strategy::Live,
        }
    }

    /// Whether blocks are copied from the other host while that still has the disk.
    pub fn copies_ahead(self) -> bool {
        self.row().ahead == Ahead::Copies(Place::Lender)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.of_table().word())
    }
}

/// What becomes of what a disk's origin lacks when the disk goes to another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Dirty {
    /// It is brought to the origin, while the VM waits for the last of it.
    Drain,
    /// It goes along, to the flash of the other host. What cannot go is brought to the origin.
    Ship,
}

impl Dirty {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Ship => "ship",
        }
    }
}

impl fmt::Display for Dirty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Why a text does not say what becomes of dirty data.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' does not say what becomes of dirty data: write auto, ship or drain")]
pub struct ParseDirtyError(String);

impl FromStr for Dirty {
    type Err = ParseDirtyError;

    fn from_str(text: &str) -> Result<Self, ParseDirtyError> {
        let all = [Self::Drain, Self::Ship];
        let found = all.into_iter().find(|one| one.word() == text);
        found.ok_or_else(|| ParseDirtyError(text.to_owned()))
    }
}

/// `[disk.migration]`: how a disk that roams comes to this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MigrationConfig {
    /// What comes of its cache.
    pub strategy: Strategy,
    /// How many bytes of it come in a second, or `"auto"`.
    #[schema(value_type = Option<String>, example = "100MiB")]
    pub rate: Text<Auto<Bytes>>,
    /// What becomes of what the origin lacks, under write-back: `ship`, which needs a strategy that copies blocks ahead of the
    /// disk, `drain`, or `"auto"`: `ship` with such a strategy, and `drain` with the others.
    #[schema(value_type = Option<String>, example = "ship")]
    pub dirty: Text<Auto<Dirty>>,
}

impl Default for MigrationConfig {
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            rate: Text(Auto::Auto),
            dirty: Text(Auto::Auto),
        }
    }
}

impl MigrationConfig {
    /// What becomes of what the origin lacks, as far as this host is asked.
    pub fn dirty(&self) -> Dirty {
        match self.dirty.0 {
            Auto::Fixed(dirty) => dirty,
            Auto::Auto if self.strategy.copies_ahead() => Dirty::Ship,
            Auto::Auto => Dirty::Drain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;

    #[test]
    fn a_strategy_has_one_word_everywhere() {
        let all = Strategy::value_variants();
        assert_eq!(all.len(), strategies::Strategy::ALL.len());
        for one in all {
            let word = one.to_string();
            assert_eq!(toml::Value::try_from(one).unwrap().as_str(), Some(&*word));
            assert_eq!(one.to_possible_value().unwrap().get_name(), word);
        }
    }

    #[test]
    fn dirty_data_goes_along_by_itself_with_a_strategy_that_copies_ahead() {
        let becomes = |text: &str| toml::from_str::<MigrationConfig>(text).unwrap().dirty();
        assert_eq!(becomes(""), Dirty::Ship);
        assert_eq!(becomes("strategy = 'hotlist'"), Dirty::Drain);
        assert_eq!(becomes("dirty = 'drain'"), Dirty::Drain);
        assert_eq!(becomes("dirty = 'auto'\nstrategy = 'none'"), Dirty::Drain);
        let wrong = toml::from_str::<MigrationConfig>("dirty = 'after'").unwrap_err();
        assert!(
            wrong.message().contains("write auto, ship or drain"),
            "{wrong}"
        );
    }
}
