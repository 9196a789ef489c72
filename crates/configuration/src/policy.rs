//! `[cache.policy]`: what may enter the flash of a cache, and how it is divided among VMs.

use super::change::change;
use super::text::{Auto, Switch, Text};
use policy::admission::budget::Rate;
use policy::{admission, allocation, prediction};
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration};
use utoipa::ToSchema;

/// `[cache.policy]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyConfig {
    /// Whether any of it holds.
    pub enabled: bool,
    /// What may enter the flash.
    pub admission: Text<admission::Spec>,
    /// Whether what is read enters as long as nothing had to leave: half of each share, and more where it pays.
    pub fill: bool,
    /// Memory for what admission stages and remembers.
    pub staging: Text<Staging>,
    /// Memory for all blocks in memory; `auto` is what staging needs.
    pub frames: Text<Auto<Bytes>>,
    /// Which blocks that are read are worth a frame.
    pub hot: Text<policy::memory::Spec>,
    /// Who guesses what is read next, for frames that are free.
    pub prefetch: Text<prefetch::Specs>,
    /// What the flash may be written.
    pub write_budget: Text<Switch<Rate>>,
    /// How the flash is divided.
    pub allocation: Text<allocation::Spec>,
    /// What becomes of flash that its owner does not use.
    pub spare: Spare,
    /// How often a block must have been used again to count as demand.
    pub reuses: u8,
    /// Over which time demand is measured.
    pub window: Text<Window>,
    /// How the next window's demand is foreseen.
    pub prediction: Text<prediction::Spec>,
    /// How large a change of a share must be to be made, as a part of it.
    pub hysteresis: f64,
    /// Memory for all of this together.
    pub memory: Text<Bytes>,
}

impl Default for PolicyConfig {
    /// What was measured to be the best of what there is, instead of what changes nothing:
    /// `book/src/reproduction.md` has the figures.
    fn default() -> Self {
        // Of no certain flash: staging follows it.
        let daemon = tenancy::daemon::settings(Bytes::ZERO);
        Self {
            enabled: true,
            admission: Text(daemon.admission),
            fill: daemon.fill,
            staging: Text(Staging::Auto),
            frames: Text(Auto::Auto),
            hot: Text(daemon.hot),
            prefetch: Text(daemon.prefetch),
            write_budget: Text(Switch::Off),
            allocation: Text(daemon.allocation),
            spare: match daemon.spare {
                tenancy::Spare::Lent => Spare::Lent,
                tenancy::Spare::Idle => Spare::Idle,
                tenancy::Spare::Strict => Spare::Strict,
            },
            reuses: daemon.reuses.get(),
            window: Text(match daemon.window {
                tenancy::Window::Fixed(time) => Window::Fixed(time),
                tenancy::Window::Knee { .. } => Window::Auto,
            }),
            prediction: Text(daemon.prediction),
            hysteresis: daemon.hysteresis.to_f64(),
            memory: Text(daemon.memory),
        }
    }
}

/// Memory for what admission stages and remembers: `auto` is as much as fits the flash and the memory
/// for all.
pub type Staging = Auto<Bytes>;

impl Staging {
    /// The bytes beside that much flash, if all may have `memory`.
    pub fn bytes(self, flash: Bytes, memory: Bytes) -> Bytes {
        match self {
            Self::Auto => tenancy::daemon::staging(flash, memory),
            Self::Fixed(bytes) => bytes,
        }
    }
}

/// What becomes of flash that a share gives to a VM that does not use it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Spare {
    /// Others use it until its owner needs it.
    #[default]
    Lent,
    /// It stays idle, which saves wear.
    Idle,
    /// It stays idle, and who is above its share is shrunk at once.
    Strict,
}

/// Over which time demand is measured: `auto` is each VM's own, at the knee of its hits by window.
pub type Window = Auto<Duration>;

change! {
    /// What to change of a cache's policy; what is not given stays as it is.
    PolicyChange of PolicyConfig {
        /// Whether any of it holds; else all that is read is let in, and whatever is oldest leaves.
        enabled: bool,
        /// What may enter the flash.
        #[schema(value_type = Option<String>, example = "larc")]
        admission: Text<admission::Spec>,
        /// Whether what is read enters as long as nothing ever had to leave the flash: half of each share, and more where
        /// blocks are read again.
        fill: bool,
        /// Memory for what admission stages and remembers, or `auto`.
        #[schema(value_type = Option<String>, example = "256MiB")]
        staging: Text<Staging>,
        /// Memory for all blocks in memory, staged, prefetched and hot, or `auto`: what staging needs.
        #[schema(value_type = Option<String>, example = "2GiB")]
        frames: Text<Auto<Bytes>>,
        /// Which blocks that are read are worth a frame.
        #[schema(value_type = Option<String>, example = "s3-fifo")]
        hot: Text<policy::memory::Spec>,
        /// Who guesses what is read next, or `none`.
        #[schema(value_type = Option<String>, example = "readahead")]
        prefetch: Text<prefetch::Specs>,
        /// What the flash may be written, or `off`.
        #[schema(value_type = Option<String>, example = "1DWPD")]
        write_budget: Text<Switch<Rate>>,
        /// How the flash is divided.
        #[schema(value_type = Option<String>, example = "rwss")]
        allocation: Text<allocation::Spec>,
        /// What becomes of flash that its owner does not use.
        spare: Spare,
        /// How often a block must have been used again to count as demand: 0 to 3.
        reuses: u8,
        /// Over which time demand is measured, or `auto`.
        #[schema(value_type = Option<String>, example = "10min")]
        window: Text<Window>,
        /// How the next window's demand is foreseen.
        #[schema(value_type = Option<String>, example = "exp-self")]
        prediction: Text<prediction::Spec>,
        /// How large a change of a share must be to be made, as a part of it.
        hysteresis: f64,
        /// Memory for all of this together.
        #[schema(value_type = Option<String>, example = "1GiB")]
        memory: Text<Bytes>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staging_follows_the_flash_within_its_bounds() {
        let auto = |flash| Staging::Auto.bytes(flash, Bytes::gib(1));
        assert_eq!(auto(Bytes::mib(64)), Bytes::mib(1));
        assert_eq!(auto(Bytes::gib(20)), Bytes::new(Bytes::gib(20).get() / 200));
        assert_eq!(auto(Bytes::gib(4096)), Bytes::mib(512));
        assert_eq!(
            Staging::Fixed(Bytes::mib(3)).bytes(Bytes::gib(20), Bytes::gib(1)),
            Bytes::mib(3)
        );
        for text in ["auto", "3MiB"] {
            assert_eq!(text.parse::<Staging>().unwrap().to_string(), text);
        }
    }
}
