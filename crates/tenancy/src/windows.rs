//! The end of a window: what everyone wanted, and how flash and staging memory are divided for the next.
//!
//! ```text
//!   every tenant: demand of its own window ─► filter ─► prediction ┐
//!                 live curve, cached blocks ───────────────────────┼─► allocation ─► hysteresis ─► shares
//!                 floor, ceiling, weight ──────────────────────────┘                                 │
//!                                                        staging memory in proportion to shares ◄────┘
//! ```
//!
//! The host's window is the smallest of its tenants', as CloudCache has it. Nothing is moved or written
//! when shares change: the log takes room from whoever is above its share when another needs it.

use crate::settings::{Spare, Window};
use crate::shares::{Share, Shares};
use crate::tenancy::Tenancy;
use policy::admission::Fate;
use policy::allocation::{self, Cached, Room};
use policy::replacement::Key;
use units::number::real;
use units::{BLOCK_BYTES, Bytes, Duration, Instant, TenantSlot};

impl<K: Key + Into<u64>> Tenancy<K> {
    /// When the running window ends.
    pub fn next_tick(&self) -> Instant {
        self.window_ends
    }

    /// The smallest window of all tenants.
    pub(crate) fn window(&self) -> Duration {
        let first = match &self.settings.window {
            Window::Fixed(length) => *length,
            Window::Knee { settings, .. } => settings.small,
        };
        let windows = self.each().map(|(_, tenant)| tenant.gauge.window());
        windows.min().unwrap_or(first)
    }

    /// Time has passed. If a window has ended by now, demand is looked at and the flash divided anew for
    /// the window that began then; call it again until it says none, since several may have ended. It
    /// acts as of the moment when the window ended, so that calls that come late decide the same.
    ///
    /// `cached` says how many blocks of a tenant are on flash. Blocks that leave staging go into `left` as
    /// from [`Tenancy::missed`].
    pub fn tick(
        &mut self,
        now: Instant,
        cached: impl Fn(TenantSlot) -> u64,
        left: &mut Vec<(K, Fate)>,
    ) -> Option<&Shares> {
        // At the end of time windows end no more.
        if now < self.window_ends || self.window_ends == self.window_began {
            return None;
        }
        let idle = std::mem::take(&mut self.accesses) == 0;
        self.idle_windows = if idle { self.idle_windows + 1 } else { 0 };
        let at = if self.idle_windows > crate::limits::IDLE_WINDOWS_MAX {
            now
        } else {
            self.window_ends
        };
        self.now = self.now.max(at);
        let length = at - self.window_began;
        let wants_sizes = self.settings.allocation.about().name == "utility";
        for (slot, tenant) in self.each_mut() {
            tenant.look(at, length, wants_sizes);
            tenant.cached_before = tenant.cached;
            let (reaccessed, shared) = tenant.tags.as_ref().map_or((0, 0), |tags| {
                let sharing = tags.estimate();
                (sharing.reaccessed_blocks, sharing.shared_blocks)
            });
            tenant.cached = Cached {
                allocated: cached(slot),
                reaccessed,
                shared,
            };
        }
        self.window_began = at;
        self.window_ends = at + self.window();
        self.shares.window += 1;
        self.divide(left);
        Some(&self.shares)
    }

    /// Divides the flash and the staging memory by what is known now.
    pub(crate) fn divide(&mut self, left: &mut Vec<(K, Fate)>) {
        let division = {
            let tenants: Vec<_> = self.each().map(|(slot, _)| self.claim(slot)).collect();
            let room = Room {
                capacity: self.capacity.segments,
                segment_blocks: self.capacity.segment_blocks,
                spare: match self.settings.spare {
                    Spare::Lent => allocation::Spare::Spread,
                    Spare::Idle | Spare::Strict => allocation::Spare::Idle,
                },
                hysteresis: self.settings.hysteresis,
            };
            let divided = self.settings.allocation.divide(&room, &tenants);
            divided.expect("limits were checked when they were set")
        };
        let shares = division.shares.iter().zip(&division.targets);
        let of = self.each().zip(shares);
        let of = of.map(|((tenant, _), (&segments, &target_segments))| Share {
            tenant,
            segments,
            target_segments,
        });
        self.shares = Shares {
            since: self.now,
            window: self.shares.window,
            overloaded: division.is_overloaded(),
            idle_segments: division.idle,
            load: division.load,
            of: of.collect(),
        };
        self.resize(left);
    }

    fn claim(&self, slot: TenantSlot) -> allocation::Tenant<'_> {
        let tenant = self.get(slot).expect("it is one of them");
        let wants = tenant.gauge.wants();
        allocation::Tenant {
            slot,
            limits: tenant.settings.limits(self.capacity),
            before: self.shares.get(slot).map(|share| share.segments),
            wss: wants.wss_predicted,
            rwss: wants.rwss_predicted,
            cached: tenant.cached,
            cached_before: tenant.cached_before,
            curve: &tenant.sizes,
            accesses_a_second: tenant.reads_a_second,
            saved_us: real(tenant.saved.as_nanos()) / 1e3,
        }
    }

    /// Tells every admission policy what it has of flash and of staging memory. Those that get less go
    /// first, so that all together never have more than there is.
    fn resize(&mut self, left: &mut Vec<(K, Fate)>) {
        let staging = self.settings.staging;
        let total = self.shares.segments().max(1);
        let segment_blocks = u64::from(self.capacity.segment_blocks);
        let portion = |segments: u32| {
            let part = u128::from(staging.get()) * u128::from(segments) / u128::from(total);
            let part = u64::try_from(part).expect("a part of 64 bits");
            Bytes::new(part / BLOCK_BYTES * BLOCK_BYTES)
        };
        let shares = std::mem::take(&mut self.shares.of);
        for shrinks in [true, false] {
            for share in &shares {
                let (blocks, staging) = (
                    u64::from(share.segments) * segment_blocks,
                    portion(share.segments),
                );
                let tenant = self.tenant_mut(share.tenant);
                if (staging < tenant.share.staging) == shrinks {
                    let from = left.len();
                    tenant.resize(blocks, staging, left);
                    self.settle(share.tenant, left, from);
                }
            }
        }
        self.shares.of = shares;
    }
}
