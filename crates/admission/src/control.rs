//! Who decides what enters, and what waits for the decision.

use crate::saved::Saved;
use frames::{Frames, Kind, Part};
use policy::admission::{Fate, Reason, Staged, Verdict, region_of};
use policy::replacement::Key;
use std::collections::VecDeque;
use tenancy::{
    Arrival, Capacity, Request, Settings, SettingsError, Tenancy, TenantSettings, Wanted, Wrote,
};
use units::{BLOCK_BYTES, Bytes, DiskSlot, Duration, Instant, TenantSlot};

/// The admission of a cache. `K` names a block of any disk, `W` is what waits of a staged one. See the
/// crate's header.
pub struct AdmissionControl<K: Copy, W> {
    mode: Mode<K>,
    frames: Frames<K, W>,
    /// What the tenancy has just sent off.
    left: Left<K>,
    /// Blocks that left staging for flash, and that nobody has asked for yet.
    let_in: VecDeque<(K, W)>,
    saved: Saved,
}

/// Blocks that leave staging, and where to.
type Left<K> = Vec<(K, Fate)>;

/// Who decides.
enum Mode<K> {
    /// Nobody.
    Open,
    /// The tenancy.
    Tenants(Box<Tenancy<K>>),
    /// Nobody can, for this reason.
    Closed(SettingsError),
}

impl<K: Key, W> Default for AdmissionControl<K, W> {
    /// One that is open.
    fn default() -> Self {
        Self::over(Mode::Open, Frames::default())
    }
}

impl<K: Key, W> AdmissionControl<K, W> {
    fn over(mode: Mode<K>, frames: Frames<K, W>) -> Self {
        Self {
            mode,
            frames,
            left: Vec::new(),
            let_in: VecDeque::new(),
            saved: Saved::default(),
        }
    }
}

impl<K: Key + Into<u64>, W> AdmissionControl<K, W> {
    /// One that divides that much flash by these settings; open without settings.
    ///
    /// # Errors
    /// If the settings contradict each other.
    pub fn new(
        settings: Option<Settings>,
        capacity: Capacity,
        now: Instant,
    ) -> Result<Self, SettingsError> {
        let Some(settings) = settings else {
            return Ok(Self::default());
        };
        let frames = Frames::new(&pool_for::<K, W>(&settings));
        let tenancy = Tenancy::new(settings, capacity, now)?;
        Ok(Self::over(Mode::Tenants(Box::new(tenancy)), frames))
    }

    /// Nothing is saved of any write budget; see [`Tenancy::begin_empty`].
    pub fn begin_empty(&mut self) {
        if let Some(tenancy) = self.tenancy_mut() {
            tenancy.begin_empty();
        }
    }

    /// One that is closed for this reason.
    pub fn closed(error: SettingsError) -> Self {
        Self::over(Mode::Closed(error), Frames::default())
    }

    /// Whether everything may enter because nobody is asked.
    #[inline]
    pub fn is_open(&self) -> bool {
        matches!(self.mode, Mode::Open)
    }

    /// Why it is closed.
    pub fn error(&self) -> Option<&SettingsError> {
        match &self.mode {
            Mode::Closed(error) => Some(error),
            Mode::Open | Mode::Tenants(_) => None,
        }
    }

    /// Who gives the verdicts: settings, shares, counts and reports are asked there.
    #[inline]
    pub fn tenancy(&self) -> Option<&Tenancy<K>> {
        match &self.mode {
            Mode::Tenants(tenancy) => Some(tenancy),
            Mode::Open | Mode::Closed(_) => None,
        }
    }

    #[inline]
    fn tenancy_mut(&mut self) -> Option<&mut Tenancy<K>> {
        Some(self.deciding()?.0)
    }

    /// Who decides, and where it says what leaves staging.
    #[inline]
    fn deciding(&mut self) -> Option<(&mut Tenancy<K>, &mut Left<K>)> {
        match &mut self.mode {
            Mode::Tenants(tenancy) => Some((tenancy, &mut self.left)),
            Mode::Open | Mode::Closed(_) => None,
        }
    }

