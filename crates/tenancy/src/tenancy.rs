//! All tenants of a cache: who comes and goes, what is set, and what happens when a window ends.

mod events;

use crate::budgets::Budgets;
use crate::check;
use crate::clock::Clock;
use crate::counts::{Counts, Wrote};
use crate::division;
use crate::error::SettingsError;
use crate::gauge::{Wanted, Wants};
use crate::report::{HostReport, Report};
use crate::sequence::Sequences;
use crate::settings::{Capacity, Settings, TenantSettings, Window};
use crate::shares::Shares;
use crate::tenant::{Tenant, spec_of};
use crate::tenants::Tenants;
use policy::admission::{Fate, Refusals};
use policy::replacement::Key;
use units::{Bytes, Duration, Instant, TenantSlot};

/// The tenants of a cache: see the crate's header. `K` names a block of any disk.
pub struct Tenancy<K> {
    settings: Settings,
    capacity: Capacity,
    tenants: Tenants<K>,
    budgets: Budgets,
    sequences: Sequences,
    clock: Clock,
    shares: Shares,
    /// Bytes written for all, and for nobody.
    wrote: Wrote,
    /// A block had to leave the flash.
    full: bool,
}

impl<K: Key + Into<u64>> Tenancy<K> {
    /// No tenants. The first window begins now.
    ///
    /// # Errors
    /// If the settings contradict each other.
    pub fn new(
        settings: Settings,
        capacity: Capacity,
        now: Instant,
    ) -> Result<Self, SettingsError> {
        check::all(&settings, capacity, &[])?;
        let tenants = Tenants::default();
        Ok(Self {
            budgets: Budgets::new(settings.budget, now),
            clock: Clock::new(now, window(&settings, &tenants)),
            settings,
            capacity,
            tenants,
            sequences: Sequences::default(),
            shares: Shares::default(),
            wrote: Wrote::default(),
            full: false,
        })
    }

    /// Nothing is saved of any write budget, nor of those of tenants that come later: an earlier life of
    /// this cache may have spent all that there was. So over any span of time, with however many lives in
    /// it, no more is let in than the rate and one burst allow. What that life owed is forgotten.
    pub fn begin_empty(&mut self) {
        self.budgets.begin_empty(self.clock.now());
    }

    /// A tenant comes. Its first share is an equal part, until a window has shown what it wants; all
    /// shares are divided anew ([`Tenancy::shares`]), and blocks that have to leave staging for it go
    /// into `left` as from [`Tenancy::missed`].
    ///
    /// # Errors
    /// [`SettingsError::TenantExists`]; any other if its settings cannot hold beside the others'.
    pub fn attach(
        &mut self,
        slot: TenantSlot,
        settings: TenantSettings,
        left: &mut Vec<(K, Fate)>,
    ) -> Result<(), SettingsError> {
        if self.tenants.get(slot).is_some() {
            return Err(SettingsError::TenantExists(slot));
        }
        let all = self.tenants.settings_with(slot, &settings);
        check::all(&self.settings, self.capacity, &all)?;
        let budget = settings.budget;
        let tenant = Tenant::new(settings, &self.settings)?;
        self.budgets.attach(slot, budget, self.clock.now());
        self.tenants.insert(slot, tenant);
        self.divide(left);
        Ok(())
    }

    /// A tenant goes, with all that is known of it but what is left of its write budget: coming and going
    /// wins no burst. Whatever of it is staged is to be dropped. False if there was none.
    pub fn detach(&mut self, slot: TenantSlot, left: &mut Vec<(K, Fate)>) -> bool {
        let was_there = self.tenants.remove(slot);
        if was_there {
            self.divide(left);
        }
        was_there
    }

