//! The simulated log gives the answers of the cache: the same stream of requests through both, each
//! request ended before the next comes, has the same hits, evictions, reclaims, and the same bytes
//! written to flash for each cause.

#![allow(clippy::unwrap_used, reason = "helpers of a test are part of it")]

mod support;

use cache::{Cache, Config, FlashWritten, Stats, Verb};
use flash_format::Geometry;
use policy::reclaim::Kind;
use segment_log::{Delays, SimulatedLog};
use support::Bench;
use units::{BLOCK_BYTES, BlockIndex, Bytes, DiskSlot, Duration, Instant, Prng};

const FLASH: Bytes = Bytes::mib(24);
const SEGMENT: Bytes = Bytes::kib(512);
const BLOCKS: u64 = 12_000;

#[derive(Clone, Copy)]
enum Ask {
    Read(u32),
    Write(u32),
    Discard(u32),
}

/// Half of the requests go to a tenth of the blocks; one in so many changes its block.
fn requests(count: usize, changes: u64, seed: u64) -> Vec<Ask> {
    let mut dice = Prng::new(seed);
    let mut one = || {
        let span = if dice.one_in(2) { BLOCKS / 10 } else { BLOCKS };
        let key = u32::try_from(dice.below(span)).unwrap();
        if changes == 0 || !dice.one_in(changes) {
            Ask::Read(key)
        } else if dice.one_in(8) {
            Ask::Discard(key)
        } else {
            Ask::Write(key)
        }
    };
    (0..count).map(|_| one()).collect()
}

/// What both have counted.
#[derive(Debug, PartialEq)]
struct Answer {
    hits: u64,
    cached: u64,
    segments_reclaimed: u64,
    blocks_kept: u64,
    blocks_evicted: u64,
    reclaim_read_bytes: u64,
    retrusted_blocks: u64,
    written: FlashWritten,
}

fn through_the_cache(asked: &[Ask], kind: Kind, pause: Duration) -> Answer {
    let config = Config {
        reclaim: kind,
        ..Config::default()
    };
    let (mut bench, mut cache) = Bench::open(FLASH, SEGMENT, config);
    let disk = bench.attach(&mut cache, 1, Bytes::new(BLOCKS * BLOCK_BYTES));
    assert_eq!(disk, DiskSlot::new(0));
    let before = cache.stats().clone();
    for ask in asked {
        bench.now = bench.now + pause;
        cache.tick(bench.now);
        bench.settle(&mut cache);
        match *ask {
            Ask::Read(key) => bench.read(&mut cache, disk, key.into()),
            Ask::Write(key) => {
                bench.write(&mut cache, disk, key.into());
                bench.ask(&mut cache, disk, Verb::Flush);
            }
            Ask::Discard(key) => {
                let verb = Verb::Discard {
                    offset: Bytes::new(u64::from(key) * BLOCK_BYTES),
                    length: Bytes::new(BLOCK_BYTES),
                };
                bench.ask(&mut cache, disk, verb);
                bench.ask(&mut cache, disk, Verb::Flush);
            }
        }
    }
    cache.self_check();
    counted(&cache, disk, &before)
}

fn counted(cache: &Cache, disk: DiskSlot, before: &Stats) -> Answer {
    let (stats, of_disk) = (cache.stats(), cache.stats_of(disk).unwrap());
    let (now, then) = (stats.flash_written, before.flash_written);
    Answer {
        hits: of_disk.read_block_hits,
        cached: of_disk.cached_blocks,
        segments_reclaimed: stats.segments_reclaimed,
        blocks_kept: stats.blocks_kept,
        blocks_evicted: stats.blocks_evicted,
        reclaim_read_bytes: stats.reclaim_read_bytes,
        retrusted_blocks: stats.retrusted_blocks,
        written: FlashWritten {
            journal: now.journal - then.journal,
            checkpoint: now.checkpoint - then.checkpoint,
            ..now
        },
    }
}

fn through_the_simulated_log(asked: &[Ask], kind: Kind, pause: Duration) -> Answer {
    let geometry = Geometry::new(FLASH, SEGMENT).unwrap();
    let mut log = SimulatedLog::on(geometry, kind, Delays::default());
    let disk = DiskSlot::new(0);
    let all: Vec<u32> = (0..u32::try_from(BLOCKS).unwrap()).collect();
    log.note_places(disk, BlockIndex::new(0), &all);
    let (mut hits, mut evicted) = (0, Vec::new());
    let mut now = Instant::ZERO;
    for ask in asked {
        now = now + pause;
        log.advance(now);
        match *ask {
            Ask::Read(key) => hits += u64::from(log.read(disk, key, &mut evicted)),
            Ask::Write(key) => {
                log.write(disk, key, false, &mut evicted);
            }
            Ask::Discard(key) => {
                log.invalidate(disk, key);
            }
        }
    }
    log.log().self_check();
    let chores = *log.chores();
    assert_eq!(evicted.len() as u64, chores.blocks_evicted);
    assert_eq!(chores.not_admitted, 0);
    Answer {
        hits,
        cached: log.log().cached_blocks(disk),
        segments_reclaimed: chores.segments_reclaimed,
        blocks_kept: chores.blocks_kept,
        blocks_evicted: chores.blocks_evicted,
        reclaim_read_bytes: chores.reclaim_read_bytes,
        retrusted_blocks: chores.retrusted_blocks,
        written: log.written(),
    }
}

/// Clock's answer, when that and every other was found to be the same from both.
fn compare(asked: &[Ask], pause: Duration) -> Answer {
    for kind in Kind::ALL {
        let answer = through_the_cache(asked, kind, pause);
        assert!(
            answer.segments_reclaimed > 50,
            "{kind} reclaims: {answer:?}"
        );
        assert_eq!(
            through_the_simulated_log(asked, kind, pause),
            answer,
            "{kind}"
        );
    }
    through_the_cache(asked, Kind::Clock, pause)
}

#[test]
fn reads_alone_have_the_same_answer() {
    let answer = compare(&requests(60_000, 0, 1), Duration::ZERO);
    assert!(answer.blocks_kept > 1000 && answer.written.checkpoint > 0);
}

#[test]
fn writes_and_erasures_have_the_same_answer() {
    // The cache has journalled a few pages before the first request, so its checkpoints come a little
    // sooner: the last request is not near one.
    let answer = compare(&requests(59_500, 3, 2), Duration::ZERO);
    assert!(answer.written.update > 0 && answer.retrusted_blocks > 1000);
}

#[test]
fn time_that_passes_gives_the_same_answer() {
    let answer = compare(&requests(30_000, 4, 3), Duration::from_millis(7));
    assert!(answer.retrusted_blocks > 1000);
}
