//! A disk of the world, whichever host serves it: its origin, what its sectors have held, and who has it
//! as recorded with the origin.
//!
//! What a disk is like that has bytes waiting on flash is told by its owner's record alone: while that is
//! open the origin lags, and has to be a state that the guest could have left behind; while it is closed
//! the origin has everything. The record is the world's own knowledge: it is durable when the state
//! directory says so, and a crash may find it half-way. What a cache asks to be recorded is held against
//! what the origin holds at that moment.

use crate::checker::{History, Moment, SECTOR, Tag, fill_sector, tag_of};
use crate::origin::Origin;
use crate::run::Run;
use crate::settings::{DiskSettings, Special};
use crate::violation::Violation;
use crate::write_back::WriteBackHistory;
use cache::OwnerRecord;
use std::num::NonZeroU64;
use units::{BLOCK_BYTES, Bytes, DiskId, Offset, SECTOR_BYTES};

/// See the module's header.
pub(crate) struct Disk {
    number: usize,
    id: DiskId,
    settings: DiskSettings,
    sectors_most: u64,
    origin: Origin,
    history: History,
    write_back: WriteBackHistory,
    /// Who has it, as recorded with the origin.
    owner: Option<OwnerRecord>,
    /// The cache that had it last, if it has no record that says so.
    home: Option<u128>,
    /// The key that its blocks are encrypted by on flash; none if they are not.
    key: Option<NonZeroU64>,
    /// It was detached cleanly with a fingerprint, so a stranger's writes will be noticed.
    may_be_written_by_strangers: bool,
    /// It was attached with its present size.
    size_is_known: bool,
}

impl Disk {
    /// A disk each of whose sectors holds a value of its own.
    pub(crate) fn new(number: usize, settings: DiskSettings, run: &mut Run) -> Self {
        let size = Bytes::new(settings.sectors * SECTOR_BYTES);
        let latency = run.settings().origin_latency;
        let first_tag = run.next_tags(settings.sectors);
        let mut disk = Self {
            number,
            id: DiskId::from_u128(0xd15c_0000 + number as u128),
            settings,
            sectors_most: settings.sectors,
            origin: Origin::new(size, latency, run.dice()),
            history: History::new(usize::try_from(settings.sectors).expect("disks are small")),
            write_back: WriteBackHistory::default(),
            owner: None,
            home: None,
            key: None,
            may_be_written_by_strangers: false,
            size_is_known: false,
        };
        for sector in 0..settings.sectors {
            disk.replace_sector(sector, first_tag + sector, 0);
        }
        disk
    }

    /// Its identity.
    pub(crate) fn id(&self) -> DiskId {
        self.id
    }

    /// Its origin.
    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The same, to be used.
    pub(crate) fn origin_mut(&mut self) -> &mut Origin {
        &mut self.origin
    }

    /// What its sectors have held, to be added to.
    pub(crate) fn history_mut(&mut self) -> &mut History {
        &mut self.history
    }

    /// What is known of its writes that go back.
    pub(crate) fn write_back_mut(&mut self) -> &mut WriteBackHistory {
        &mut self.write_back
    }

    // Its size and nature.

    /// Its size.
    pub(crate) fn size(&self) -> Bytes {
        Bytes::new(self.settings.sectors * SECTOR_BYTES)
    }

    /// Its size in sectors.
    pub(crate) fn sectors(&self) -> u64 {
        self.settings.sectors
    }

    /// The size that it had at first, above which it does not grow.
    pub(crate) fn sectors_most(&self) -> u64 {
        self.sectors_most
    }

    /// The same, to count with.
    pub(crate) fn sectors_most_usize(&self) -> usize {
        usize::try_from(self.sectors_most).expect("disks are small")
    }

    /// It has grown while it was served.
    pub(crate) fn grow(&mut self, sectors: u64) {
        self.settings.sectors = sectors;
    }

