//! Reads, writes, lists, answers, refusals and lost links in any order: each block that is read is what the origin
//! had at some time while the read was under way, and each read ends. Without any one of the rules that fails.

use block_io::{BufPool, OriginOp, OriginVerb, PAGE_BYTES, Token};
use borrowing::{Ask, Borrower, Ended, Guard, LOAN_TIME_MAX, Manner, Run, remove};
use std::collections::BTreeMap;
use units::{BLOCK_BYTES, BlockIndex, Bytes, DiskSlot, Duration, Instant, Offset};

const BLOCKS: u64 = 16;
const DISK: DiskSlot = DiskSlot::new(0);

struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % n
    }

    fn run(&mut self) -> Run {
        let first = self.below(BLOCKS);
        let count = 1 + self.below(4.min(BLOCKS - first));
        Run {
            first: BlockIndex::new(first),
            count: u32::try_from(count).expect("few"),
        }
    }
}

/// The blocks of a run, as places in the tables below.
fn places(run: Run) -> std::ops::Range<usize> {
    let first = usize::try_from(run.first.get()).expect("a small disk");
    first..first + run.count as usize
}

/// A read that is under way: which blocks, and what the origin has had of each since it began.
struct Read {
    run: Run,
    may_be: Vec<Vec<u8>>,
}

struct World {
    dice: Dice,
    pool: BufPool,
    now: Instant,
    /// The version of each block at the origin, and at the lender.
    origin: Vec<u8>,
    lender: Vec<u8>,
    borrower: Borrower,
    reads: BTreeMap<u64, Read>,
    next: u64,
    /// Asks on their way, of this session or an older one.
    asks: Vec<Ask>,
    version: u8,
}

impl World {
    fn new(seed: u64) -> Self {
        let versions: Vec<u8> = (1..).take(BLOCKS.try_into().expect("few")).collect();
        let manner = [Manner::Keeps, Manner::Passes, Manner::Pulls];
        let mut borrower = Borrower::new(1, LOAN_TIME_MAX);
        borrower.set_manner(manner[usize::try_from(seed % 3).expect("few")]);
        Self {
            dice: Dice(seed),
            pool: BufPool::new(),
            now: Instant::ZERO,
            origin: versions.clone(),
            lender: versions,
            borrower,
            reads: BTreeMap::new(),
            next: 0,
            asks: Vec::new(),
            version: 100,
        }
    }

    fn step(&mut self) -> Result<(), String> {
        let mut ended = Ended::default();
        match self.dice.below(10) {
            0 => {
                let run = self.dice.run();
                self.borrower.list(run);
            }
            1..=3 => {
                let run = self.dice.run();
                if self.dice.below(2) > 0 {
                    self.borrower.pull(run);
                }
                self.read(run, &mut ended);
            }
            4 => self.write(&mut ended),
            5..=7 if !self.asks.is_empty() => {
                let place = self.dice.below(self.asks.len() as u64);
                let ask = self.asks.swap_remove(usize::try_from(place).expect("few"));
                self.answer(ask, &mut ended);
            }
            8 => {
                let is_linked = self.dice.below(3) > 0;
                self.borrower.set_linked(is_linked, &mut ended);
            }
            _ => {
                self.now = self.now + Duration::from_nanos(LOAN_TIME_MAX.as_nanos() / 3);
                self.borrower.tick(self.now, &mut ended);
            }
        }
        self.end(ended)
    }

    fn read(&mut self, run: Run, ended: &mut Ended) {
        let may_be = places(run).map(|block| vec![self.origin[block]]).collect();
        self.reads.insert(self.next, Read { run, may_be });
        let length = run.count as usize * PAGE_BYTES;
        let verb = OriginVerb::Read {
            offset: run.first.start(),
            length: Bytes::new(length as u64),
            buf: self.pool.take(length),
        };
        let op = OriginOp {
            token: Token(self.next),
            disk: DISK,
            verb,
        };
        self.next += 1;
        self.borrower.submit(op, self.now, ended);
    }

