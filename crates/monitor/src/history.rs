//! The last samples of something.

use std::collections::VecDeque;

/// Samples that are kept: two hours at one each 10 s.
const SAMPLES_MAX: usize = 720;

/// The last samples, at most 720.
#[derive(Clone, Debug)]
pub struct History<T>(VecDeque<T>);

impl<T> Default for History<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> History<T> {
    /// One more; the oldest of too many goes.
    pub fn push(&mut self, sample: T) {
        if self.0.len() == SAMPLES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(sample);
    }

    /// The last so many, the oldest of them first.
    pub fn last(&self, count: usize) -> impl Iterator<Item = &T> {
        let from = self.0.len().saturating_sub(count);
        self.0.range(from..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first() {
        let mut history = History::default();
        for sample in 0..SAMPLES_MAX + 5 {
            history.push(sample);
        }
        let last: Vec<_> = history.last(2).copied().collect();
        assert_eq!(last, [SAMPLES_MAX + 3, SAMPLES_MAX + 4]);
        assert_eq!(history.last(usize::MAX).next(), Some(&5));
    }
}
