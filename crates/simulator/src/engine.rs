//! One reading of a trace feeds many runs on many cores.
//!
//! ```text
//!   caller's thread                      workers, `threads` of them
//!   reader ─► split ─► pack ──Arc──►  [channel of PACKS_QUEUED] ─► its runs, one after the other
//!      ▲                        └──►  [channel of PACKS_QUEUED] ─► its runs, one after the other
//!      └──── packs that nobody looks at any more are filled again ◄──┘
//! ```
//!
//! Each run sees every pack in order and shares nothing with other runs, so that results do not depend on
//! the number of threads. With one thread, reader and runs take turns on the caller's.
//!
//! A trace is never kept: what grows with it is the splitter's table of distinct blocks and what the
//! policies need for a block.

use crate::account::Run;
use crate::error::SimError;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle, scope};
use trace::{Batch, Reader, Records, Splitter};

/// Packs that wait for a worker, beside the one it works on: enough to read ahead, and few enough that all of
/// them stay in the second-level cache.
const PACKS_QUEUED: usize = 2;
/// Blocks after which a pack goes out: a worker's wake-up, some microseconds, is then less than a nanosecond
/// a block.
const PACK_KEYS: usize = 1 << 15;
/// Requests after which it goes out, for traces of many requests with few blocks: with the keys, all packs take 2 MiB.
/// Batches without requests have none.
const PACK_REQUESTS: usize = 6 << 10;

/// Batches that travel together.
#[derive(Debug, Default)]
struct Pack {
    batches: Vec<Batch>,
    /// How many of `batches` are filled; the others keep their memory for later.
    filled: usize,
}

impl Pack {
    fn batches(&self) -> &[Batch] {
        &self.batches[..self.filled]
    }
}

/// Reads, splits and packs.
pub(crate) struct Source<'a> {
    reader: &'a mut dyn Reader,
    splitter: Splitter,
    records: Records,
    /// Whether batches may come without requests.
    is_lean: bool,
}

impl<'a> Source<'a> {
    pub(crate) fn new(reader: &'a mut dyn Reader, splitter: Splitter) -> Self {
        Self {
            reader,
            splitter,
            records: Records::new(),
            is_lean: false,
        }
    }

    /// From now on batches come without requests where [`Batch::stretches`] tell all but times and places.
    pub(crate) fn go_lean(&mut self) {
        self.is_lean = true;
    }

    pub(crate) fn splitter(&self) -> &Splitter {
        &self.splitter
    }

    pub(crate) fn reader(&self) -> &dyn Reader {
        &*self.reader
    }

    /// The next batch; false at the trace's end.
    pub(crate) fn next(&mut self, batch: &mut Batch) -> Result<bool, SimError> {
        if !self.reader.read_batch(&mut self.records)? {
            return Ok(false);
        }
        self.splitter.know(self.reader.volumes());
        if self.is_lean {
            self.splitter.split_lean(&self.records, batch)?;
        } else {
            self.splitter.split(&self.records, batch)?;
        }
        Ok(true)
    }

    fn fill(&mut self, pack: &mut Pack, each: &mut dyn FnMut(&Batch)) -> Result<bool, SimError> {
        pack.filled = 0;
        let (mut keys, mut requests) = (0, 0);
        while keys < PACK_KEYS && requests < PACK_REQUESTS {
            if pack.batches.len() == pack.filled {
                pack.batches.push(Batch::default());
            }
            let batch = &mut pack.batches[pack.filled];
            if !self.next(batch)? {
                break;
            }
            keys += batch.keys.len();
            requests += batch.requests.len();
            each(batch);
            pack.filled += 1;
        }
        Ok(pack.filled > 0)
    }
}

/// A run, or why it has ended before the trace did: what ends one run does not end the others.
pub(crate) struct Job(Result<Box<Run>, SimError>);

impl Job {
    /// The run, unless it could not be made.
    pub(crate) fn new(run: Result<Run, SimError>) -> Self {
        Self(run.map(Box::new))
    }

    /// The next requests of the trace.
    pub(crate) fn batch(&mut self, batch: &Batch) {
        let Ok(run) = &mut self.0 else {
            return;
        };
        // A run shares nothing: what its panic leaves half done is dropped with it.
        let done = catch_unwind(AssertUnwindSafe(|| run.batch(batch)));
        if let Err(panic) = done {
            self.0 = Err(SimError::Panicked(words(&*panic)));
        }
    }

