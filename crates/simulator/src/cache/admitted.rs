//! A replacement policy in place behind an admission policy: what is not worth a write stays out of flash.
//!
//! ```text
//!   access ─┬─ on flash ──► hit                                    HIT
//!           ├─ in RAM ────► staged_hit ─► stays | flash            HIT RAM (STORED)
//!           └─ neither ───► missed ─────► flash | RAM | nothing    (STORED)
//!                              └─ what left RAM for it goes to flash or nowhere: a chore
//! ```
//!
//! The bytes of staged blocks are in RAM beside the flash that the size counts. A read of one is a hit,
//! counted apart: it needs neither flash nor origin.

use super::in_place::{Blocks, Dirty};
use super::{AdmissionUse, CacheModel, Maker, places};
use crate::outcome::{Chore, HIT, Outcomes, RAM, STORED, Timed};
use crate::write_policy::{WriteMiss, WritePolicy};
use policy::admission::sequential::Runs;
use policy::admission::{Access, Admission, Fate, Refusals, Staged, Verdict, region_of};
use trace::{Batch, Op, Request};
use units::{Bytes, DiskSlot, Instant, TenantSlot};

/// Such a cache. All its volumes are one tenant.
pub(crate) struct Admitted {
    blocks: Blocks,
    admission: Box<dyn Admission<u32>>,
    write_policy: WritePolicy,
    write_miss: WriteMiss,
    staged: Dirty,
    dirty: Dirty,
    refusals: Refusals,
    /// The sequential runs of each volume.
    runs: Vec<Runs>,
    evicted: Vec<u32>,
    left: Vec<(u32, Fate)>,
}

impl Admitted {
    pub(crate) fn new(blocks: Blocks, admission: Box<dyn Admission<u32>>, maker: &Maker) -> Self {
        Self {
            blocks,
            admission,
            write_policy: maker.write_policy,
            write_miss: maker.write_miss,
            staged: Dirty::default(),
            dirty: Dirty::default(),
            refusals: Refusals::default(),
            runs: Vec::new(),
            evicted: Vec::new(),
            left: Vec::new(),
        }
    }

    fn run_of(&mut self, request: &Request) -> Bytes {
        let record = &request.record;
        let at = record.volume.to_usize();
        if at >= self.runs.len() {
            self.runs.resize_with(at + 1, Runs::new);
        }
        self.runs[at].note(record.offset, record.length)
    }

    fn one(&mut self, op: Op, key: u32, access: Access, chores: &mut Chores<'_>) -> u8 {
        match op {
            Op::Read => self.access(key, access, chores),
            Op::Write => match (self.write_policy, self.write_miss) {
                (WritePolicy::Around, _) => self.drop_block(key),
                (_, WriteMiss::Bypass) if !self.blocks.contains(key) => {
                    self.blocks.pass();
                    self.drop_block(key)
                }
                _ => self.access(key, access, chores),
            },
            Op::Flush => 0,
            Op::Discard | Op::WriteZeroes => {
                self.drop_block(key);
                self.dirty.clear(key);
                0
            }
        }
    }

    /// The block's copies are stale: they leave.
    fn drop_block(&mut self, key: u32) -> u8 {
        let was_staged = self.staged.clear(key);
        assert_eq!(self.admission.remove(key), was_staged);
        match (self.blocks.remove(key), was_staged) {
            (true, _) => HIT,
            (false, true) => HIT | RAM,
            (false, false) => 0,
        }
    }

    fn access(&mut self, key: u32, access: Access, chores: &mut Chores<'_>) -> u8 {
        if self.blocks.contains(key) {
            self.put(key, access.write, chores);
            self.admission.hit(key, access);
            return HIT | (STORED * u8::from(access.write));
        }
        let flags = if self.staged.has(key) {
            self.staged_hit(key, access, chores)
        } else {
            self.missed(key, access, chores)
        };
        if flags & STORED == 0 {
            self.blocks.pass();
        }
        self.settle(chores);
        flags
    }

    fn staged_hit(&mut self, key: u32, access: Access, chores: &mut Chores<'_>) -> u8 {
        let answer = self.admission.staged_hit(key, access, &mut self.left);
        if answer != Staged::Stays {
            self.staged.clear(key);
        }
        if answer == Staged::Admit {
            self.put(key, access.write, chores);
            return HIT | RAM | STORED;
        }
        HIT | RAM
    }

    fn missed(&mut self, key: u32, access: Access, chores: &mut Chores<'_>) -> u8 {
        match self.admission.missed(key, access, &mut self.left) {
            Verdict::Admit => {
                self.put(key, access.write, chores);
                STORED
            }
            Verdict::Stage => {
                self.staged.set(key);
                0
            }
            Verdict::Refuse(reason) => {
                self.refusals.add(reason);
                0
            }
        }
    }