    /// Changes what holds for all tenants. What does not depend on a setting that changes is kept:
    /// ghosts, staged blocks, demand, curves. Blocks that leave staging for a change go into `left` as
    /// from [`Tenancy::missed`].
    ///
    /// # Errors
    /// If the settings contradict each other or those of a tenant; nothing is changed.
    pub fn set(
        &mut self,
        settings: Settings,
        left: &mut Vec<(K, Fate)>,
    ) -> Result<(), SettingsError> {
        check::all(&settings, self.capacity, &self.tenants.settings())?;
        if settings.budget != self.settings.budget {
            self.budgets.set_device(settings.budget, self.clock.now());
        }
        let before = std::mem::replace(&mut self.settings, settings);
        for (_, tenant) in self.tenants.each_mut() {
            let same = tenant.settings().clone();
            tenant.follow(same, (&before, &self.settings), left)?;
        }
        self.clock.end_within(window(&self.settings, &self.tenants));
        self.divide(left);
        Ok(())
    }

    /// Changes what holds for one tenant; see [`Tenancy::set`].
    ///
    /// # Errors
    /// [`SettingsError::UnknownTenant`]; any other if they cannot hold beside the others'; nothing is
    /// changed.
    pub fn set_tenant(
        &mut self,
        slot: TenantSlot,
        settings: TenantSettings,
        left: &mut Vec<(K, Fate)>,
    ) -> Result<(), SettingsError> {
        let Some(tenant) = self.tenants.get(slot) else {
            return Err(SettingsError::UnknownTenant(slot));
        };
        let all = self.tenants.settings_with(slot, &settings);
        check::all(&self.settings, self.capacity, &all)?;
        if tenant.settings().budget != settings.budget {
            let now = self.clock.now();
            self.budgets.set(slot, settings.budget, now);
        }
        let all = (&self.settings, &self.settings);
        self.tenants.attached(slot).follow(settings, all, left)?;
        self.divide(left);
        Ok(())
    }

    /// A tenant comes from another host, where it wanted this: the flash is divided at once as if it had been seen to want
    /// as much here. False if it is not attached.
    pub fn comes(&mut self, slot: TenantSlot, wanted: Wanted, left: &mut Vec<(K, Fate)>) -> bool {
        if self.tenants.get(slot).is_none() {
            return false;
        }
        let now = self.clock.now();
        self.tenants.attached(slot).comes(wanted, now);
        self.divide(left);
        true
    }

    /// The flash that is divided changes.
    ///
    /// # Errors
    /// If floors are above it; nothing is changed.
    pub fn set_capacity(
        &mut self,
        capacity: Capacity,
        left: &mut Vec<(K, Fate)>,
    ) -> Result<(), SettingsError> {
        check::all(&self.settings, capacity, &self.tenants.settings())?;
        self.capacity = capacity;
        self.divide(left);
        Ok(())
    }

    /// What holds for all tenants.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What holds for one tenant.
    pub fn tenant_settings(&self, slot: TenantSlot) -> Option<&TenantSettings> {
        Some(self.tenants.get(slot)?.settings())
    }

    /// The flash that is divided.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// How the flash is divided now.
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// What a hit of the tenant's saves: the origin's latency less the flash's, as it was measured. The
    /// `utility` allocation goes by it.
    pub fn saves(&mut self, slot: TenantSlot, saved: Duration) {
        if let Some(tenant) = self.tenants.get_mut(slot) {
            tenant.saves(saved);
        }
    }

    /// All memory of the tenancy, staged bytes included.
    pub fn memory(&self) -> Bytes {
        self.tenants.memory() + self.budgets.memory() + self.sequences.memory()
    }

    /// When the running window ends.
    pub fn next_tick(&self) -> Instant {
        self.clock.window_ends()
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
        let ended = self.clock.end(now)?;
        let wants_sizes = self.settings.allocation.about().name == "utility";
        for (slot, tenant) in self.tenants.each_mut() {
            tenant.end_window(ended, wants_sizes, cached(slot));
        }
        let window = window(&self.settings, &self.tenants);
        self.clock.begin(ended.at, window);
        self.shares.window += 1;
        self.divide(left);
        Some(&self.shares)
    }

    /// Divides the flash and the staging memory by what is known now. Nothing is moved or written: the
    /// log takes room from whoever is above its share when another needs it.
    fn divide(&mut self, left: &mut Vec<(K, Fate)>) {
        self.shares = division::divide(
            &self.tenants,
            &self.settings,
            self.capacity,
            &self.shares,
            self.clock.now(),
        );
        self.resize(left);
    }

