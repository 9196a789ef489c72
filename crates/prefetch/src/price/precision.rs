//! How many of a kind of guesses come true: counts that forget.

use policy::replacement::Fraction;

use crate::miner::part;

/// Outcomes after which both counts are halved.
const OUTCOMES_MAX: u64 = 1024;

/// Used and wasted blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Precision {
    used: u64,
    wasted: u64,
}

impl Precision {
    pub(super) fn used(&mut self) {
        self.used += 1;
        self.forget();
    }

    pub(super) fn wasted(&mut self) {
        self.wasted += 1;
        self.forget();
    }

    fn forget(&mut self) {
        if self.used + self.wasted >= OUTCOMES_MAX {
            self.used /= 2;
            self.wasted /= 2;
        }
    }

    /// The part that is used: a half of what nobody has measured yet.
    pub(super) fn used_part(&self) -> Fraction {
        part(self.used + 1, self.used + self.wasted + 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut precision = Precision::default();
        assert_eq!(precision.used_part(), Fraction::millionths(500_000));
        (0..10_000).for_each(|_| precision.wasted());
        assert!(precision.used_part() < Fraction::millionths(10_000));
        (0..4_000).for_each(|_| precision.used());
        assert!(precision.used_part() > Fraction::millionths(900_000));
    }
}