    /// Frames follow the tenants' shares of the flash.
    fn divide_frames(&mut self) {
        let Some(tenancy) = self.tenancy() else {
            return;
        };
        let parts = tenancy.shares().of.iter().map(|of| {
            let settings = tenancy.tenant_settings(of.tenant);
            Part {
                tenant: of.tenant,
                parts: of.segments,
                high_priority: settings.is_some_and(|settings| settings.high_priority),
            }
        });
        let parts: Vec<_> = parts.collect();
        self.frames.divide(&parts);
    }

    /// Deals with what a call of the tenancy has sent off.
    fn settle(&mut self) {
        for (key, fate) in self.left.drain(..) {
            if let (Some(waits), Fate::Admit) = (self.frames.unstage(key), fate) {
                self.let_in.push_back((key, waits));
            }
        }
    }

    /// The next block that left staging for flash.
    #[inline]
    pub fn next_let_in(&mut self) -> Option<(K, W)> {
        self.let_in.pop_front()
    }

    // Settings and tenants.

    /// Changes what holds for all tenants, while there are any; an open or closed admission is replaced
    /// by a new one instead.
    ///
    /// # Errors
    /// If the settings contradict each other or those of a tenant; nothing is changed.
    pub fn set(&mut self, settings: Settings) -> Result<(), SettingsError> {
        let pool = pool_for::<K, W>(&settings);
        if let Some((tenancy, left)) = self.deciding() {
            tenancy.set(settings, left)?;
            self.settle();
            self.frames.resize(&pool);
            self.divide_frames();
        }
        Ok(())
    }

    /// A tenant comes.
    ///
    /// # Errors
    /// As [`Tenancy::attach`].
    pub fn attach(
        &mut self,
        tenant: TenantSlot,
        settings: TenantSettings,
    ) -> Result<(), SettingsError> {
        if let Some((tenancy, left)) = self.deciding() {
            tenancy.attach(tenant, settings, left)?;
        }
        self.settle();
        self.divide_frames();
        Ok(())
    }

    /// A tenant goes; what of it is staged leaves. False if there was none.
    pub fn detach(&mut self, tenant: TenantSlot) -> bool {
        let deciding = self.deciding();
        let was_here = deciding.is_some_and(|(tenancy, left)| tenancy.detach(tenant, left));
        self.settle();
        self.frames.forget_tenant(tenant);
        self.divide_frames();
        was_here
    }

    /// Changes what holds for one tenant.
    ///
    /// # Errors
    /// As [`Tenancy::set_tenant`]; nothing is changed.
    pub fn set_tenant(
        &mut self,
        tenant: TenantSlot,
        settings: TenantSettings,
    ) -> Result<(), SettingsError> {
        if let Some((tenancy, left)) = self.deciding() {
            tenancy.set_tenant(tenant, settings, left)?;
        }
        self.settle();
        self.divide_frames();
        Ok(())
    }

    /// A tenant comes from another host, where it wanted this.
    pub fn comes(&mut self, tenant: TenantSlot, wanted: Wanted) {
        if let Some((tenancy, left)) = self.deciding() {
            tenancy.comes(tenant, wanted, left);
        }
        self.settle();
        self.divide_frames();
    }

    /// Whether the tenancy keeps a tenant's books: nothing of any other enters.
    #[inline]
    pub fn has(&self, tenant: TenantSlot) -> bool {
        let known = self.tenancy();
        known.is_some_and(|tenancy| tenancy.tenant_settings(tenant).is_some())
    }

    // Time.

    /// When the running window ends; none without tenants.
    pub fn next_tick(&self) -> Option<Instant> {
        self.tenancy().map(Tenancy::next_tick)
    }

    /// Ends a window that is over by now. True if there was one: then shares may have changed, and another
    /// may be over. `cached` says how many blocks of a tenant are on flash.
    pub fn tick(&mut self, now: Instant, cached: impl Fn(TenantSlot) -> u64) -> bool {
        let Mode::Tenants(tenancy) = &mut self.mode else {
            return false;
        };
        if tenancy.next_tick() > now {
            return false;
        }
        for (tenant, saved) in self.saved.take() {
            tenancy.saves(tenant, saved);
        }
        let has_ended = tenancy.tick(now, cached, &mut self.left).is_some();
        self.settle();
        self.divide_frames();
        has_ended
    }

