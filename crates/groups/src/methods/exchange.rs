//! An order with its volume, and what a change of the order would make of the volume, without adding it up anew.
//!
//! Each wave begins at a fixed place of the order; the VMs before that place are its *prefix*. Kept are, for each wave,
//! its time, the traffic that its prefix cuts, and each VM's traffic toward the prefix:
//!
//! ```text
//!   volume = sum over waves of cut x time
//!   without the VMs O and with the VMs I a prefix cuts
//!     cut + sum over O of (2 toward - total) + sum over I of (total - 2 toward) + 2 rate(I, O) - 2 rate(O) - 2 rate(I)
//! ```
//! with `rate(O)` the traffic within O. All three changes exchange as many VMs of each prefix as come in: a swap and
//! a move one, a reversal at most half of its length. So a change costs some additions for each wave that it touches.
//!
//! Invariant: after each [`apply`](Exchange::apply) all that is kept equals what [`Exchange::new`] computes of the order,
//! but for rounding.

use crate::cost::Judged;
use crate::problem::Problem;
use std::ops::Range;

/// A change of an order; places are of the order before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Two places exchange their VMs; the first is the smaller one.
    Swap(usize, usize),
    /// The VM of the first place moves to the second; those between move up.
    Move(usize, usize),
    /// The order from the first place to the second, both included, is turned around; the first is the smaller one.
    Reverse(usize, usize),
}

impl Change {
    /// The first and the last place that it changes.
    const fn window(self) -> (usize, usize) {
        match self {
            Self::Swap(low, high) | Self::Reverse(low, high) => (low, high),
            Self::Move(from, to) if from < to => (from, to),
            Self::Move(from, to) => (to, from),
        }
    }

    /// Places whose VMs leave and enter the prefix that ends before `end`, a place within the window behind its first.
    const fn exchanged(self, end: usize) -> (Range<usize>, Range<usize>) {
        match self {
            Self::Swap(low, high) => (low..low + 1, high..high + 1),
            Self::Move(from, to) if from < to => (from..from + 1, end..end + 1),
            Self::Move(from, _) => (end - 1..end, from..from + 1),
            Self::Reverse(low, high) => {
                let (before, behind) = (end - low, high + 1 - end);
                let count = if before < behind { before } else { behind };
                (low..low + count, high + 1 - count..high + 1)
            }
        }
    }

    fn apply(self, order: &mut [usize]) {
        match self {
            Self::Swap(low, high) => order.swap(low, high),
            Self::Move(from, to) if from < to => order[from..=to].rotate_left(1),
            Self::Move(from, to) => order[to..=from].rotate_right(1),
            Self::Reverse(low, high) => order[low..=high].reverse(),
        }
    }
}

/// An order that is cut into waves of given sizes.
#[derive(Clone, Debug)]
pub(super) struct Exchange<'a> {
    problem: &'a Problem,
    totals: Vec<f64>,
    order: Vec<usize>,
    /// Where each wave begins, and the end.
    starts: Vec<usize>,
    /// The wave of each place.
    wave_at: Vec<usize>,
    times_s: Vec<f64>,
    cuts: Vec<f64>,
    excesses_ppm: Vec<u64>,
    /// Traffic of each VM toward the prefix of each wave, wave by wave.
    toward: Vec<f64>,
    volume: f64,
    excess_ppm: u64,
    /// What the last [`weigh`](Self::weigh) found: the changed waves' times and cuts, and their orders.
    next_times_s: Vec<f64>,
    next_cuts: Vec<f64>,
    next_excesses_ppm: Vec<u64>,
    next_order: Vec<usize>,
}

