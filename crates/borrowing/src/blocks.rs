//! A set of blocks: sparse, half a kilobyte for each 4,096 blocks of which one is in it.

use crate::run::Run;
use std::collections::BTreeMap;
use units::BlockIndex;

const WORDS: usize = 64;
const PAGE_BLOCKS: u64 = WORDS as u64 * 64;

/// A set of blocks.
#[derive(Default)]
pub(crate) struct Blocks {
    pages: BTreeMap<u64, Box<[u64; WORDS]>>,
    count: u64,
}

/// The words of a run of blocks: page, word, and which bits of it.
fn words(first: BlockIndex, count: u64) -> impl Iterator<Item = (u64, usize, u64)> {
    let end = first.get() + count;
    let mut at = first.get();
    std::iter::from_fn(move || {
        let (start, stop) = (at, end.min((at / 64 + 1) * 64));
        if start >= stop {
            return None;
        }
        at = stop;
        let word = usize::try_from(start % PAGE_BLOCKS / 64).expect("a page has few words");
        let bits = u64::MAX >> (64 - (stop - start)) << (start % 64);
        Some((start / PAGE_BLOCKS, word, bits))
    })
}

impl Blocks {
    /// Puts a run of blocks in.
    pub(crate) fn insert(&mut self, first: BlockIndex, count: u64) {
        for (page, word, bits) in words(first, count) {
            let page = self
                .pages
                .entry(page)
                .or_insert_with(|| Box::new([0; WORDS]));
            self.count += u64::from((bits & !page[word]).count_ones());
            page[word] |= bits;
        }
    }

    /// Puts those of a run in that are not in `others`.
    pub(crate) fn insert_but(&mut self, first: BlockIndex, count: u64, others: &Self) {
        self.insert(first, count);
        for (page, word, bits) in words(first, count) {
            let Some(others) = others.pages.get(&page) else {
                continue;
            };
            let out = bits & others[word];
            let page = self.pages.get_mut(&page).expect("it was put in");
            page[word] &= !out;
            self.count -= u64::from(out.count_ones());
        }
    }

    /// Takes a run of blocks out.
    pub(crate) fn remove(&mut self, first: BlockIndex, count: u64) {
        for (number, word, bits) in words(first, count) {
            let Some(page) = self.pages.get_mut(&number) else {
                continue;
            };
            self.count -= u64::from((bits & page[word]).count_ones());
            page[word] &= !bits;
            if page.iter().all(|word| *word == 0) {
                self.pages.remove(&number);
            }
        }
    }

    /// Takes out the first `most` runs, of blocks that follow each other.
    pub(crate) fn take_runs(&mut self, most: usize) -> Vec<Run> {
        let mut runs = Vec::new();
        while runs.len() < most
            && let Some(first) = self.first()
        {
            let mut count = 1;
            while count < u32::MAX && self.contains(first.advance(u64::from(count))) {
                count += 1;
            }
            self.remove(first, u64::from(count));
            runs.push(Run { first, count });
        }
        runs
    }

    fn first(&self) -> Option<BlockIndex> {
        let (page, words) = self.pages.first_key_value()?;
        let mut words = words.iter().zip(0_u64..);
        let (word, at) = words.find(|(word, _)| **word != 0)?;
        let bit = u64::from(word.trailing_zeros());
        Some(BlockIndex::new(page * PAGE_BLOCKS + at * 64 + bit))
    }

    /// Whether a block is in it.
    pub(crate) fn contains(&self, block: BlockIndex) -> bool {
        self.contains_all(block, 1)
    }

    /// Whether each block of a run is in it.
    pub(crate) fn contains_all(&self, first: BlockIndex, count: u64) -> bool {
        words(first, count).all(|(page, word, bits)| {
            let page = self.pages.get(&page);
            page.is_some_and(|page| page[word] & bits == bits)
        })
    }

    /// How many blocks are in it.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn runs_that_come_and_go_are_in_it_as_in_an_ordinary_set() {
        let (mut blocks, mut model) = (Blocks::default(), BTreeSet::new());
        let mut dice = 7_u64;
        for _ in 0..2_000 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let first = (dice >> 20) % 10_000;
            let count = (dice >> 40) % 300;
            let run = first..first + count;
            if dice >> 62 == 0 {
                blocks.insert(BlockIndex::new(first), count);
                model.extend(run.clone());
            } else if dice >> 62 == 1 {
                let mut others = Blocks::default();
                others.insert(BlockIndex::new(first + 50), 100);
                blocks.insert_but(BlockIndex::new(first), count, &others);
                let not = first + 50..first + 150;
                model.retain(|block| !(run.contains(block) && not.contains(block)));
                model.extend(run.clone().filter(|block| !not.contains(block)));
            } else {
                blocks.remove(BlockIndex::new(first), count);
                model.retain(|block| !run.contains(block));
            }
            assert_eq!(blocks.count(), model.len() as u64);
            let all = run.clone().all(|block| model.contains(&block));
            assert_eq!(blocks.contains_all(BlockIndex::new(first), count), all);
        }
        for block in 0..10_300 {
            assert_eq!(
                blocks.contains(BlockIndex::new(block)),
                model.contains(&block)
            );
        }
        let mut taken = BTreeSet::new();
        while let [Run { first, count }] = blocks.take_runs(1)[..] {
            let next = first.get() + u64::from(count);
            assert!(!model.contains(&next), "the run goes on");
            taken.extend(first.get()..next);
        }
        assert_eq!(taken, model);
        assert!(blocks.pages.is_empty());
    }
}