    /// The operator grows or shrinks it between two attachments, as may be done at any time: what is cut
    /// off is gone, what is added is zero.
    pub(crate) fn change_size(&mut self, run: &mut Run) {
        // Twice without an attachment in between could lead back to the size that was known.
        let may = run.settings().sizes_change && self.size_is_known && !self.is_open();
        if !may || !run.one_in(3) {
            return;
        }
        self.size_is_known = false;
        let mut sectors = 8 + run.below(self.sectors_most - 7);
        if run.special() == Special::Pestered {
            // Only whole blocks can be under write-back, and grow.
            sectors -= sectors % 8;
        }
        let (number, before) = (self.number, self.settings.sectors);
        run.hit("size changed");
        run.event(&[16, number as u64, sectors], || {
            format!("disk {number} goes from {before} to {sectors} sectors")
        });
        for sector in sectors..before {
            let now = run.next_moment();
            self.replace_sector(sector, 0, now);
        }
        self.settings.sectors = sectors;
    }

    /// What the seed says about it.
    pub(crate) fn settings(&self) -> DiskSettings {
        self.settings
    }

    /// Whether its writes can go back later.
    pub(crate) fn can_go_back(&self) -> bool {
        self.size().is_multiple_of(BLOCK_BYTES) && !self.settings.read_only
    }

    /// What tells whether somebody else wrote it.
    pub(crate) fn fingerprint(&self) -> Option<u128> {
        self.settings.fingerprint.then(|| self.origin.version())
    }

    /// The key that its blocks are encrypted by on flash.
    pub(crate) fn key(&self) -> Option<NonZeroU64> {
        self.key
    }

    // Who has it.

    /// Who has it, as recorded with its origin.
    pub(crate) fn owner(&self) -> Option<OwnerRecord> {
        self.owner
    }

    /// The cache that has it may have bytes that the origin lacks.
    pub(crate) fn is_open(&self) -> bool {
        self.owner.is_some_and(|record| record.open)
    }

    /// This cache may have bytes that the origin lacks.
    pub(crate) fn is_open_to(&self, cache: u128) -> bool {
        self.owner
            .is_some_and(|record| record.open && record.cache == cache)
    }

    /// The origin has everything, so the record must say so.
    ///
    /// # Errors
    /// I6 if it does not.
    pub(crate) fn must_be_closed(&self, since: &str) -> Result<(), Violation> {
        if self.is_open() {
            let what = format!("{since}, and its owner's record is {:?}", self.owner);
            return Err(Violation::new("I6", what));
        }
        Ok(())
    }

    /// A disk that was never under write-back has no record, and only its fingerprint tells a cache
    /// that another one had it; which it has from a clean detach. The operator has to keep it where
    /// it is.
    pub(crate) fn belongs_elsewhere(&self, cache: u128) -> bool {
        self.owner.is_none() && self.home.is_some_and(|home| home != cache)
    }

    /// This cache is gone for good.
    pub(crate) fn cache_is_lost(&mut self, cache: u128) {
        self.home = self.home.filter(|home| *home != cache);
    }

    /// `cache` asks to record who has it; `nobody` if it may say so without being the owner.
    ///
    /// # Errors
    /// I5 if that cache must not, I6 if the origin lacks what it is said to have.
    pub(crate) fn judge_record(
        &self,
        record: OwnerRecord,
        cache: u128,
        nobody: bool,
    ) -> Result<(), Violation> {
        if record.cache != cache && !nobody {
            return Err(Violation::new(
                "I5",
                format!("cache {cache:x} asks to record {record:?}"),
            ));
        }
        match self.owner {
            Some(before)
                if record.epoch < before.epoch || (before.open && before.cache != cache) =>
            {
                Err(Violation::new(
                    "I5",
                    format!("{:?} goes from {before:?} to {record:?}", self.id),
                ))
            }
            _ => Ok(()),
        }
    }

    /// A record has been made; with `dropping` what waited is thrown away with it.
    pub(crate) fn recorded(&mut self, record: OwnerRecord, dropping: bool, now: Moment) {
        if record.open && !self.is_open() {
            self.write_back.opened(now, self.size());
        }
        if !record.open && self.is_open() && !dropping {
            // It may say so only then. What went through before is durable when it is flushed.
            let since = self.write_back.since();
            self.history.durable_between(since, now);
        }
        self.owner = Some(record);
    }