    /// A read of the flash took so long.
    #[inline]
    pub fn flash_took(&mut self, time: Duration) {
        if self.tenancy().is_some() {
            self.saved.flash_took(time);
        }
    }

    /// A read of a tenant's origin took so long.
    pub fn origin_took(&mut self, tenant: TenantSlot, time: Duration) {
        if self.tenancy().is_some() {
            self.saved.origin_took(tenant, time);
        }
    }

    // Requests and their blocks.

    /// A request has come, which counts as demand if `counts`. None if nobody keeps its tenant's books:
    /// then nothing of it may enter.
    #[inline]
    pub fn arrives(&mut self, request: &Request, counts: bool) -> Option<Arrival> {
        let tenancy = self.tenancy_mut()?;
        tenancy.tenant_settings(request.tenant)?;
        if counts {
            return Some(tenancy.arrives(request));
        }
        Some(Arrival {
            vm: request.vm,
            tenant: request.tenant,
            write: request.write,
            region: region_of(request.disk, request.first.start()),
            run: Bytes::ZERO,
        })
    }

    /// What is remembered of a request, if it still means something: the tenancy may have been replaced
    /// while the request was under way.
    pub fn still(&self, arrival: Option<Arrival>) -> Option<Arrival> {
        arrival.filter(|arrival| self.has(arrival.tenant))
    }

    /// Blocks that somebody reads, or writes, are on flash.
    #[inline]
    pub fn hits(&mut self, arrival: &Arrival, keys: impl IntoIterator<Item = K>) {
        if let Some(tenancy) = self.tenancy_mut() {
            tenancy.hits(arrival, keys);
        }
    }

    /// What waits of a block, if it is staged.
    #[inline]
    pub fn staged(&self, key: K) -> Option<&W> {
        self.frames.get_of(Kind::Staged, key)
    }

    /// A staged block is read, or a write has replaced all of it. If that lets it in it is the last of
    /// [`AdmissionControl::next_let_in`].
    pub fn staged_hit(&mut self, arrival: &Arrival, key: K) {
        let Some((tenancy, left)) = self.deciding() else {
            return;
        };
        match tenancy.staged_hit(arrival, key, left) {
            Staged::Stays => {}
            Staged::Drop => left.push((key, Fate::Drop)),
            Staged::Admit => left.push((key, Fate::Admit)),
        }
        self.settle();
    }

    /// A block is neither on flash nor staged, and its bytes are at hand. If the verdict is to stage it,
    /// what `waits` gives is staged; if the pool is full of staged blocks it is refused instead, and its policy forgets
    /// it. None if nobody decides.
    pub fn missed(
        &mut self,
        arrival: &Arrival,
        key: K,
        waits: impl FnOnce() -> W,
    ) -> Option<Verdict> {
        let (tenancy, left) = self.deciding()?;
        let verdict = tenancy.missed(arrival, key, left);
        self.settle();
        if verdict == Verdict::Stage && self.frames.stage(arrival.tenant, key, waits()).is_err() {
            self.removed(arrival.tenant, key);
            return Some(Verdict::Refuse(Reason::FirstTouch));
        }
        Some(verdict)
    }

    /// A block whose bytes are at hand is to go to flash because somebody asked for just that: no policy is
    /// asked, the write budgets are. None if nobody decides.
    pub fn asked_for(&mut self, arrival: &Arrival, key: K) -> Option<Verdict> {
        Some(self.tenancy_mut()?.asked_for(arrival, key))
    }

    /// Whether the new copy of a block that is on flash may be written there: a hit, then
    /// [`Tenancy::may_rewrite`]. Without tenants it may if everything may.
    pub fn rewrites(&mut self, arrival: &Arrival, key: K, was_read: bool) -> bool {
        let Some(tenancy) = self.tenancy_mut() else {
            return self.is_open();
        };
        tenancy.hit(arrival, key);
        tenancy.may_rewrite(arrival, key, was_read)
    }

    /// A block was let in and found no room on flash.
    pub fn withheld(&mut self, tenant: TenantSlot, key: K) {
        if let Some(tenancy) = self.tenancy_mut() {
            tenancy.withheld(tenant, key);
        }
    }

