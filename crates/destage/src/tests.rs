//! A transfer as its driver sees it: a log in memory, an origin that answers what the test says.

use crate::{
    BatchId, BatchPage, BatchRead, Batched, Destage, Flushed, Need, Next, ReadTimes, Sequence,
    Settles, Unfit, WriteId,
};
use block_io::{BufPool, IoError, OriginVerb, PAGE_BYTES, Slice};
use dirty_log::{DirtyLog, Record, RecordNumber, What};
use flash_format::{Geometry, Position};
use units::{BlockIndex, Bytes, Duration, FlashSlot, Instant};

const DIRTY_MAX: Bytes = Bytes::mib(64);

/// A log of writes to these blocks, an interval each list.
fn log_of(intervals: &[&[u64]]) -> DirtyLog {
    let mut log = DirtyLog::new(Position::START);
    let mut page = 1;
    for blocks in intervals {
        for block in *blocks {
            let at = Position::of_page(1, page);
            let what = What::Data {
                block: BlockIndex::new(*block),
                slot: FlashSlot::new(page),
            };
            log.push(Record { at, what }, Instant::ZERO);
            page += 1;
        }
        log.end_interval();
    }
    log
}

/// A number with so many before it.
fn nth(before: u64) -> RecordNumber {
    RecordNumber::FIRST.advance(before)
}

fn destage() -> Destage {
    Destage::new(BatchId::new(0), Instant::ZERO)
}

fn page() -> Slice {
    BufPool::new().copy_of(&[7; PAGE_BYTES])
}

/// Begins a batch of all that the log has.
fn load(destage: &mut Destage, log: &DirtyLog, is_in_memory: bool) -> Option<Vec<BatchRead>> {
    let geometry = Geometry::of_slots(8 * 16, Bytes::kib(64)).unwrap();
    let in_memory = |_| is_in_memory.then(page);
    destage.load(log, log.end(), &Sequence::InOrder, &geometry, in_memory)
}

type Writes = Vec<(WriteId, OriginVerb)>;

/// Every write that may go now.
fn writes(destage: &mut Destage) -> Writes {
    let (flash, pool) = (ReadTimes::default(), BufPool::new());
    let next =
        |destage: &mut Destage| match destage.next_write(Need::All, None, &flash, Instant::ZERO) {
            Next::Write(write) => Some((write.id, write.content.verb(&pool))),
            Next::Wait | Next::WaitUntil(_) => None,
        };
    std::iter::from_fn(|| next(destage)).collect()
}

/// Writes the batch that was loaded, each piece with success.
fn write_all(destage: &mut Destage, log: &DirtyLog) -> (Writes, Option<Batched>) {
    destage.begin_writing(log.end()).unwrap();
    let written = writes(destage);
    for (id, _) in &written {
        destage.write_done(*id, Ok(()));
    }
    let batched = destage.end_batch(Some(log), log.end(), DIRTY_MAX);
    (written, batched)
}

#[test]
fn an_interval_that_is_one_write_needs_no_flush() {
    let (mut destage, log) = (destage(), log_of(&[&[4, 5]]));
    assert_eq!(load(&mut destage, &log, true), Some(Vec::new()));
    let (written, batched) = write_all(&mut destage, &log);
    let [(_, verb)] = &written[..] else {
        panic!("neighbours are one write: {written:?}")
    };
    assert!(matches!(verb, OriginVerb::Write { fua: true, .. }));
    assert_eq!(batched, Some(Batched::Settles(Settles::Before(nth(2)))));
    assert!(destage.is_idle());
}

#[test]
fn the_origin_is_flushed_between_two_intervals() {
    let (mut destage, log) = (destage(), log_of(&[&[4, 9], &[4]]));
    load(&mut destage, &log, true).unwrap();
    let (written, batched) = write_all(&mut destage, &log);
    assert_eq!(written.len(), 2);
    let Some(Batched::Flush(flush)) = batched else {
        panic!("the interval is over: {batched:?}")
    };
    // The next interval is read meanwhile, and not written.
    load(&mut destage, &log, true).unwrap();
    assert_eq!(destage.ready(), None);
    let settles = Flushed::Settles(Settles::Before(nth(2)));
    assert_eq!(destage.flush_done(flush, Ok(())), settles);
    assert!(destage.ready().is_some());
}

#[test]
fn what_the_origin_refused_comes_again_after_a_pause_that_grows() {
    let (mut destage, log) = (destage(), log_of(&[&[4, 9]]));
    let mut now = Instant::ZERO;
    for seconds in [1, 2, 4] {
        load(&mut destage, &log, true).unwrap();
        destage.begin_writing(log.end()).unwrap();
        let written = writes(&mut destage);
        assert_eq!(written.len(), 2, "both, each time");
        destage.write_done(written[0].0, Ok(()));
        assert_eq!(destage.end_batch(Some(&log), log.end(), DIRTY_MAX), None);
        destage.write_done(written[1].0, Err(IoError::Failed));
        let batched = destage.end_batch(Some(&log), log.end(), DIRTY_MAX);
        assert_eq!(batched, Some(Batched::Refused(IoError::Failed)));
        let until = destage.refuse(IoError::Failed, now);
        assert_eq!(until.since(now), Duration::from_secs(seconds));
        assert_eq!(destage.rests_until(now), Some(until));
        assert_eq!(destage.rests_until(until), None);
        now = until;
    }
    assert_eq!(destage.failing().unwrap().since, Instant::ZERO);
}

#[test]
fn a_record_that_is_not_what_was_written_goes_nowhere() {
    let (mut destage, log) = (destage(), log_of(&[&[4, 9]]));
    let reads = load(&mut destage, &log, false).unwrap();
    let [read] = reads[..] else {
        panic!("pages beside each other are read together: {reads:?}")
    };
    assert_eq!((read.slot, read.pages), (FlashSlot::new(1), 2));
    assert_eq!(destage.ready(), None);
    let whole = |page_of: BatchPage| (page_of.number != nth(1)).then(page);
    destage.read_done(read.id, Ok(()), whole);
    assert!(destage.ready().is_some());
    assert_eq!(destage.begin_writing(log.end()), Err(Unfit::Damaged));
}

#[test]
fn completions_of_what_was_given_up_mean_nothing() {
    let (mut destage, log) = (destage(), log_of(&[&[4, 9]]));
    let stale = load(&mut destage, &log, false).unwrap();
    destage.begin_anew();
    let reads = load(&mut destage, &log, false).unwrap();
    destage.read_done(stale[0].id, Ok(()), |_| Some(page()));
    assert_eq!(destage.ready(), None, "its own read has not ended");
    destage.read_done(reads[0].id, Ok(()), |_| Some(page()));
    destage.begin_writing(log.end()).unwrap();
    let given_up = writes(&mut destage);
    destage.begin_anew();
    for (id, _) in given_up {
        assert_eq!(destage.write_done(id, Ok(())), Bytes::ZERO);
    }
    assert!(destage.is_idle());
}