    // What a cache does with it.

    /// A cache has it, by this key.
    pub(crate) fn attached(&mut self, cache: u128, key: Option<NonZeroU64>) {
        self.home = Some(cache);
        self.key = key;
        self.may_be_written_by_strangers = false;
        self.size_is_known = true;
    }

    /// No cache has it: it was detached cleanly.
    pub(crate) fn detached(&mut self) {
        self.may_be_written_by_strangers = self.settings.fingerprint && !self.is_open();
    }

    /// The process that had it has died: what was in flight may have changed the origin after its last
    /// fingerprint.
    pub(crate) fn torn_away(&mut self) {
        self.may_be_written_by_strangers = false;
    }

    /// Everything that was acknowledged before `issued` has been brought to the origin.
    ///
    /// # Errors
    /// I6 if it is not there.
    pub(crate) fn destaged(&mut self, issued: Moment) -> Result<(), Violation> {
        self.origin_has(issued)?;
        self.history.durable_before(issued);
        self.write_back.destaged(issued);
        Ok(())
    }

    /// The audit after a start has found this in its sectors, of which some wait on flash: it is
    /// everything up to one point.
    ///
    /// # Errors
    /// A violation if it is not.
    pub(crate) fn judge_cut(
        &mut self,
        found: &[Vec<Option<Tag>>],
        run: &mut Run,
    ) -> Result<(), Violation> {
        if !self.write_back.take_ragged() {
            run.hit("one cut");
            self.history.one_cut(found, self.write_back.since())?;
        }
        self.history.settle(found, run.special() == Special::Late);
        Ok(())
    }

    // What the origin holds.

    /// Every value that its origin's sectors may hold, whatever it loses now.
    fn fates(&self) -> Vec<Vec<Option<Tag>>> {
        let mut fates = vec![Vec::new(); self.sectors_most_usize()];
        self.origin.fates(|sector, content| {
            let tag = tag_of(content);
            if !fates[sector].contains(&tag) {
                fates[sector].push(tag);
            }
        });
        fates
    }

    /// What its origin's sectors read as.
    fn held_by_origin(&self) -> Vec<Vec<Option<Tag>>> {
        let mut bytes = vec![0; self.sectors_most_usize() * SECTOR];
        self.origin.peek(Offset::ZERO, &mut bytes);
        let sectors = bytes.chunks_exact(SECTOR);
        sectors.map(|content| vec![tag_of(content)]).collect()
    }

    /// The origin reads as all that was acknowledged before `before`.
    ///
    /// # Errors
    /// I6 if something is missing.
    pub(crate) fn origin_reads(&self, before: Moment) -> Result<(), Violation> {
        self.history.origin_has(&self.held_by_origin(), 0, before)
    }

    /// The origin has all that was acknowledged before `before`, for good.
    ///
    /// # Errors
    /// I6 if something is missing.
    pub(crate) fn origin_has(&self, before: Moment) -> Result<(), Violation> {
        // What went through before it came under write-back is there, flushed or not.
        self.origin_reads(before)?;
        self.history
            .origin_has(&self.fates(), self.write_back.since(), before)
    }

    /// What is left of it if the flash is lost now is a disk that its guest could have left behind.
    ///
    /// # Errors
    /// A violation if it is not.
    pub(crate) fn judge_origin_alone(&self) -> Result<(), Violation> {
        if !self.is_open() || !self.write_back.is_ordered() {
            return Ok(());
        }
        self.history
            .origin_alone(&self.fates())
            .map_err(|violation| {
                Violation::new(
                    violation.invariant,
                    format!("of {:?}, {}", self.id, violation.what),
                )
            })
    }

