//! Recording the traces that are served: begun, shown and ended while the daemon runs.
//!
//! There is one recording at a time. It taps the disks that it names, or all of them with those that are
//! attached later; a disk's shard then tells the recorder's thread each request.

use super::recorder::{AskVmNames, Asker, End, Plan, Progress, Recorder, SharedVolume};
use super::registry::Entry;
use super::shards::Shard;
use api::problem::ProblemKind;
use api::types::{Problem, RecordRequest, Recording, RecordingState, RequestsTraced};
use configuration::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use trace::Volume;
use units::Bytes;

/// The least size of a recording: the last lines and the end need some of it.
const SIZE_MIN: Bytes = Bytes::kib(64);
/// How long a shard may take to say who its VMs are, before a row has no VM.
const NAMES_TIME_MAX: Duration = Duration::from_secs(2);

/// The recordings of a daemon: the current or last one, and what those before it counted.
#[derive(Default)]
pub(super) struct Recordings {
    current: Mutex<Option<Current>>,
    before: Mutex<RequestsTraced>,
}

struct Current {
    request: RecordRequest,
    /// The disks that it names; `None` for all.
    disks: Option<BTreeSet<Name>>,
    recorder: Recorder,
}

impl Recordings {
    fn lock(&self) -> MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests that were recorded and lost since the daemon's start.
    pub(super) fn requests(&self) -> RequestsTraced {
        let before = *self.before.lock().unwrap_or_else(PoisonError::into_inner);
        match &*self.lock() {
            Some(current) => before.and(counted(&current.recorder.progress)),
            None => before,
        }
    }

    /// The current recording, or the last one.
    pub(super) fn show(&self) -> Option<Recording> {
        self.lock().as_ref().map(show)
    }

    /// The current recording, or the last one.
    ///
    /// # Errors
    /// If nothing was recorded since the daemon's start.
    pub(super) fn last(&self) -> Result<Recording, Problem> {
        self.show().ok_or_else(|| {
            Problem::new(
                ProblemKind::NotRecording,
                "nothing was recorded since the daemon's start",
            )
            .with_remedy("hearth trace record --output FILE")
        })
    }

    /// Begins a recording that taps nothing yet.
    ///
    /// # Errors
    /// If another one is under way, or its file cannot be written.
    pub(super) fn begin(&self, plan: &Plan, request: RecordRequest) -> Result<(), Problem> {
        let mut current = self.lock();
        if let Some(current) = &*current
            && current.recorder.progress.end().is_none()
        {
            return Err(Problem::new(
                ProblemKind::AlreadyRecording,
                format!("{} is being recorded", current.request.output),
            )
            .with_remedy("hearth trace record --stop"));
        }
        let recorder = Recorder::start(plan).map_err(|error| unwritable(plan, &error))?;
        let disks = (!request.disks.is_empty()).then(|| request.disks.iter().cloned().collect());
        let last = current.replace(Current {
            request,
            disks,
            recorder,
        });
        if let Some(last) = last {
            let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
            *before = before.and(counted(&last.recorder.progress));
        }
        Ok(())
    }

    /// Ends the recording; returns when its file is whole.
    ///
    /// # Errors
    /// If none is under way.
    pub(super) async fn stop(self: Arc<Self>) -> Result<Recording, Problem> {
        let stopping = tokio::task::spawn_blocking(move || {
            // Not under the lock: others may look meanwhile.
            let thread = self.stop_recorder().ok_or_else(|| {
                Problem::new(ProblemKind::NotRecording, "nothing is being recorded")
                    .with_remedy("hearth trace record --status shows the last recording")
            })?;
            // A panic there was logged; the file has what it has.
            let _ = thread.join();
            self.last()
        });
        match stopping.await {
            Ok(done) => done,
            Err(error) => Err(Problem::new(ProblemKind::Failed, error.to_string())),
        }
    }

    /// Tells the recording that is under way to end.
    fn stop_recorder(&self) -> Option<JoinHandle<()>> {
        let mut current = self.lock();
        let recorder = &mut current.as_mut()?.recorder;
        if recorder.progress.end().is_some() {
            return None;
        }
        recorder.stop()
    }

    /// Taps a disk of a shard if it is to be recorded.
    pub(super) async fn tap(&self, entry: &Entry, shard: &Shard) {
        let Some(tap) = self.tap_of(entry, shard) else {
            return;
        };
        let id = entry.id;
        let tapped = shard.ask(|handle, reply| handle.tap(id, Some(tap), reply));
        if let Err(error) = tapped.await {
            // It is not attached: it is tapped when it is.
            tracing::debug!(disk = %entry.config.name, %error, "not tapped");
        }
    }