impl<'a> Exchange<'a> {
    /// The order in waves of these sizes, which add up to it.
    pub(super) fn new(problem: &'a Problem, order: Vec<usize>, sizes: &[usize]) -> Self {
        let vms = order.len();
        let mut starts = vec![0];
        let mut wave_at = Vec::with_capacity(vms);
        for (wave, size) in sizes.iter().enumerate() {
            starts.push(starts[wave] + size);
            wave_at.extend(std::iter::repeat_n(wave, *size));
        }
        assert_eq!(starts[sizes.len()], vms, "the sizes add up to the order");
        let mut exchange = Self {
            problem,
            totals: (0..vms).map(|vm| problem.traffic().of_vm(vm)).collect(),
            order,
            starts,
            wave_at,
            times_s: vec![0.0; sizes.len()],
            cuts: vec![0.0; sizes.len()],
            excesses_ppm: vec![0; sizes.len()],
            toward: vec![0.0; sizes.len() * vms],
            volume: 0.0,
            excess_ppm: 0,
            next_times_s: Vec::new(),
            next_cuts: Vec::new(),
            next_excesses_ppm: Vec::new(),
            next_order: Vec::new(),
        };
        exchange.advance_toward(0, sizes.len() - 1);
        for wave in 0..sizes.len() {
            let (from, to) = (exchange.starts[wave], exchange.starts[wave + 1]);
            exchange.times_s[wave] = problem.span_s(&exchange.order[from..to]);
            exchange.excesses_ppm[wave] = problem.excess_ppm(&exchange.order[from..to]);
            exchange.excess_ppm += exchange.excesses_ppm[wave];
            let prefix = exchange.order[..from].iter();
            exchange.cuts[wave] = prefix
                .map(|vm| exchange.totals[*vm] - exchange.toward[wave * vms + vm])
                .sum();
            exchange.volume += exchange.cuts[wave] * exchange.times_s[wave];
        }
        exchange
    }

    pub(super) fn order(&self) -> &[usize] {
        &self.order
    }

    /// The excess of its waves, and its volume.
    pub(super) const fn judged(&self) -> Judged {
        (self.excess_ppm, self.volume)
    }

    /// Whether both places are of one wave, so that exchanging them changes nothing.
    pub(super) fn is_within_a_wave(&self, one: usize, other: usize) -> bool {
        self.wave_at[one] == self.wave_at[other]
    }

    /// What the order would be judged by. [`apply`](Self::apply) of the same change may follow.
    pub(super) fn weigh(&mut self, change: Change) -> Judged {
        let (low, high) = change.window();
        let (first, last) = (self.wave_at[low], self.wave_at[high]);
        let from = self.starts[first];
        self.next_order.clear();
        self.next_order
            .extend_from_slice(&self.order[from..self.starts[last + 1]]);
        shifted(change, from).apply(&mut self.next_order);
        self.next_times_s.clear();
        self.next_cuts.clear();
        self.next_excesses_ppm.clear();
        let (mut excess_ppm, mut volume) = self.judged();
        for wave in first..=last {
            let (begin, end) = (self.starts[wave], self.starts[wave + 1]);
            let members = &self.next_order[begin - from..end - from];
            let time_s = self.problem.span_s(members);
            let excess = self.problem.excess_ppm(members);
            let cut = if wave == first {
                self.cuts[wave]
            } else {
                let (outs, ins) = change.exchanged(begin);
                self.cut_without(wave, outs, ins)
            };
            volume += cut * time_s - self.cuts[wave] * self.times_s[wave];
            excess_ppm = excess_ppm - self.excesses_ppm[wave] + excess;
            self.next_times_s.push(time_s);
            self.next_cuts.push(cut);
            self.next_excesses_ppm.push(excess);
        }
        (excess_ppm, volume)
    }