    /// A block left flash by reclaim.
    pub fn evicted(&mut self, tenant: TenantSlot, key: K) {
        if let Some(tenancy) = self.tenancy_mut() {
            tenancy.evicted(tenant, key);
        }
    }

    /// A block left flash for another reason.
    pub fn removed(&mut self, tenant: TenantSlot, key: K) {
        if let Some(tenancy) = self.tenancy_mut() {
            tenancy.removed(tenant, key);
        }
    }

    /// A block is about to change, or its disk to leave: its frame is stale, and gone. True if it had one.
    pub fn change(&mut self, tenant: TenantSlot, key: K) -> bool {
        let kind = self.frames.change(key);
        if kind == Some(Kind::Staged) {
            self.removed(tenant, key);
        }
        kind.is_some()
    }

    /// Every frame of a block for which `goes` is true is gone.
    pub fn change_all(&mut self, tenant: TenantSlot, goes: impl Fn(K) -> bool)
    where
        K: Ord,
    {
        let keys = Kind::ALL
            .into_iter()
            .flat_map(|kind| self.frames.keys(kind));
        let mut keys: Vec<K> = keys.filter(|key| goes(*key)).collect();
        keys.sort_unstable();
        for key in keys {
            self.change(tenant, key);
        }
    }

    /// What waits in memory: staged blocks, and prefetched ones.
    #[inline]
    pub fn frames(&self) -> &Frames<K, W> {
        &self.frames
    }

    /// The same, for who prefetches, and reads what was prefetched or is hot. What is staged comes and goes with the calls
    /// above. A hot block that is read is a hit of the flash all the same, or a miss with the bytes at hand: the memory
    /// hides no use from the tenancy.
    pub fn frames_mut(&mut self) -> &mut Frames<K, W> {
        &mut self.frames
    }

    /// A run of blocks was erased: they count as demand no longer.
    pub fn discarded(&mut self, tenant: TenantSlot, disk: DiskSlot, first: u64, count: u64) {
        if let Some(tenancy) = self.tenancy_mut() {
            tenancy.discarded(tenant, disk, first, count);
        }
    }

    /// Bytes went to flash, for a tenant or for nobody.
    #[inline]
    pub fn charge(&mut self, tenant: Option<TenantSlot>, wrote: impl Into<Wrote>) {
        if let Some(tenancy) = self.tenancy_mut() {
            tenancy.charge(tenant, wrote.into());
        }
    }

    // Memory.

    /// Bytes of memory as the tenancy counts them, staged blocks included.
    pub fn memory(&self) -> Bytes {
        self.tenancy().map_or(Bytes::ZERO, Tenancy::memory)
    }
}