    /// What left RAM for the last access goes where it is to go.
    fn settle(&mut self, chores: &mut Chores<'_>) {
        let mut left = std::mem::take(&mut self.left);
        for (key, fate) in left.drain(..) {
            assert!(self.staged.clear(key), "what leaves RAM was there");
            if fate == Fate::Admit {
                self.put(key, false, chores);
                chores.push(Chore::Admit, 1);
            }
        }
        self.left = left;
    }

    /// The block is on flash now, the newest.
    fn put(&mut self, key: u32, writes: bool, chores: &mut Chores<'_>) {
        self.evicted.clear();
        self.blocks.access(key, &mut self.evicted);
        let mut destaged = 0;
        for key in self.evicted.drain(..) {
            self.admission.evicted(key);
            destaged += u32::from(self.dirty.clear(key));
        }
        if destaged > 0 {
            chores.push(Chore::Destage, destaged);
        }
        if writes && self.write_policy == WritePolicy::Back {
            self.dirty.set(key);
        }
    }
}

/// Where chores of an access go.
struct Chores<'a> {
    at_key: u32,
    list: &'a mut Vec<Timed>,
}

impl Chores<'_> {
    fn push(&mut self, chore: Chore, blocks: u32) {
        self.list.push(Timed {
            at_key: self.at_key,
            chore,
            blocks,
        });
    }
}

impl CacheModel for Admitted {
    fn run(&mut self, batch: &Batch, requests: &[Request], outcomes: &mut Outcomes) {
        let Some(first_key) = requests.first().map(|first| first.keys.start) else {
            return;
        };
        for request in requests {
            let record = &request.record;
            let disk = batch.role(record.volume).blocks.to_usize() % DiskSlot::COUNT;
            let disk = DiskSlot::new(u16::try_from(disk).expect("a slot is 16 bits"));
            let access = Access {
                tenant: TenantSlot::new(0),
                write: record.op == Op::Write,
                region: region_of(disk, record.offset),
                run: self.run_of(request),
                now: Instant::from_nanos(record.time_us.saturating_mul(1000)),
            };
            for place in places(request, first_key) {
                let at_key = first_key + u32::try_from(place).expect("batches are small");
                let mut chores = Chores {
                    at_key,
                    list: &mut outcomes.chores,
                };
                let key = batch.keys[at_key as usize];
                outcomes.blocks[place] = self.one(record.op, key, access, &mut chores);
            }
        }
    }

    fn used_blocks(&self) -> u32 {
        self.blocks.len()
    }

    fn dirty_blocks(&self) -> u32 {
        self.dirty.count()
    }