    /// What the origin holds after a crash is what counts from now on. `origin_cut` if it has lost its
    /// power, `flash_cut` if the flash has or may have lost what waited there.
    ///
    /// # Errors
    /// A violation if it must not hold it.
    pub(crate) fn look_after_crash(
        &mut self,
        origin_cut: bool,
        flash_cut: bool,
        now: Moment,
    ) -> Result<(), Violation> {
        // What waits on flash is as durable as the flash is; and if that lies about a write that
        // nobody has flushed, it passes for one that was cut off.
        if origin_cut || (flash_cut && self.is_open()) {
            self.history.lost_power();
        }
        if self.is_open() {
            return self.judge_origin_alone();
        }
        let all = Offset::new(self.sectors_most * SECTOR_BYTES);
        for run in self.origin.settled(all) {
            let mut bytes = vec![0; (run.end - run.start).to_usize()];
            self.origin.peek(run.start, &mut bytes);
            self.history
                .origin_holds(run.start, &bytes, origin_cut, now)?;
        }
        Ok(())
    }

    /// What the origin holds is the disk from now on.
    ///
    /// # Errors
    /// A violation if its guest could not have left that behind.
    pub(crate) fn go_on_from_origin(&mut self, run: &mut Run) -> Result<(), Violation> {
        self.judge_origin_alone()?;
        if self.write_back.is_ordered() {
            run.hit("went on from the origin alone");
        }
        let now = run.next_moment();
        let bytes = self.origin.settle(self.size());
        for (sector, content) in bytes.chunks_exact(SECTOR).enumerate() {
            let tag = tag_of(content).ok_or_else(|| {
                Violation::new("I2", format!("sector {sector} is torn at the origin"))
            })?;
            self.history.replaced(sector, tag, now);
        }
        self.write_back.out_of_order();
        Ok(())
    }

    /// The operator gives up what waits on a flash: guests go on from what the origin has.
    ///
    /// # Errors
    /// A violation if the guest could not have left that behind.
    pub(crate) fn give_up_what_waits(&mut self, run: &mut Run) -> Result<(), Violation> {
        let number = self.number;
        run.hit("what waited was given up");
        run.event(&[20, number as u64], || {
            format!("what waits of disk {number} is given up")
        });
        self.go_on_from_origin(run)?;
        // An attach that was cut short may have left an epoch on the flash, and no record.
        self.owner = Some(OwnerRecord {
            epoch: self.owner.map_or(0, |owner| owner.epoch) + 1,
            cache: 0,
            open: false,
        });
        Ok(())
    }

    // Past the cache.

    /// Somebody else writes it while it is detached, if that would be noticed.
    pub(crate) fn strangers_write(&mut self, run: &mut Run) {
        let may = self.may_be_written_by_strangers;
        if !run.settings().strangers || !may || run.one_in(2) {
            return;
        }
        for _ in 0..=run.below(20) {
            let sector = run.below(self.settings.sectors);
            let tag = run.next_tags(1);
            let now = run.next_moment();
            self.replace_sector(sector, tag, now);
        }
        run.hit("stranger writes");
    }

    /// Somebody writes a sector directly at the origin, durably.
    fn replace_sector(&mut self, sector: u64, tag: Tag, now: Moment) {
        let mut bytes = [0; SECTOR];
        fill_sector(&mut bytes, tag);
        self.origin
            .replace(Offset::new(sector * SECTOR_BYTES), &bytes);
        let number = usize::try_from(sector).expect("disks are small");
        self.history.replaced(number, tag, now);
    }

    /// What a guest reads must be what the origin has.
    ///
    /// # Errors
    /// I3 if it is not.
    pub(crate) fn compare_with_origin(
        &self,
        offset: Offset,
        bytes: &[u8],
    ) -> Result<(), Violation> {
        let mut origin = vec![0; bytes.len()];
        self.origin.peek(offset, &mut origin);
        let pairs = || bytes.chunks(SECTOR).zip(origin.chunks(SECTOR));
        let Some(at) = pairs().position(|(ours, theirs)| ours != theirs) else {
            return Ok(());
        };
        let sector = offset.get() / SECTOR_BYTES + at as u64;
        let (read, there) = pairs()
            .nth(at)
            .map(|(ours, theirs)| (tag_of(ours), tag_of(theirs)))
            .expect("one that differs");
        Err(Violation::new(
            "I3",
            format!(
                "sector {sector} (block {}) reads as {read:?}, the origin has {there:?}",
                sector / 8
            ),
        ))
    }
}