    /// A tap for a disk if it is to be recorded.
    fn tap_of(&self, entry: &Entry, shard: &Shard) -> Option<shard::Tap> {
        let current = self.lock();
        let current = current.as_ref()?;
        let name = &entry.config.name;
        if current
            .disks
            .as_ref()
            .is_some_and(|disks| !disks.contains(name))
        {
            return None;
        }
        let asker = if entry.config.shared {
            Asker::Many(SharedVolume {
                name: format!("{}{name}", Volume::BASE_IMAGE),
                readers: BTreeMap::new(),
                ask: vm_names(shard.handle().clone()),
            })
        } else {
            Asker::One(Volume {
                vm: entry.vm().to_string(),
                name: name.to_string(),
            })
        };
        let (handle, id) = (shard.handle().clone(), entry.id);
        let close = Box::new(move |done: mpsc::Sender<()>| {
            // A disk that was detached has lost its tap already.
            handle.tap(id, None, Box::new(move |_| drop(done)));
        });
        current.recorder.tap(asker, id, close)
    }
}

/// Asks a shard who its VMs are, and waits for the answer.
fn vm_names(shard: shard::ShardHandle) -> AskVmNames {
    Box::new(move || {
        let (sender, answer) = mpsc::channel();
        shard.status(Box::new(move |status| {
            // The recorder may have given up.
            let _ = sender.send(status);
        }));
        let Ok(Ok(status)) = answer.recv_timeout(NAMES_TIME_MAX) else {
            return Vec::new();
        };
        let tenants = status.tenants.into_iter();
        tenants.map(|tenant| (tenant.slot, tenant.name)).collect()
    })
}

fn counted(progress: &Progress) -> RequestsTraced {
    let lost = progress.lost.load(Ordering::Relaxed);
    RequestsTraced {
        recorded: progress.seen.load(Ordering::Relaxed),
        lost,
    }
}

fn show(current: &Current) -> Recording {
    let (request, progress) = (&current.request, &current.recorder.progress);
    let (state, reason) = match progress.end() {
        None => (RecordingState::Recording, None),
        Some(End::Failed(reason)) => (RecordingState::Failed, Some(reason)),
        Some(end) => {
            let reason = match end {
                End::Size => "the file has reached its size",
                End::Duration => "its time is over",
                End::Stopped | End::Failed(_) => "it was stopped",
            };
            (RecordingState::Ended, Some(reason.to_owned()))
        }
    };
    let counted = counted(progress);
    Recording {
        output: request.output.clone(),
        state,
        reason,
        disks: request.disks.clone(),
        sample_one_in: request.sample_one_in,
        size_bytes_max: request.size_bytes_max,
        duration_seconds_max: request.duration_seconds_max,
        duration_seconds: progress.time().to_std().as_secs_f64(),
        requests: counted.recorded,
        rows: progress.recorded.load(Ordering::Relaxed),
        lost_requests: counted.lost,
        written_bytes: progress.written_bytes.load(Ordering::Relaxed),
    }
}

/// What is asked for, checked.
pub(super) fn plan(request: &RecordRequest) -> Result<Plan, Problem> {
    let wrong = |what: &str| Err(Problem::new(ProblemKind::Invalid, what));
    let output = std::path::PathBuf::from(&request.output);
    if !output.is_absolute() {
        return wrong(
            "output: the daemon has a working directory of its own, so give an absolute path",
        );
    }
    if request.sample_one_in == 0 {
        return wrong("sample_one_in: 1 keeps every block, 100 one in a hundred");
    }
    if request.size_bytes_max < SIZE_MIN.get() {
        return wrong("size_bytes_max: at least 64 KiB");
    }
    let nanos = |seconds: f64| {
        let time = Duration::try_from_secs_f64(seconds).ok();
        let nanos = time.and_then(|time| u64::try_from(time.as_nanos()).ok());
        nanos.filter(|nanos| *nanos > 0)
    };
    let duration_max = match request.duration_seconds_max.map(nanos) {
        Some(None) => return wrong("duration_seconds_max: a time above zero and below 584 years"),
        Some(Some(nanos)) => Some(units::Duration::from_nanos(nanos)),
        None => None,
    };
    Ok(Plan {
        output,
        sample_one_in: request.sample_one_in,
        size_max: Bytes::new(request.size_bytes_max),
        duration_max,
    })
}

fn unwritable(plan: &Plan, error: &io::Error) -> Problem {
    let path = plan.output.display();
    if error.kind() == io::ErrorKind::AlreadyExists {
        return Problem::new(ProblemKind::OutputExists, format!("{path} exists already"))
            .with_remedy("choose another name, or remove the file");
    }
    Problem::new(ProblemKind::Failed, format!("cannot write {path}: {error}")).with_remedy(
        "the daemon writes it as its own user, under systemd only where the unit lets it: \
         /var/lib/hearth, or ReadWritePaths= in a drop-in",
    )
}
