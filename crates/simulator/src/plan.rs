//! Which runs go at once: as many as fit in the memory, in their order, one reading of the trace for each pass.
//!
//! ```text
//!   memory  ├── program ──┼─ shared ─┼─ run ─┼─ run ─┼─ run ─┤ limit        pass 1: three runs
//!           ├── program ──┼─ shared ─┼───── run ─────┤                      pass 2: the next would not fit
//! ```
//!
//! A pass has [`RUNS_A_THREAD`] runs for each thread at most, so that results go out while others are still to come: a
//! study that is stopped keeps what its passes found out.

use std::num::NonZeroUsize;
use units::Bytes;

/// Runs of a pass for each thread. The reading of a trace costs about as much as one or two runs, so that an eighth
/// of it is little beside them.
const RUNS_A_THREAD: usize = 8;

/// What a study may use beside its threads.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Memory of the whole program; none is no bound.
    pub memory: Option<Bytes>,
    /// What the program has without the study, readers of the trace included.
    pub program: Bytes,
    /// Whether the trace can be opened as often as there are passes; what comes through a pipe can be once.
    pub rereads: bool,
    /// Whether the trace is looked at before the runs, so that they can be planned.
    pub plans: bool,
}

impl Limits {
    /// All runs at once, whatever they take.
    pub const NONE: Self = Self {
        memory: None,
        program: Bytes::ZERO,
        rereads: false,
        plans: false,
    };
}

/// Which runs go at once, and what they are expected to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    passes: Vec<Vec<usize>>,
    refused: Vec<(usize, Bytes)>,
    peak: Option<Bytes>,
}

impl Plan {
    /// All of `runs` in one pass; nothing is known of what they take.
    pub(crate) fn blind(runs: usize) -> Self {
        Self {
            passes: vec![(0..runs).collect()],
            refused: Vec::new(),
            peak: None,
        }
    }

    /// Runs that take `runs` bytes each, beside `shared` bytes for all of them.
    pub(crate) fn new(
        runs: &[Bytes],
        shared: Bytes,
        limits: &Limits,
        threads: NonZeroUsize,
    ) -> Self {
        let fixed = limits.program.get() + shared.get();
        let limit = limits.memory.map_or(u64::MAX, Bytes::get);
        let most = if limits.rereads {
            threads.get() * RUNS_A_THREAD
        } else {
            usize::MAX
        };
        let mut plan = Self {
            passes: Vec::new(),
            refused: Vec::new(),
            peak: None,
        };
        let (mut pass, mut taken, mut peak) = (Vec::new(), fixed, fixed);
        for (run, needs) in runs.iter().enumerate() {
            let alone = fixed.saturating_add(needs.get());
            let together = taken.saturating_add(needs.get());
            let is_full = together > limit || pass.len() == most;
            // A trace that cannot be read again has one pass: what does not fit in it is refused.
            if alone > limit || (is_full && !limits.rereads) {
                let needs = if alone > limit { alone } else { together };
                plan.refused.push((run, Bytes::new(needs)));
                continue;
            }
            if is_full {
                plan.passes.push(std::mem::take(&mut pass));
                taken = fixed;
            }
            pass.push(run);
            taken = taken.saturating_add(needs.get());
            peak = peak.max(taken);
        }
        if !pass.is_empty() {
            plan.passes.push(pass);
        }
        plan.peak = Some(Bytes::new(peak));
        plan
    }

    /// The runs of each pass, by number.
    pub fn passes(&self) -> &[Vec<usize>] {
        &self.passes
    }

    /// Runs that do not fit, by number, each with what the program would take with it.
    pub fn refused(&self) -> &[(usize, Bytes)] {
        &self.refused
    }

    /// What the program is expected to take at most; `None` if the trace was not looked at before.
    pub fn peak(&self) -> Option<Bytes> {
        self.peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NonZeroUsize = NonZeroUsize::MIN;

    fn plan(runs: &[u64], limit: u64, rereads: bool) -> Plan {
        let limits = Limits {
            memory: Some(Bytes::new(limit)),
            program: Bytes::new(10),
            rereads,
            plans: true,
        };
        let runs: Vec<Bytes> = runs.iter().copied().map(Bytes::new).collect();
        Plan::new(&runs, Bytes::new(5), &limits, ONE)
    }

    #[test]
    fn a_pass_has_the_runs_that_fit_and_keeps_their_order() {
        let plan = plan(&[20, 20, 20, 50, 1], 75, true);
        assert_eq!(plan.passes(), [vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(plan.peak(), Some(Bytes::new(75)));
        assert!(plan.refused().is_empty());
    }

    #[test]
    fn a_run_that_does_not_fit_alone_is_refused_and_costs_no_other() {
        let plan = plan(&[20, 61, 20], 75, true);
        assert_eq!(plan.passes(), [vec![0, 2]]);
        assert_eq!(plan.refused(), [(1, Bytes::new(76))]);
    }

    #[test]
    fn what_can_be_read_once_has_one_pass() {
        let plan = plan(&[20, 20, 30, 20], 75, false);
        assert_eq!(plan.passes(), [vec![0, 1, 3]]);
        assert_eq!(plan.refused(), [(2, Bytes::new(85))]);
    }

    #[test]
    fn results_go_out_now_and_then_even_if_all_runs_would_fit() {
        let runs = vec![1; 2 * RUNS_A_THREAD + 1];
        let plan = plan(&runs, u64::MAX, true);
        let sizes: Vec<usize> = plan.passes().iter().map(Vec::len).collect();
        assert_eq!(sizes, [RUNS_A_THREAD, RUNS_A_THREAD, 1]);
    }
}
