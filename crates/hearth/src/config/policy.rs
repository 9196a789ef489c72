//! `[cache.policy]`: what may enter the flash of a cache, and how it is divided among VMs.

use super::change::change;
use super::text::{Switch, Text};
use policy::admission::budget::Rate;
use policy::{admission, allocation, prediction};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use units::{Bytes, Duration, ParseDurationError};
use utoipa::ToSchema;

/// `[cache.policy]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyConfig {
    /// Whether any of it holds.
    pub enabled: bool,
    /// What may enter the flash.
    pub admission: Text<admission::Spec>,
    /// Memory for what admission stages and remembers.
    pub staging: Text<Bytes>,
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
    fn default() -> Self {
        let brain = tenancy::Settings::default();
        Self {
            enabled: true,
            admission: Text(brain.admission),
            staging: Text(brain.staging),
            write_budget: Text(Switch::Off),
            allocation: Text(brain.allocation),
            spare: match brain.spare {
                tenancy::Spare::Lent => Spare::Lent,
                tenancy::Spare::Idle => Spare::Idle,
                tenancy::Spare::Strict => Spare::Strict,
            },
            reuses: brain.reuses.get(),
            window: Text(match brain.window {
                tenancy::Window::Fixed(time) => Window::Fixed(time),
                tenancy::Window::Knee { .. } => Window::Auto,
            }),
            prediction: Text(brain.prediction),
            hysteresis: brain.hysteresis.to_f64(),
            memory: Text(brain.memory),
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

/// Over which time demand is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Each VM's own, at the knee of its hits by window.
    Auto,
    /// This.
    Fixed(Duration),
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(time) => time.fmt(f),
        }
    }
}

impl FromStr for Window {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, ParseDurationError> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        text.parse().map(Self::Fixed)
    }
}

change! {
    /// What to change of a cache's policy; what is not given stays as it is.
    PolicyChange of PolicyConfig {
        /// Whether any of it holds; else all that is read is let in, and whatever is oldest leaves.
        enabled: bool,
        /// What may enter the flash.
        #[schema(value_type = Option<String>, example = "larc")]
        admission: Text<admission::Spec>,
        /// Memory for what admission stages and remembers.
        #[schema(value_type = Option<String>, example = "256MiB")]
        staging: Text<Bytes>,
        /// What the flash may be written, or `off`.
        #[schema(value_type = Option<String>, example = "1DWPD")]
        write_budget: Text<Switch<Rate>>,
        /// How the flash is divided.
        #[schema(value_type = Option<String>, example = "rwss")]
        allocation: Text<allocation::Spec>,
        /// What becomes of flash that its owner does not use.
        spare: Spare,
        /// How often a block must have been used again to count as demand: 0 to 2.
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
