//! `[[vm]]`: what a VM may have of the flash, and which base images it reads.
//!
//! A VM need not be named here: whoever has a disk is a VM, with every default.

use super::change::change;
use super::text::{Switch, Text};
use super::words::Name;
use policy::admission;
use policy::admission::budget::Rate;
use serde::{Deserialize, Serialize};
use units::Bytes;

/// The largest weight of a VM, a hundred times the usual one.
pub const WEIGHT_MAX: u32 = 10_000;

/// `[[vm]]`: a VM's part of each cache that it has disks on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmConfig {
    /// What its disks name as `vm`.
    pub name: Name,
    /// The shared disks that it may attach, each as the export `DISK@VM`.
    #[serde(default)]
    pub images: Vec<Name>,
    /// What its demand counts beside another's.
    #[serde(default = "defaults::weight")]
    pub weight: u32,
    /// Flash that it keeps even if others could use it better.
    #[serde(default)]
    pub floor: Text<Bytes>,
    /// The most flash that its share may be.
    #[serde(default = "defaults::off")]
    pub ceiling: Text<Switch<Bytes>>,
    /// What may be written to flash for it.
    #[serde(default = "defaults::off")]
    pub write_budget: Text<Switch<Rate>>,
    /// What may enter the flash of it, if not what holds for the cache.
    #[serde(default = "defaults::off")]
    pub admission: Text<Switch<admission::Spec>>,
    /// Whether admission by frequency lets its blocks in without regard to the threshold.
    #[serde(default)]
    pub high_priority: bool,
}

mod defaults {
    use super::{Switch, Text};

    pub(super) const fn weight() -> u32 {
        100
    }
    pub(super) const fn off<T>() -> Text<Switch<T>> {
        Text(Switch::Off)
    }
}

impl VmConfig {
    /// A VM with every default.
    pub fn new(name: Name) -> Self {
        Self {
            name,
            images: Vec::new(),
            weight: defaults::weight(),
            floor: Text(Bytes::ZERO),
            ceiling: defaults::off(),
            write_budget: defaults::off(),
            admission: defaults::off(),
            high_priority: false,
        }
    }
}

change! {
    /// What to change of a VM's settings; what is not given stays as it is.
    VmChange of VmConfig {
        /// The shared disks that it may attach, instead of those before.
        #[schema(value_type = Option<Vec<String>>)]
        images: Vec<Name>,
        /// What its demand counts beside another's: 1 to 10000.
        weight: u32,
        /// Flash that it keeps.
        #[schema(value_type = Option<String>, example = "10GiB")]
        floor: Text<Bytes>,
        /// The most flash that its share may be, or `off`.
        #[schema(value_type = Option<String>, example = "50GiB")]
        ceiling: Text<Switch<Bytes>>,
        /// What may be written to flash for it, or `off`.
        #[schema(value_type = Option<String>, example = "200GiB/day")]
        write_budget: Text<Switch<Rate>>,
        /// What may enter the flash of it, or `off` for what holds for the cache.
        #[schema(value_type = Option<String>, example = "larc")]
        admission: Text<Switch<admission::Spec>>,
        /// Whether admission by frequency lets its blocks in without regard to the threshold.
        high_priority: bool,
    }
}
