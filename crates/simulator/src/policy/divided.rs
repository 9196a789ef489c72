//! A cache that is divided among VMs by the daemon's tenancy: over the daemon's log, or over LRU lists in
//! place.

use super::guarded::{Admission, Staging};
use super::{Policy, PolicyError};
use crate::cache::divided::{self, Tenants};
use crate::cache::partitioned::Partitioned;
use crate::cache::{CacheModel, Maker};
use crate::memory::{self, Facts};
use policy::admission::budget::Rate;
use policy::allocation;
use tenancy::limits::STAGING_MIN;
use tenancy::{Measure, Window};
use units::{Bytes, Duration};

/// Where the blocks lie.
#[derive(Clone, Debug, PartialEq)]
enum Store {
    /// Least recently used of each tenant, in place.
    Lru,
    /// The daemon's log.
    Log {
        kind: policy::reclaim::Kind,
        segment: Option<Bytes>,
    },
}

/// A policy behind the tenancy.
#[derive(Clone, Debug, PartialEq)]
pub struct Divided {
    store: Store,
    tenants: Tenants,
    staging: Staging,
    budget: Option<Rate>,
    /// How the caller wrote the policy, and the admission in front.
    policy: String,
    admission: String,
}

/// What divides a cache, beside its policy.
#[derive(Clone, Debug)]
pub struct Host {
    /// Everything that holds for all VMs; admission, staging, allocation and budget are set by what follows.
    pub settings: tenancy::Settings,
    /// What divides the flash; `None` makes all VMs one tenant.
    pub allocation: Option<allocation::Spec>,
    /// What may enter.
    pub admission: Admission,
    /// RAM for that.
    pub staging: Staging,
    /// What the whole flash may be written; drive writes are of the cache's size.
    pub budget: Option<Rate>,
}

impl Divided {
    pub(super) fn build(&self, maker: &Maker) -> Result<Box<dyn CacheModel>, PolicyError> {
        let flash = Bytes::new(u64::from(maker.blocks) * maker.block.get());
        let mut tenants = self.tenants.clone();
        let staging = self.staging.bytes(flash);
        if !staging.is_zero() {
            // A cache of some megabytes has more than its part: less is not worth a policy's tables.
            tenants.settings.staging = staging.max(STAGING_MIN);
        }
        if let Some(rate) = self.budget {
            tenants.settings.budget = Some(rate.budget(flash)?);
        }
        Ok(match &self.store {
            Store::Lru => Box::new(Partitioned::new(maker, &tenants)?),
            Store::Log { kind, segment } => {
                Box::new(divided::Divided::new(*kind, *segment, maker, &tenants)?)
            }
        })
    }

    /// Bytes of a cache of that many blocks, estimated.
    pub(super) fn memory(&self, blocks: u64, facts: &Facts) -> u64 {
        let settings = &self.tenants.settings;
        let demand = match settings.measure {
            Measure::Exact => memory::exact_demand(longest(&settings.window), facts),
            Measure::Sampled(_) => 0,
        };
        memory::DIVIDED.of(blocks, facts) + memory::of_vms(facts) + demand
    }

    /// Whether the daemon's log is behind the tenancy.
    pub(super) const fn is_log(&self) -> bool {
        matches!(self.store, Store::Log { .. })
    }

    /// How the policy behind the tenancy was written.
    pub(super) fn policy(&self) -> &str {
        &self.policy
    }

    /// How the admission was written.
    pub(super) fn admission(&self) -> &str {
        &self.admission
    }

    /// What divides the flash.
    pub(super) fn allocation(&self) -> Option<String> {
        (!self.tenants.one_tenant).then(|| self.tenants.settings.allocation.to_string())
    }
}

/// The longest window over which demand is measured.
fn longest(window: &Window) -> Duration {
    match window {
        Window::Fixed(length) => *length,
        Window::Knee { lengths, .. } => lengths.longest(),
    }
}

impl Policy {
    /// The same policy with the daemon's tenancy in front: admission, and shares for VMs if there is an
    /// allocation.
    ///
    /// # Errors
    /// If this policy cannot be divided: that is for `lru` and the daemon's log.
    pub fn divided(&self, host: &Host) -> Result<Self, PolicyError> {
        let store = match self {
            Self::InPlace { spec, .. } if spec.about().name == "lru" => Store::Lru,
            Self::Segment { kind, segment } => Store::Log {
                kind: *kind,
                segment: *segment,
            },
            Self::Daemon => return Err(PolicyError::OfDaemon("other division".to_owned())),
            _ => return Err(PolicyError::Undivided(self.to_string())),
        };
        let mut settings = host.settings.clone();
        settings.admission = host.admission.spec().clone();
        if let Some(allocation) = &host.allocation {
            settings.allocation = allocation.clone();
        }
        Ok(Self::Divided(Box::new(Divided {
            store,
            tenants: Tenants {
                settings,
                vms: Vec::new(),
                one_tenant: host.allocation.is_none(),
            },
            staging: host.staging,
            budget: host.budget,
            policy: self.to_string(),
            admission: host.admission.to_string(),
        })))
    }
}