    /// Tells every admission policy what it has of flash and of staging memory. Those that get less go
    /// first, so that all together never have more than there is.
    fn resize(&mut self, left: &mut Vec<(K, Fate)>) {
        let segment_blocks = u64::from(self.capacity.segment_blocks);
        let total = self.shares.segments().max(1);
        let portions = self.shares.of.iter().map(|share| {
            let staging = division::staging_of(share.segments, total, self.settings.staging);
            let blocks = u64::from(share.segments) * segment_blocks;
            (share.tenant, blocks, staging)
        });
        let portions: Vec<_> = portions.collect();
        for shrinks in [true, false] {
            for &(slot, blocks, staging) in &portions {
                let tenant = self.tenants.attached(slot);
                if (staging < tenant.staging()) == shrinks {
                    let from = left.len();
                    tenant.resize(blocks, staging, left);
                    self.settle(slot, left, from);
                }
            }
        }
    }

    /// Everything about one tenant; `None` if it is not attached. Draws its curve: some ten
    /// microseconds.
    pub fn report(&self, slot: TenantSlot) -> Option<Report> {
        let tenant = self.tenants.get(slot)?;
        let settings = tenant.settings();
        let share = self.shares.get(slot);
        let (share, target) = share.map_or((0, 0), |of| (of.segments, of.target_segments));
        let blocks = |segments: u32| u64::from(segments) * u64::from(self.capacity.segment_blocks);
        Some(Report {
            tenant: slot,
            settings: settings.clone(),
            admission: spec_of(settings, &self.settings).to_string(),
            wants: *tenant.wants(),
            share_segments: share,
            target_segments: target,
            staging: tenant.staging(),
            counts: *tenant.counts(),
            budget: self.budgets.left(slot, self.clock.now()),
            reads_a_second: tenant.reads_a_second(),
            curve: tenant.curve(blocks(share), blocks(target)),
            sharing: tenant.sharing(),
            memory: tenant.memory(),
        })
    }

    /// What became of a tenant's blocks, without the cost of a whole report.
    pub fn counts(&self, slot: TenantSlot) -> Option<&Counts> {
        Some(self.tenants.get(slot)?.counts())
    }

    /// Blocks that were not let in, of all tenants that are attached.
    pub fn refused(&self) -> Refusals {
        let mut sum = Refusals::default();
        for (_, tenant) in self.tenants.each() {
            sum += tenant.counts().refused;
        }
        sum
    }

    /// Memory of all admission policies, staged bytes included.
    pub fn admission_memory(&self) -> Bytes {
        let each = self.tenants.each();
        each.map(|(_, tenant)| tenant.admission_memory()).sum()
    }

    /// A tenant's demand.
    pub fn wants(&self, slot: TenantSlot) -> Option<&Wants> {
        Some(self.tenants.get(slot)?.wants())
    }

    /// Everything about all tenants together.
    pub fn host_report(&self) -> HostReport {
        let images = self.tenants.each().map(|(_, tenant)| tenant);
        let images = images.filter(|tenant| tenant.settings().image);
        let saved = images.filter_map(|tenant| Some(tenant.sharing()?.saved_blocks));
        HostReport {
            tenants: self.tenants.each().count(),
            window_ends: self.clock.window_ends(),
            wrote: self.wrote,
            budget: self.budgets.device_left(self.clock.now()),
            capacity_blocks: self.capacity.blocks(),
            load: self.shares.load,
            saved_by_sharing_blocks: saved.sum(),
            memory: self.memory(),
            memory_limit: self.settings.memory,
        }
    }
}

/// The host's window: the smallest of its tenants', as CloudCache has it.
fn window<K: Key + Into<u64>>(settings: &Settings, tenants: &Tenants<K>) -> Duration {
    let first = match &settings.window {
        Window::Fixed(length) => *length,
        Window::Knee { settings, .. } => settings.small,
    };
    tenants.window().unwrap_or(first)
}