    fn admission(&self) -> AdmissionUse {
        AdmissionUse {
            refusals: self.refusals,
            memory: self.admission.memory(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::admission::{Reason, Share};
    use policy::replacement::{Capacity, Dense, Setup, Spec};

    /// Stages what is new, two blocks at most; a second access brings a block to flash. A block that
    /// falls out of staging goes to flash if its key is even.
    #[derive(Default)]
    struct Toy {
        staged: Vec<u32>,
        evicted: std::sync::Arc<std::sync::Mutex<Vec<u32>>>,
    }

    impl Admission<u32> for Toy {
        fn missed(&mut self, key: u32, access: Access, left: &mut Vec<(u32, Fate)>) -> Verdict {
            if access.run > Bytes::kib(64) {
                return Verdict::Refuse(Reason::Sequential);
            }
            if self.staged.len() == 2 {
                let oldest = self.staged.remove(0);
                let fate = if oldest.is_multiple_of(2) {
                    Fate::Admit
                } else {
                    Fate::Drop
                };
                left.push((oldest, fate));
            }
            self.staged.push(key);
            Verdict::Stage
        }

        fn staged_hit(&mut self, key: u32, _: Access, _: &mut Vec<(u32, Fate)>) -> Staged {
            self.staged.retain(|staged| *staged != key);
            Staged::Admit
        }

        fn hit(&mut self, _: u32, _: Access) {}

        fn evicted(&mut self, key: u32) {
            self.evicted.lock().unwrap().push(key);
        }

        fn withheld(&mut self, _: u32) {}

        fn remove(&mut self, key: u32) -> bool {
            let before = self.staged.len();
            self.staged.retain(|staged| *staged != key);
            self.staged.len() < before
        }

        fn resize(&mut self, _: Share, _: &mut Vec<(u32, Fate)>) {}

        fn memory(&self) -> Bytes {
            Bytes::kib(8)
        }
    }

    fn lru(blocks: u32) -> Blocks {
        let spec: Spec = "lru".parse().unwrap();
        let capacity = Capacity::new(blocks.into()).unwrap();
        spec.build(Setup::new(capacity, Dense::new()))
    }

    fn cache(admission: Box<dyn Admission<u32>>, write_policy: WritePolicy) -> Admitted {
        let maker = Maker {
            blocks: 2,
            block: Bytes::kib(4),
            write_policy,
            write_miss: WriteMiss::Allocate,
            future: None,
        };
        Admitted::new(lru(2), admission, &maker)
    }

    fn ask(cache: &mut Admitted, op: Op, key: u32, run: Bytes) -> (u8, Vec<(Chore, u32)>) {
        let access = Access {
            tenant: TenantSlot::new(0),
            write: op == Op::Write,
            region: 0,
            run,
            now: Instant::ZERO,
        };
        let mut list = Vec::new();
        let mut chores = Chores {
            at_key: 0,
            list: &mut list,
        };
        let flags = cache.one(op, key, access, &mut chores);
        let chores = list.iter().map(|timed| (timed.chore, timed.blocks));
        (flags, chores.collect())
    }

    #[test]
    fn a_block_is_staged_then_hit_in_ram_then_hit_on_flash() {
        let mut cache = cache(Box::<Toy>::default(), WritePolicy::Through);
        let mut read = |key| ask(&mut cache, Op::Read, key, Bytes::kib(4));
        assert_eq!(read(1), (0, vec![]));
        assert_eq!(read(1), (HIT | RAM | STORED, vec![]));
        assert_eq!(read(1), (HIT, vec![]));
        assert_eq!(cache.used_blocks(), 1);
        assert_eq!(cache.admission().memory, Bytes::kib(8));
    }

    #[test]
    fn what_falls_out_of_ram_goes_where_the_policy_says() {
        let toy = Toy::default();
        let evicted = std::sync::Arc::clone(&toy.evicted);
        let mut cache = cache(Box::new(toy), WritePolicy::Through);
        let mut read = |key| ask(&mut cache, Op::Read, key, Bytes::kib(4));
        for key in [1, 2] {
            read(key);
        }
        assert_eq!(read(4), (0, vec![]), "1 is dropped");
        assert_eq!(read(6), (0, vec![(Chore::Admit, 1)]), "2 goes to flash");
        assert_eq!(read(2), (HIT, vec![]));
        read(8);
        read(10);
        assert_eq!(*evicted.lock().unwrap(), [2], "6 was the third on flash");
    }

    #[test]
    fn what_is_refused_is_counted_by_reason() {
        let mut cache = cache(Box::<Toy>::default(), WritePolicy::Through);
        for key in 0..3 {
            let (flags, _) = ask(&mut cache, Op::Read, key, Bytes::mib(1));
            assert_eq!(flags, 0);
        }
        assert_eq!(cache.admission().refusals.of(Reason::Sequential), 3);
        assert_eq!(cache.used_blocks(), 0);
    }

    #[test]
    fn writes_and_discards_leave_no_stale_block_in_ram() {
        let mut cache = cache(Box::<Toy>::default(), WritePolicy::Around);
        let mut one = |op| ask(&mut cache, op, 1, Bytes::kib(4)).0;
        assert_eq!(one(Op::Read), 0);
        assert_eq!(one(Op::Write), HIT | RAM, "the staged copy is dropped");
        assert_eq!(one(Op::Write), 0);
        assert_eq!(one(Op::Read), 0);
        assert_eq!(one(Op::Discard), 0);
        assert_eq!(one(Op::Read), 0);
        assert_eq!(one(Op::Read), HIT | RAM | STORED);
        assert_eq!(one(Op::Write), HIT, "dropped from flash");
    }

    #[test]
    fn a_dirty_block_that_leaves_is_destaged() {
        let mut cache = cache(Box::<Toy>::default(), WritePolicy::Back);
        let mut write = |key| ask(&mut cache, Op::Write, key, Bytes::kib(4));
        for key in [1, 3] {
            write(key);
            write(key);
        }
        write(5);
        assert_eq!(write(5), (HIT | RAM | STORED, vec![(Chore::Destage, 1)]));
        assert_eq!(cache.dirty_blocks(), 2);
    }

    #[test]
    fn always_is_as_if_nothing_were_in_front() {
        let spec: policy::admission::Spec = "always".parse().unwrap();
        let share = Share::new(2, Bytes::ZERO);
        let mut cache = cache(spec.build(share), WritePolicy::Through);
        let mut plain = lru(2);
        let mut dice = units::Prng::new(1);
        for _ in 0..2000 {
            let key = u32::try_from(dice.below(4)).unwrap();
            let hit = plain.access(key, &mut Vec::new());
            let (flags, _) = ask(&mut cache, Op::Read, key, Bytes::kib(4));
            assert_eq!(flags, if hit { HIT } else { STORED });
        }
    }
}