    /// What the prefix of a wave cuts without the VMs of some places and with those of others.
    fn cut_without(&self, wave: usize, outs: Range<usize>, ins: Range<usize>) -> f64 {
        let traffic = self.problem.traffic();
        let toward = &self.toward[wave * self.order.len()..];
        let (outs, ins) = (&self.order[outs], &self.order[ins]);
        let mut cut = self.cuts[wave];
        for (place, vm) in outs.iter().enumerate() {
            let row = traffic.row(*vm);
            cut += 2.0 * toward[*vm] - self.totals[*vm];
            cut -= 2.0 * outs[..place].iter().map(|other| row[*other]).sum::<f64>();
            cut += 2.0 * ins.iter().map(|other| row[*other]).sum::<f64>();
        }
        for (place, vm) in ins.iter().enumerate() {
            let row = traffic.row(*vm);
            cut += self.totals[*vm] - 2.0 * toward[*vm];
            cut -= 2.0 * ins[..place].iter().map(|other| row[*other]).sum::<f64>();
        }
        cut
    }

    /// Makes the change that was weighed last, as `judged`.
    pub(super) fn apply(&mut self, change: Change, judged: Judged) {
        let (low, high) = change.window();
        let (first, last) = (self.wave_at[low], self.wave_at[high]);
        change.apply(&mut self.order);
        self.times_s[first..=last].copy_from_slice(&self.next_times_s);
        self.cuts[first..=last].copy_from_slice(&self.next_cuts);
        self.excesses_ppm[first..=last].copy_from_slice(&self.next_excesses_ppm);
        (self.excess_ppm, self.volume) = judged;
        self.advance_toward(first, last);
    }

    /// Computes the traffic toward the prefixes behind `first`, up to that of `last`.
    fn advance_toward(&mut self, first: usize, last: usize) {
        let vms = self.order.len();
        for wave in first..last {
            let (known, next) = self.toward.split_at_mut((wave + 1) * vms);
            let next = &mut next[..vms];
            next.copy_from_slice(&known[wave * vms..]);
            for vm in &self.order[self.starts[wave]..self.starts[wave + 1]] {
                for (sum, rate) in next.iter_mut().zip(self.problem.traffic().row(*vm)) {
                    *sum += rate;
                }
            }
        }
    }
}

/// The same change of an order that begins at `from`.
const fn shifted(change: Change, from: usize) -> Change {
    match change {
        Change::Swap(low, high) => Change::Swap(low - from, high - from),
        Change::Move(of, to) => Change::Move(of - from, to - from),
        Change::Reverse(low, high) => Change::Reverse(low - from, high - from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost;
    use crate::dice::permutation;
    use crate::standin;
    use crate::{Sizes, Split};
    use proptest::prelude::*;
    use units::Prng;

    fn change(kind: u8, one: usize, other: usize) -> Change {
        let (low, high) = (one.min(other), one.max(other));
        match kind {
            0 => Change::Swap(low, high),
            1 => Change::Move(one, other),
            _ => Change::Reverse(low, high),
        }
    }

    proptest! {
        #[test]
        fn the_volume_after_many_changes_is_that_from_scratch(
            seed in 0_u64..1_000,
            size in 1_usize..6,
            split in prop::sample::select(vec![Split::Equal, Split::Dealt]),
            changes in prop::collection::vec((0_u8..3, 0_usize..13, 0_usize..13), 1..60),
        ) {
            let problem = standin::problem(13, seed, split);
            let sizes = Sizes::Each(size);
            let order = permutation(&mut Prng::new(seed), 13);
            let each = sizes.of_order(&problem, &order);
            let mut exchange = Exchange::new(&problem, order, &each);
            for (kind, one, other) in changes {
                if one == other {
                    continue;
                }
                let change = change(kind, one, other);
                let (_, before) = exchange.judged();
                let judged = exchange.weigh(change);
                exchange.apply(change, judged);
                let (excess, scratch) = cost::judged(&problem, &sizes.cut(&problem, exchange.order()));
                let (kept_excess, kept) = exchange.judged();
                prop_assert_eq!(kept_excess, excess);
                prop_assert!((kept - scratch).abs() <= 1e-9 * scratch.max(before), "{change:?}");
            }
        }
    }
}