    /// Whether it looks at each request, not just at stretches of them.
    pub(crate) fn needs_requests(&self) -> bool {
        self.0.as_ref().is_ok_and(|run| run.needs_requests())
    }

    /// The run at the trace's end.
    pub(crate) fn finish(self) -> Result<Run, SimError> {
        self.0.map(|run| *run)
    }
}

/// What a panic says.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a word").to_owned()
}

/// Passes the rest of `source` through `jobs`, on that many threads beside the reader; one means that
/// the reader does everything. `each` sees every batch once.
///
/// # Errors
/// If the trace cannot be read to its end.
pub(crate) fn drive(
    source: &mut Source<'_>,
    jobs: Vec<Job>,
    threads: usize,
    each: &mut dyn FnMut(&Batch),
) -> Result<Vec<Job>, SimError> {
    if threads <= 1 {
        return drive_here(source, jobs, each);
    }
    scope(|scope| {
        let workers = hire(scope, jobs, threads);
        let fed = feed(source, &workers, each);
        let done = dismiss(workers);
        fed.map(|()| done)
    })
}

fn drive_here(
    source: &mut Source<'_>,
    mut jobs: Vec<Job>,
    each: &mut dyn FnMut(&Batch),
) -> Result<Vec<Job>, SimError> {
    let mut batch = Batch::default();
    while source.next(&mut batch)? {
        each(&batch);
        for job in &mut jobs {
            job.batch(&batch);
        }
    }
    Ok(jobs)
}

/// A job with its place among all.
type Placed = (usize, Job);

struct Worker<'scope> {
    packs: SyncSender<Arc<Pack>>,
    handle: ScopedJoinHandle<'scope, Vec<Placed>>,
}

fn hire<'scope>(
    scope: &'scope Scope<'scope, '_>,
    jobs: Vec<Job>,
    threads: usize,
) -> Vec<Worker<'scope>> {
    let hands = threads.min(jobs.len()).max(1);
    let mut shares: Vec<Vec<Placed>> = (0..hands).map(|_| Vec::new()).collect();
    // Neighbours are sizes of one policy and cost about the same: dealt out, not cut in pieces.
    for (place, job) in jobs.into_iter().enumerate() {
        shares[place % hands].push((place, job));
    }
    let hire = |share| {
        let (packs, arriving) = sync_channel(PACKS_QUEUED);
        let handle = scope.spawn(move || work(share, &arriving));
        Worker { packs, handle }
    };
    shares.into_iter().map(hire).collect()
}

fn work(mut jobs: Vec<Placed>, packs: &Receiver<Arc<Pack>>) -> Vec<Placed> {
    for pack in packs {
        for (_, job) in &mut jobs {
            for batch in pack.batches() {
                job.batch(batch);
            }
        }
    }
    jobs
}

fn feed(
    source: &mut Source<'_>,
    workers: &[Worker<'_>],
    each: &mut dyn FnMut(&Batch),
) -> Result<(), SimError> {
    // As many as can wait, one being filled, one being worked on.
    let mut packs: Vec<Arc<Pack>> = (0..PACKS_QUEUED + 2).map(|_| Arc::default()).collect();
    let mut next = 0;
    loop {
        let places = packs.len();
        let slot = &mut packs[next % places];
        if Arc::get_mut(slot).is_none() {
            // The slowest worker still has it.
            *slot = Arc::default();
        }
        let pack = Arc::get_mut(slot).expect("nobody else has it");
        if !source.fill(pack, each)? {
            return Ok(());
        }
        for worker in workers {
            // A worker that is gone has panicked outside of its jobs, which `dismiss` passes on.
            let _ = worker.packs.send(Arc::clone(slot));
        }
        next += 1;
    }
}

fn dismiss(workers: Vec<Worker<'_>>) -> Vec<Job> {
    let mut all: Vec<Placed> = Vec::new();
    for worker in workers {
        drop(worker.packs);
        match worker.handle.join() {
            Ok(jobs) => all.extend(jobs),
            Err(panic) => resume_unwind(panic),
        }
    }
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, job)| job).collect()
}