    /// Writes of every kind go to the origin, and are there at once.
    fn write(&mut self, ended: &mut Ended) {
        let run = self.dice.run();
        self.version += 1;
        let (offset, length) = (
            run.first.start(),
            Bytes::new(u64::from(run.count) * BLOCK_BYTES),
        );
        let verb = match self.dice.below(3) {
            0 => OriginVerb::Discard { offset, length },
            1 => OriginVerb::WriteZeroes {
                offset,
                length,
                may_unmap: true,
                fua: false,
            },
            _ => OriginVerb::Write {
                // A part of each end.
                offset: Offset::new(offset.get() + 512),
                data: self.pool.copy_of(&vec![0; length.to_usize() - 1024]),
                fua: false,
            },
        };
        let op = OriginOp {
            token: Token(u64::MAX),
            disk: DISK,
            verb,
        };
        self.borrower.submit(op, self.now, ended);
        for block in places(run) {
            self.origin[block] = self.version;
            for read in self.reads.values_mut() {
                let of_read = places(read.run);
                if of_read.contains(&block) {
                    read.may_be[block - of_read.start].push(self.version);
                }
            }
        }
    }

    fn answer(&mut self, ask: Ask, ended: &mut Ended) {
        let count = self.dice.below(u64::from(ask.run.count) + 1);
        if count == 0 {
            return self.borrower.refused(ask.number, ended);
        }
        let run = Run {
            count: u32::try_from(count).expect("few"),
            ..ask.run
        };
        let blocks = places(run).map(|block| vec![self.lender[block]; PAGE_BYTES]);
        let bytes: Vec<u8> = blocks.flatten().collect();
        self.borrower.got(ask.number, &bytes, self.now, ended);
    }

    fn end(&mut self, ended: Ended) -> Result<(), String> {
        self.asks.extend(ended.asks);
        for done in ended.done {
            let bytes = done.buf.expect("a read has a buffer");
            self.check(done.token, |place| bytes[place * PAGE_BYTES])?;
        }
        for op in ended.origin {
            if matches!(op.verb, OriginVerb::Read { .. }) {
                let first = self
                    .reads
                    .get(&op.token.0)
                    .map(|read| places(read.run).start);
                let origin = self.origin.clone();
                self.check(op.token, |place| origin[first.unwrap_or(0) + place])?;
            }
        }
        Ok(())
    }

    fn check(&mut self, token: Token, byte: impl Fn(usize) -> u8) -> Result<(), String> {
        let Some(read) = self.reads.remove(&token.0) else {
            return Err("a read has ended twice".into());
        };
        for (place, may_be) in read.may_be.iter().enumerate() {
            if !may_be.contains(&byte(place)) {
                return Err(format!(
                    "{:?}: {} is none of {may_be:?}",
                    read.run,
                    byte(place)
                ));
            }
        }
        Ok(())
    }

    /// Everything ends, with a lender that says nothing any more.
    fn finish(&mut self) -> Result<(), String> {
        let mut ended = Ended::default();
        self.now = self.now + LOAN_TIME_MAX;
        self.borrower.tick(self.now, &mut ended);
        self.end(ended)?;
        self.reads
            .is_empty()
            .then_some(())
            .ok_or_else(|| "a read has not ended".into())
    }
}

fn run(seed: u64) -> Result<(), String> {
    let mut world = World::new(seed);
    for _ in 0..150 {
        world.step()?;
    }
    world.finish()
}

#[test]
fn a_read_has_what_the_origin_had_while_it_was_under_way() {
    for seed in 0..2_000 {
        if let Err(wrong) = run(seed) {
            panic!("seed {seed}: {wrong}");
        }
    }
}

#[test]
fn each_rule_is_needed() {
    let rules = [
        Guard::ChangedIsNotBorrowed,
        Guard::LateGoesToOrigin,
        Guard::LoansAreNumbered,
    ];
    for guard in rules {
        remove(Some(guard));
        assert!(
            (0..2_000).any(|seed| run(seed).is_err()),
            "nothing notices that {guard:?} is out"
        );
        remove(None);
    }
}
