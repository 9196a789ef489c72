//! Write-back under a guest that does anything, power cuts in between: what is found afterwards is
//! what some prefix of its writes has left, with everything that was flushed; and without the flash,
//! what the origin has is what some flush has left, and any part of what came before the next.

#![allow(
    clippy::disallowed_methods,
    reason = "the length of the test is the caller's wish"
)]

use crate::rig::Rig;
use cache::{DestageOrder, OfDirty, WriteBack, WritePolicy};
use units::{BLOCK_BYTES, Bytes, Duration, Offset, Prng};

const BLOCKS: u64 = 48;

/// The disk after each write since it was last known for sure, and where flushes were answered.
struct History {
    /// What each block has: the number of the write that wrote it last, 0 for zeroes.
    states: Vec<Vec<u32>>,
    /// Of those: the oldest that a power cut may leave behind.
    flushed: usize,
    /// The states at which flushes were answered, the first for the beginning.
    flushes: Vec<usize>,
    written: u32,
}

impl History {
    fn new(state: Vec<u32>) -> Self {
        Self {
            states: vec![state],
            flushed: 0,
            flushes: vec![0],
            written: 0,
        }
    }

    fn now(&self) -> &Vec<u32> {
        self.states.last().expect("there is a first one")
    }

    fn change(&mut self, blocks: std::ops::Range<u64>, to: u32) {
        let mut next = self.now().clone();
        for block in blocks {
            next[usize::try_from(block).unwrap()] = to;
        }
        self.states.push(next);
    }

    fn flush(&mut self) {
        self.flushed = self.states.len() - 1;
        self.flushes.push(self.flushed);
    }

    /// Whether the origin alone may look like this.
    fn allows_at_origin(&self, found: &[u32]) -> bool {
        let ends = self.flushes.iter().copied();
        let nexts = ends.clone().skip(1).chain([self.states.len() - 1]);
        ends.zip(nexts).any(|(from, to)| {
            (0..found.len()).all(|block| {
                self.states[from..=to]
                    .iter()
                    .any(|state| state[block] == found[block])
            })
        })
    }
}

fn page(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(1024)
}

fn number(bytes: &[u8]) -> u32 {
    let number = u32::from_le_bytes(bytes[..4].try_into().unwrap());
    assert!(bytes == page(number), "a block is from one write");
    number
}

struct Run {
    rig: Rig,
    dice: Prng,
    history: History,
    settings: WriteBack,
    cuts: u32,
}

impl Run {
    fn new(seed: u64, order: DestageOrder) -> Self {
        let settings = WriteBack {
            order,
            dirty_max: Bytes::kib(256),
            age_max: Duration::from_millis(300),
            idle_after: Duration::from_millis(100),
            rate: None,
            stall_max: Duration::from_secs(1000),
        };
        let mut rig = Rig::new(settings);
        rig.watch = BLOCKS;
        Self {
            rig,
            dice: Prng::new(seed),
            history: History::new(vec![0; usize::try_from(BLOCKS).unwrap()]),
            settings,
            cuts: 0,
        }
    }

    fn origin(&self) -> Vec<u32> {
        (0..BLOCKS)
            .map(|block| number(&self.rig.durable_block(block)))
            .collect()
    }

    fn read_all(&mut self) -> Vec<u32> {
        self.rig.free();
        let found = self.rig.read_run(0, BLOCKS).expect("reads work");
        found.chunks(4096).map(number).collect()
    }

    fn step(&mut self) {
        let first = self.dice.below(BLOCKS);
        let blocks = (1 + self.dice.below(6)).min(BLOCKS - first);
        self.rig.hold_flash = self.dice.one_in(3);
        self.rig.hold_writes = self.dice.one_in(3);
        self.rig.hold_flush = self.dice.one_in(3);
        match self.dice.below(24) {
            0..=11 => self.write(first, blocks),
            12 => {
                self.history.change(first..first + blocks, 0);
                self.rig.discard(first, blocks);
            }
            13 => {
                let length = Bytes::new(blocks * BLOCK_BYTES);
                self.history.change(first..first + blocks, 0);
                self.rig
                    .write_zeroes(Offset::new(first * BLOCK_BYTES), length);
            }
            14..=16 => self.flush(),
            17..=19 => self.read(first),
            20 | 21 => self
                .rig
                .pass(Duration::from_millis(100 * self.dice.below(4))),
            22 => self.switch(),
            _ if self.dice.one_in(4) => self.power_cut(),
            _ => {}
        }
        if self.settings.order == DestageOrder::Ordered {
            let mut seen = std::mem::take(&mut self.rig.seen);
            seen.dedup();
            seen.push(self.origin());
            for found in seen {
                assert!(
                    self.history.allows_at_origin(&found),
                    "no flush has left {found:?}; flushes {:?} of {}, latest states {:?}",
                    self.history.flushes,
                    self.history.states.len(),
                    &self.history.states[self.history.states.len().saturating_sub(8)..]
                );
            }
        }
    }

    fn write(&mut self, first: u64, blocks: u64) {
        self.history.written += 1;
        let written = self.history.written;
        let bytes = page(written).repeat(usize::try_from(blocks).unwrap());
        self.history.change(first..first + blocks, written);
        let id = self
            .rig
            .begin_write_at(Offset::new(first * BLOCK_BYTES), &bytes);
        self.finish(id);
    }

    /// Waits for an answer; what is held goes on if it has to.
    fn finish(&mut self, id: u64) {
        for _ in 0..100 {
            if let Some(answer) = self.rig.answer(id) {
                assert_eq!(answer, Ok(()));
                return;
            }
            self.rig.free();
            self.rig.pass(Duration::from_millis(100));
        }
        panic!("a request is answered");
    }

