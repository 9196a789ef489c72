//! Which places of a pass were not visited yet: a bitmap with summaries above it.
//!
//! ```text
//!   level 2            1                 a bit: some bit of the word below is set
//!   level 1     1 0 1 ...  0 1
//!   level 0  64 places a word, a bit for each place that is untouched
//! ```
//!
//! The next untouched place at or behind any other is found in a few steps, however few are
//! left, so that the last places of a pass cost no more than the first.

/// Places `0..count`, each untouched or not.
#[derive(Clone, Debug)]
pub(crate) struct Untouched {
    levels: Vec<Vec<u64>>,
    count: u64,
    left: u64,
}

fn split(place: u64) -> (usize, u32) {
    let word = usize::try_from(place / 64).expect("the bitmap fits in memory");
    (word, u32::try_from(place % 64).unwrap_or(0))
}

impl Untouched {
    /// All of them untouched.
    pub(crate) fn new(count: u64) -> Self {
        let mut map = Self {
            levels: Vec::new(),
            count,
            left: 0,
        };
        map.reset();
        map
    }

    /// All of them untouched again.
    pub(crate) fn reset(&mut self) {
        self.levels.clear();
        let mut bits = self.count;
        loop {
            let (full, rest) = split(bits);
            let mut words = vec![u64::MAX; full];
            if rest > 0 {
                words.push((1 << rest) - 1);
            }
            bits = words.len() as u64;
            self.levels.push(words);
            if bits <= 1 {
                break;
            }
        }
        self.left = self.count;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left == 0
    }

    pub(crate) fn has(&self, place: u64) -> bool {
        let (word, bit) = split(place);
        place < self.count && self.levels[0][word] >> bit & 1 == 1
    }

    /// Touches a place.
    ///
    /// # Panics
    /// If it was touched before.
    pub(crate) fn touch(&mut self, place: u64) {
        assert!(self.has(place), "a place is visited once a pass");
        self.left -= 1;
        let mut place = place;
        for level in &mut self.levels {
            let (word, bit) = split(place);
            level[word] &= !(1 << bit);
            if level[word] != 0 {
                return;
            }
            place /= 64;
        }
    }

    /// The first untouched place at or behind `place`, from the start again if there is none.
    pub(crate) fn next(&self, place: u64) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        self.at_or_behind(place).or_else(|| self.at_or_behind(0))
    }

    fn at_or_behind(&self, place: u64) -> Option<u64> {
        let mut from = place;
        for height in 0..self.levels.len() {
            let (word, bit) = split(from);
            let bits = self.levels[height].get(word)? & (u64::MAX << bit);
            if bits != 0 {
                let mut found = from - u64::from(bit) + u64::from(bits.trailing_zeros());
                for level in self.levels[..height].iter().rev() {
                    let (word, _) = split(found * 64);
                    found = found * 64 + u64::from(level[word].trailing_zeros());
                }
                return Some(found);
            }
            from = from / 64 + 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_agrees_with_a_set(
            count in 1_u64..10_000,
            asked in proptest::collection::vec(0_u64..10_000, 1..300),
        ) {
            let mut map = Untouched::new(count);
            let mut set: BTreeSet<u64> = (0..count).collect();
            for place in asked.iter().map(|place| place % count) {
                let expected = set.range(place..).next().or(set.first()).copied();
                prop_assert_eq!(map.next(place), expected);
                if let Some(found) = expected {
                    map.touch(found);
                    set.remove(&found);
                    prop_assert!(!map.has(found));
                }
            }
        }
    }

    #[test]
    fn a_pass_ends_and_can_begin_again() {
        for count in [1, 63, 64, 65, 4096, 4097, 300_000] {
            let mut map = Untouched::new(count);
            for _ in 0..count {
                let place = map.next(count / 2).unwrap();
                map.touch(place);
            }
            assert!(map.is_empty());
            assert_eq!(map.next(0), None);
            map.reset();
            assert_eq!(map.next(count - 1), Some(count - 1));
        }
    }
}
