//! The blocks of one request: each is read or written as it would be alone, but those of which nothing comes
//! but that they wait in memory come in together.

use super::{SimulatedStore, block_of};
use block_store::simulated;
use segment_log::Source;
use units::DiskSlot;

impl SimulatedStore {
    /// A read of the blocks of one request: [`SimulatedStore::read`] of each. `each` gets each key's position,
    /// whether it was cached, and whether it came in.
    pub fn read_run(
        &mut self,
        disk: DiskSlot,
        keys: &[u32],
        evicted: &mut impl FnMut(DiskSlot, u32),
        mut each: impl FnMut(usize, bool, bool),
    ) {
        let mut at = 0;
        while let Some(key) = keys.get(at) {
            if self.touch(disk, *key) {
                each(at, true, false);
                at += 1;
                continue;
            }
            let quiet = self.insert_quietly(disk, &keys[at..], Source::Fill);
            if quiet == 0 {
                let stored = self.insert(disk, *key, Source::Fill, evicted);
                each(at, false, stored);
                at += 1;
            }
            (at..at + quiet).for_each(|at| each(at, false, true));
            at += quiet;
        }
    }

    /// The blocks of one request are written whole. All old copies leave, and one commit distrusts
    /// them; then the new ones of those that were cached are cached, and after them the others if
    /// `allocates`. `each` gets each key's position, whether it was cached, and whether it is now.
    pub fn write_run(
        &mut self,
        disk: DiskSlot,
        keys: &[u32],
        allocates: bool,
        evicted: &mut impl FnMut(DiskSlot, u32),
        mut each: impl FnMut(usize, bool, bool),
    ) {
        let mut were_cached = std::mem::take(&mut self.were_cached);
        were_cached.clear();
        were_cached.extend(keys.iter().map(|key| self.withdraw(disk, *key)));
        self.commit_withdrawn();
        for (wanted, source) in [(true, Source::Update), (false, Source::Fill)] {
            let mut at = 0;
            for those in were_cached.chunk_by(|one, other| one == other) {
                let run = at..at + those.len();
                at = run.end;
                if those[0] != wanted {
                    continue;
                }
                if !(wanted || allocates) {
                    run.for_each(|at| each(at, wanted, false));
                    continue;
                }
                let start = run.start;
                let each = |at, stored| each(start + at, wanted, stored);
                self.insert_run(disk, &keys[run], source, evicted, each);
            }
        }
        self.were_cached = were_cached;
    }

    /// Blocks of one request come in, in their order, unless they are cached. `each` gets each one's position and
    /// whether it came in.
    #[inline]
    fn insert_run(
        &mut self,
        disk: DiskSlot,
        keys: &[u32],
        source: Source,
        evicted: &mut impl FnMut(DiskSlot, u32),
        mut each: impl FnMut(usize, bool),
    ) {
        let mut at = 0;
        while at < keys.len() {
            let quiet = self.insert_quietly(disk, &keys[at..], source);
            (at..at + quiet).for_each(|at| each(at, true));
            at += quiet;
            if let Some(key) = keys.get(at) {
                // A request that names a block twice has one copy of it.
                let stored = !self.contains(disk, *key) && self.insert(disk, *key, source, evicted);
                each(at, stored);
                at += 1;
            }
        }
    }

    /// The first of these blocks come in, up to the first that is cached: as many as only wait in memory, so that
    /// nobody has to leave. Returns how many; [`SimulatedStore::insert`] takes the one behind them.
    #[inline]
    fn insert_quietly(&mut self, disk: DiskSlot, keys: &[u32], source: Source) -> usize {
        // What is dirty is not in the index.
        if self.back.is_some() {
            return 0;
        }
        let (store, ports) = (&mut self.store, &mut self.ports);
        let blocks = keys.iter().copied().map(block_of);
        simulated::admit_quietly(store, ports, disk, source, blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::reclaim::Kind;
    use units::{BlockIndex, Bytes};

    const DISK: DiskSlot = DiskSlot::new(0);

    #[test]
    fn a_dirty_block_behind_one_that_is_fetched_is_a_hit() {
        let store = SimulatedStore::new(4096, Bytes::kib(256), Kind::Clock).unwrap();
        let mut store = store.under_write_back();
        store.note_places(DISK, BlockIndex::new(0), &[0, 1, 2]);
        let mut back = store.back().unwrap();
        back.asked(DISK);
        back.log_block(DISK, 2).unwrap();
        // The chunk of fetched blocks is open from now on.
        assert!(!store.read(DISK, 0, &mut |_, _| {}));
        let mut seen = Vec::new();
        let each = |at, hit, stored| seen.push((at, hit, stored));
        store.read_run(DISK, &[1, 2], &mut |_, _| {}, each);
        assert_eq!(seen, [(0, false, true), (1, true, false)]);
    }
}