    fn flush(&mut self) {
        let id = self.rig.begin_flush();
        self.finish(id);
        self.history.flush();
    }

    fn read(&mut self, block: u64) {
        let id = self.rig.begin_read(block);
        for _ in 0..100 {
            if let Some(bytes) = self.rig.bytes(id) {
                let found = number(&bytes.expect("reads work"));
                let expected = self.history.now()[usize::try_from(block).unwrap()];
                assert_eq!(found, expected, "block {block}");
                return;
            }
            self.rig.free();
            self.rig.pass(Duration::from_millis(100));
        }
        panic!("a read is answered");
    }

    /// Leaves write-back and comes back, or is detached and attached.
    fn switch(&mut self) {
        self.rig.free();
        let disk = self.rig.disk;
        match self.dice.below(4) {
            0 => {
                for policy in [WritePolicy::Through, WritePolicy::Back] {
                    let command = cache::Command::SetPolicy { disk, policy };
                    let id = self.rig.command(command);
                    self.rig.pass(Duration::from_millis(500));
                    assert!(matches!(self.rig.outcome(id), Some(Ok(_))));
                }
                self.history.flush();
            }
            1 => {
                self.rig.destage();
                let found = self.origin();
                assert_eq!(&found, self.history.now());
                self.history.flush();
            }
            which => {
                let of = if which == 2 {
                    OfDirty::Flush
                } else {
                    OfDirty::Keep
                };
                self.rig.detach(of).unwrap();
                self.history.flush();
                self.rig.attach(WritePolicy::Back, self.settings).unwrap();
            }
        }
    }

    fn power_cut(&mut self) {
        self.cuts += 1;
        self.rig.power_cut_with(self.settings);
        let found = self.read_all();
        let candidates = &self.history.states[self.history.flushed..];
        let begun = |before: &[Vec<u32>]| {
            // A write of several blocks may be cut behind any of them.
            let changed = (0..found.len()).filter(|at| before[0][*at] != before[1][*at]);
            let mut state = before[0].clone();
            changed.into_iter().any(|at| {
                state[at] = before[1][at];
                state == found
            })
        };
        let which = candidates.iter().rposition(|state| *state == found);
        let torn = || candidates.windows(2).rposition(begun);
        let which = which.or_else(torn).unwrap_or_else(|| {
            panic!(
                "no prefix has left {found:?}; flushed: {:?}; last: {:?}",
                self.history.states[self.history.flushed],
                self.history.now()
            )
        });
        // What was lost never was; what was read is what counts from now on.
        let last = self.history.flushed + which;
        self.history.states.truncate(last + 1);
        self.history.states.push(found);
    }
}

fn run(seed: u64, order: DestageOrder) -> u32 {
    let mut run = Run::new(seed, order);
    for step in 0..250 {
        run.step();
        if step % 25 == 0 {
            run.rig.cache_mut().self_check();
        }
    }
    assert_eq!(&run.read_all(), run.history.now());
    run.rig.destage();
    assert_eq!(&run.origin(), run.history.now());
    run.cuts
}

fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("HEARTH_SEEDS").ok();
    0..count.and_then(|count| count.parse().ok()).unwrap_or(60)
}

#[test]
fn in_order() {
    let cuts: u32 = seeds().map(|seed| run(seed, DestageOrder::Ordered)).sum();
    assert!(cuts > 60, "{cuts} power cuts");
}

#[test]
fn out_of_order() {
    let cuts: u32 = seeds().map(|seed| run(seed, DestageOrder::Unordered)).sum();
    assert!(cuts > 60, "{cuts} power cuts");
}

/// Each guard of write-back is missed by a guest like this.
#[cfg(feature = "mutants")]
#[allow(
    clippy::print_stdout,
    reason = "the seed that is found is where the next search begins"
)]
mod mutants {
    use super::{DestageOrder, run};
    use core_guards::Guard;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// The search begins where the guard was missed last, if that takes long.
    fn is_missed(guard: Guard, order: DestageOrder, from: u64) {
        let found = (from..from + 400).find(|seed| {
            core_guards::remove(Some(guard));
            let failed = catch_unwind(AssertUnwindSafe(|| run(*seed, order))).is_err();
            core_guards::remove(None);
            failed
        });
        let seed = found.unwrap_or_else(|| panic!("nothing goes wrong without {guard:?}"));
        run(seed, order);
        println!("{guard:?}: seed {seed}");
    }

    macro_rules! missed {
        ($($name:ident: $guard:ident, $order:ident from $from:literal;)+) => {
            $(
                #[test]
                fn $name() {
                    is_missed(Guard::$guard, DestageOrder::$order, $from);
                }
            )+
        };
    }

    missed! {
        append_before_answer: AppendBeforeAnswer, Ordered from 0;
        durable_before_destage: DurableBeforeDestage, Ordered from 0;
        flush_the_origin_before_settled: OriginFlushBeforeSettled, Ordered from 0;
        keep_the_order_of_intervals: IntervalOrder, Ordered from 0;
        end_the_interval_at_a_recovery: RecoveryEndsInterval, Ordered from 0;
        know_the_watermark_before_the_next: WatermarkBeforeNext, Ordered from 0;
        let_the_later_record_win: LaterRecordWins, Ordered from 0;
        distrust_the_older_copy: DistrustOlderCopy, Ordered from 0;
        read_erased_blocks_as_zeroes: ErasedReadsZeroes, Ordered from 0;
        let_no_fill_bring_what_is_dirty: NoFillOfDirty, Ordered from 0;
        wait_with_what_was_superseded: SupersededWaits, Unordered from 228;
    }
}
