//! A load from its settings to its outcome.

use crate::job::{Job, Orders, Shared};
use crate::limits::PROGRESS_PAUSE;
use crate::outcome::{JobError, JobOutcome, Outcome};
use crate::target::{self, Geometry, Needs, Prepared};
use crate::{LoadError, Settings};
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use units::Duration;
use workload::{Ledger, Plan, Shape};

/// How far a load has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Requests answered, warm-up and verification included.
    pub requests: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Bytes that will be moved, if that is known.
    pub bytes_total: Option<u64>,
}

/// Carries a load out. Blocks until all jobs have ended; `watch` is called a few times a second, and
/// may break the load off: then nothing more is begun, and what was done is the outcome.
///
/// # Errors
/// If it could not be begun. What failed later is in the outcome.
///
/// # Panics
/// If a job does: a bug.
pub fn run(
    settings: &Settings,
    watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Outcome, LoadError> {
    settings.check()?;
    let needs = Needs {
        jobs: settings.numjobs,
        depth: settings.iodepth,
        request_bytes: usize::try_from(settings.sizes.largest()).expect("sizes are bounded"),
        writes: settings.shape.writes() || settings.shape.trims(),
        keeps_data: settings.verify.is_some(),
    };
    let (geometry, prepared) = target::open(&settings.target, &needs)?;
    let mut jobs = Vec::new();
    for (job, prepared) in prepared.into_iter().enumerate() {
        jobs.push((prepared, orders(settings, job, &geometry)?));
    }
    let bytes = jobs.iter().map(|(_, orders)| orders.plan.bytes);
    let bytes_total = bytes.sum::<Option<u64>>();
    let shared = Arc::new(Shared::default());
    let start = Arc::new(Barrier::new(jobs.len()));
    let (sender, finished) = channel();
    let mut threads = Vec::new();
    for (number, (prepared, orders)) in jobs.into_iter().enumerate() {
        let (shared, start, end) = (Arc::clone(&shared), Arc::clone(&start), End(sender.clone()));
        let thread = thread::Builder::new().name(format!("bench-{number}"));
        let work = move || {
            let _end = end;
            work(prepared, orders, &needs, &shared, &start)
        };
        // If one cannot be had, those that wait for it at the barrier must not wait for ever:
        // the process ends with this error.
        let spawned = thread.spawn(work);
        threads.push(spawned.map_err(|source| LoadError::Machine {
            what: "thread for a job",
            source,
        })?);
    }
    drop(sender);
    loop {
        match finished.recv_timeout(PROGRESS_PAUSE.to_std()) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let now = Progress {
                    requests: shared.requests.load(Ordering::Relaxed),
                    bytes: shared.bytes.load(Ordering::Relaxed),
                    bytes_total,
                };
                if watch(now).is_break() {
                    shared.stop.store(true, Ordering::Relaxed);
                }
            }
        }
    }
    let join =
        |thread: thread::JoinHandle<JobOutcome>| thread.join().expect("a job does not panic");
    Ok(Outcome {
        jobs: threads.into_iter().map(join).collect(),
    })
}

/// Tells that its job has ended, however it did.
struct End(Sender<()>);

impl Drop for End {
    fn drop(&mut self) {
        // Nobody listens any more if the load has failed to begin.
        let _ = self.0.send(());
    }
}

fn orders(settings: &Settings, job: usize, geometry: &Geometry) -> Result<Orders, LoadError> {
    let plan = settings.plan(job, geometry)?;
    let ledger = match settings.verify {
        Some(verify) => Some(ledger(settings, &plan, verify.interval)?),
        None => None,
    };
    Ok(Orders {
        plan,
        depth: settings.iodepth,
        runtime: settings.runtime,
        ramp: settings.ramp_time,
        rates: settings.rates,
        ledger,
        read_back: settings.verify.is_some_and(|verify| verify.read_back),
    })
}

fn ledger(settings: &Settings, plan: &Plan, interval: Option<u64>) -> Result<Ledger, LoadError> {
    let interval = interval.unwrap_or(plan.sizes.smallest());
    // Where nothing is written, an earlier run must have left what is checked.
    let must_hold = matches!(settings.shape, Shape::Read | Shape::RandRead);
    // Jobs have dice of their own but check what any of them wrote.
    let seed = settings.randseed;
    Ledger::new(plan.region, interval, seed, must_hold).ok_or_else(|| {
        let most = units::Bytes::new(workload::limits::VERIFIED_BLOCKS_MAX * interval);
        let what = format!("a job can verify at most {most} in blocks of {interval} bytes");
        LoadError::unfit(what, "a smaller --size, or a larger --verify_interval")
    })
}

/// A job on its thread.
fn work(
    prepared: Prepared,
    orders: Orders,
    needs: &Needs,
    shared: &Shared,
    start: &Barrier,
) -> JobOutcome {
    let target = prepared.start(needs);
    start.wait();
    match target {
        Ok(target) => Job::new(orders, target, shared).run(),
        Err(source) => {
            shared.stop.store(true, Ordering::Relaxed);
            gone(source)
        }
    }
}

fn gone(source: io::Error) -> JobOutcome {
    JobOutcome {
        error: Some(JobError::Gone { source }),
        ..JobOutcome::default()
    }
}

const _: () = assert!(PROGRESS_PAUSE.as_nanos() >= Duration::from_millis(1).as_nanos());