/// The memory that is set for frames; else a frame for all that may be staged, and the tables that find them.
fn pool_for<K: Key, W>(settings: &Settings) -> frames::Settings {
    let staged = settings.staging.get() / BLOCK_BYTES;
    let needs = || Frames::<K, W>::size_for(staged);
    frames::Settings {
        size: settings.frames.unwrap_or_else(needs),
        staged,
        hot: settings.hot.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{BlockIndex, Prng};

    const VM: TenantSlot = TenantSlot::new(0);
    const CAPACITY: Capacity = Capacity {
        segments: 64,
        segment_blocks: 16,
        checkpoint: Bytes::ZERO,
    };

    /// What waits is the block's number, to see that it is the right one that comes out again.
    type Control = AdmissionControl<u64, u64>;

    fn with(admission: &str) -> Control {
        let settings = Settings {
            admission: admission.parse().unwrap(),
            staging: Bytes::mib(1),
            ..Settings::default()
        };
        let mut control = Control::new(Some(settings), CAPACITY, Instant::ZERO).unwrap();
        control.attach(VM, TenantSettings::default()).unwrap();
        control
    }

    fn arrive(control: &mut Control, block: u64, write: bool) -> Arrival {
        let request = Request {
            vm: VM,
            tenant: VM,
            disk: DiskSlot::new(0),
            first: BlockIndex::new(block),
            count: 1,
            write,
            now: Instant::ZERO,
        };
        control.arrives(&request, true).unwrap()
    }

    #[test]
    fn what_waits_comes_out_with_its_block_and_each_block_once() {
        let mut control = with("staging");
        let (mut dice, mut on_flash) = (Prng::new(7), std::collections::BTreeSet::new());
        let (mut staged_hits, mut let_in) = (0, 0);
        for _ in 0..20_000 {
            let block = dice.below(600);
            let arrival = arrive(&mut control, block, false);
            if on_flash.contains(&block) {
                control.hits(&arrival, [block]);
            } else if let Some(waits) = control.staged(block) {
                assert_eq!(*waits, block);
                control.staged_hit(&arrival, block);
                staged_hits += 1;
            } else if control.missed(&arrival, block, || block) == Some(Verdict::Admit) {
                on_flash.insert(block);
            }
            while let Some((key, waits)) = control.next_let_in() {
                assert_eq!(key, waits);
                assert!(control.staged(key).is_none());
                assert!(on_flash.insert(key), "a block is let in once");
                let_in += 1;
            }
        }
        assert!(staged_hits > 100 && let_in > 100, "{staged_hits} {let_in}");
        control.detach(VM);
        assert!(
            control.frames().is_empty(),
            "what is staged leaves with its VM"
        );
        assert_eq!(control.next_let_in(), None);
    }

    #[test]
    fn a_block_that_changes_is_staged_no_longer() {
        let mut control = with("staging");
        let arrival = arrive(&mut control, 5, false);
        let verdict = control.missed(&arrival, 5, || 5);
        assert_eq!(verdict, Some(Verdict::Stage));
        assert!(control.change(VM, 5));
        assert!(!control.change(VM, 5));
        assert_eq!(control.tenancy().unwrap().counts(VM).unwrap().unstaged, 1);
    }

    #[test]
    fn what_finds_no_frame_is_refused_and_forgotten() {
        let mut control = with("staging");
        // As if a policy staged more than its share: the pool has a single frame.
        control.frames.resize(&frames::Settings {
            size: Frames::<u64, u64>::size_for(1),
            staged: 1,
            hot: policy::memory::Spec::default(),
        });
        for (block, expected) in [
            (5, Verdict::Stage),
            (6, Verdict::Refuse(Reason::FirstTouch)),
        ] {
            let arrival = arrive(&mut control, block, false);
            let verdict = control.missed(&arrival, block, || block);
            assert_eq!(verdict, Some(expected));
        }
        assert_eq!(control.frames().len(Kind::Staged), 1);
        assert_eq!(control.tenancy().unwrap().counts(VM).unwrap().unstaged, 1);
        let arrival = arrive(&mut control, 6, false);
        let verdict = control.missed(&arrival, 6, || 6);
        assert_ne!(verdict, Some(Verdict::Admit), "its first use is forgotten");
    }

    #[test]
    fn a_prefetched_block_is_read_once_from_memory_and_a_change_ends_it() {
        let mut control = with("staging");
        for block in 0..3 {
            assert!(control.frames_mut().ahead().put(VM, block, 3, block));
        }
        assert_eq!(control.frames().len(Kind::Ahead), 3);
        assert_eq!(control.frames_mut().ahead().read(1), Some((3, 1)));
        assert_eq!(control.frames_mut().ahead().read(1), None);
        assert!(control.change(VM, 2));
        assert_eq!(control.frames_mut().ahead().read(2), None);
        control.change_all(VM, |block| block == 0);
        assert!(control.frames().is_empty());
        let counts = control.frames_mut().ahead().counts(VM);
        assert_eq!((counts.used, counts.wasted), (1, 2));
        assert_eq!(control.tenancy().unwrap().counts(VM).unwrap().unstaged, 0);
    }

    #[test]
    fn settings_that_contradict_each_other_close_it() {
        let settings = Settings {
            staging: Bytes::gib(2),
            ..Settings::default()
        };
        let error = Control::new(Some(settings), CAPACITY, Instant::ZERO);
        let mut control = Control::closed(error.err().expect("staging is above the memory"));
        assert!(!control.is_open());
        assert!(control.error().is_some());
        assert!(!control.has(VM));
        let arrival = arrive(&mut with("always"), 1, true);
        assert_eq!(control.still(Some(arrival)), None);
        assert_eq!(control.missed(&arrival, 1, || 1), None);
        assert!(!control.rewrites(&arrival, 1, true));
        assert!(Control::default().rewrites(&arrival, 1, true));
    }
}
