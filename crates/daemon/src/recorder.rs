//! The thread that writes down what disks are asked.
//!
//! ```text
//!  shard ─► Tap ─┐ bounded queue       every 50 ms                    every second
//!  shard ─► Tap ─┴────────────────► hold back, sort ─► sample ─► csv ─► zstd frame ─► file
//!                     lost: counted
//! ```
//!
//! Recording never holds up a request: a queue that is full loses events, which are counted, told in the
//! status and metrics and written at the end of the file. Events of several shards come in turns; they are
//! held back for as long as one shard's turn may take and written in order of time. Memory: the queue and
//! what is held back, 16 MiB at most. The file can be read while it grows, and after a kill up to the
//! last second.

use super::sampling::Sampling;
use events::EventKind;
use shard::{Tap, TapEvent, TapVerb};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use trace::write::CsvWriter;
use trace::{Op, Volume};
use units::errors::chain;
use units::{Bytes, DiskId, Instant, TenantSlot};

/// Events that wait for the thread: at 500,000 requests a second it may be late by 130 ms. 40 bytes each.
const QUEUE_EVENTS: usize = 1 << 16;
/// How often the queue is emptied while something is recorded; nothing is woken when nothing is.
const ROUND: Duration = Duration::from_millis(50);
/// How long events are held back to be sorted: longer than a shard's turn.
const HOLD_BACK: units::Duration = units::Duration::from_millis(50);
/// Events that are held back at most; beyond it the oldest are written although others may be older.
const HELD_BACK_MAX: usize = 4 * QUEUE_EVENTS;
/// How often what was recorded is handed to the file.
const FLUSH_PAUSE: units::Duration = units::Duration::from_secs(1);
/// How long the shards may take to close their taps.
const TAPS_CLOSE_TIME_MAX: Duration = Duration::from_secs(2);
/// What the end of the file needs beyond the records.
const TRAILER_BYTES: u64 = 1024;
/// The longest line: two names of 63 bytes, three numbers.
const LINE_BYTES_MAX: u64 = 256;

/// What is to be recorded.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) output: PathBuf,
    pub(super) sample_one_in: u32,
    pub(super) size_max: Bytes,
    pub(super) duration_max: Option<units::Duration>,
}

/// Why a recording has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Somebody stopped it.
    Stopped,
    /// The file is as large as it may be.
    Size,
    /// The time is over.
    Duration,
    /// The file cannot be written.
    Failed(String),
}

impl End {
    /// A word for it.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Size => "size",
            Self::Duration => "duration",
            Self::Failed(_) => "failed",
        }
    }
}

/// How a recording does, for whoever asks. Counters only grow.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Requests that came from the shards.
    pub(super) seen: AtomicU64,
    /// Rows that were written: requests, or their parts that are in the sample.
    pub(super) recorded: AtomicU64,
    /// Requests that were lost.
    pub(super) lost: Arc<AtomicU64>,
    /// Bytes of the file.
    pub(super) written_bytes: AtomicU64,
    /// When it began and, once it has, when it ended.
    times: Mutex<(Instant, Option<Instant>)>,
    end: Mutex<Option<End>>,
}

impl Progress {
    /// How it ended, if it has.
    pub(super) fn end(&self) -> Option<End> {
        lock(&self.end).clone()
    }

    /// How long it has taken.
    pub(super) fn time(&self) -> units::Duration {
        let (start, end) = *lock(&self.times);
        end.unwrap_or_else(now) - start
    }
}

/// Takes a tap away and then drops what it is given.
pub(super) type CloseTap = Box<dyn Fn(Sender<()>) + Send>;

/// Who asks: the names of a shard's VMs by slot.
pub(super) type VmNames = Vec<(TenantSlot, String)>;
/// Asks a shard for them. May wait for as long as a turn of its loop takes.
pub(super) type AskVmNames = Box<dyn Fn() -> VmNames + Send>;

/// Whose requests a tap tells.
pub(super) enum Asker {
    /// Those of the one VM whose disk it is.
    One(Volume),
    /// Those of the VMs that share it.
    Many(SharedVolume),
}

/// A base image and the VMs that were seen to read it.
pub(super) struct SharedVolume {
    /// The volume's name in the trace.
    pub(super) name: String,
    /// A slot keeps its name for as long as it can, so a name is asked for once.
    pub(super) readers: BTreeMap<TenantSlot, Volume>,
    pub(super) ask: AskVmNames,
}

impl Asker {
    /// The volume that stands in an event's row.
    fn volume(&mut self, vm: TenantSlot) -> &Volume {
        match self {
            Self::One(volume) => volume,
            Self::Many(shared) => {
                if !shared.readers.contains_key(&vm) {
                    for (slot, vm) in (shared.ask)() {
                        let name = shared.name.clone();
                        shared.readers.insert(slot, Volume { vm, name });
                    }
                }
                let name = &shared.name;
                // A shard that has ended meanwhile names nobody.
                shared.readers.entry(vm).or_insert_with(|| Volume {
                    vm: String::new(),
                    name: name.clone(),
                })
            }
        }
    }
}

/// A disk that is recorded.
struct Source {
    asker: Asker,
    id: DiskId,
    close: CloseTap,
}

/// The disks by the number in their events.
#[derive(Default)]
struct Sources {
    list: Vec<Source>,
    /// No more are taken.
    is_closed: bool,
}

/// A recording that has begun.
pub(super) struct Recorder {
    pub(super) progress: Arc<Progress>,
    sources: Arc<Mutex<Sources>>,
    events: SyncSender<TapEvent>,
    /// Dropped to stop the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Makes the file and starts the thread.
    ///
    /// # Errors
    /// If there is such a file already, or it cannot be made.
    pub(super) fn start(plan: &Plan) -> io::Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&plan.output)?;
        let start = now();
        let facts = [
            format!("recorded by hearth {}", env!("CARGO_PKG_VERSION")),
            format!("sample=1/{}", plan.sample_one_in),
        ];
        let is_plain = plan
            .output
            .extension()
            .is_some_and(|ending| ending == "csv");
        let writer = CsvWriter::new(file, !is_plain, &facts)?;
        let progress = Arc::new(Progress {
            times: Mutex::new((start, None)),
            ..Progress::default()
        });
        let sources: Arc<Mutex<Sources>> = Arc::default();
        let (events, queue) = mpsc::sync_channel(QUEUE_EVENTS);
        let (stop, stops) = mpsc::channel();
        let work = Work {
            plan: plan.clone(),
            sampling: Sampling::new(plan.sample_one_in),
            writer,
            queue,
            held: Vec::new(),
            progress: Arc::clone(&progress),
            sources: Arc::clone(&sources),
            start,
            flushed: start,
            is_full: false,
        };
        let thread = std::thread::Builder::new()
            .name("trace-recorder".to_owned())
            .spawn(move || work.run(&stops))?;
        Ok(Self {
            progress,
            sources,
            events,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// A tap for a disk, to be given to its shard. `None` if the recording has ended.
    pub(super) fn tap(&self, asker: Asker, id: DiskId, close: CloseTap) -> Option<Tap> {
        let mut sources = lock(&self.sources);
        if sources.is_closed {
            return None;
        }
        let disk = u32::try_from(sources.list.len()).ok()?;
        sources.list.push(Source { asker, id, close });
        Some(Tap {
            disk,
            events: self.events.clone(),
            lost: Arc::clone(&self.progress.lost),
        })
    }

    /// Ends the recording; the file is whole when the thread has ended. `None` if somebody else waits
    /// for it.
    pub(super) fn stop(&mut self) -> Option<JoinHandle<()>> {
        drop(self.stop.take());
        self.thread.take()
    }
}

/// What the thread owns.
struct Work {
    plan: Plan,
    sampling: Sampling,
    writer: CsvWriter<File>,
    queue: Receiver<TapEvent>,
    held: Vec<TapEvent>,
    progress: Arc<Progress>,
    sources: Arc<Mutex<Sources>>,
    start: Instant,
    flushed: Instant,
    is_full: bool,
}

impl Work {
    fn run(mut self, stops: &Receiver<()>) {
        let end = loop {
            let stopped = !matches!(stops.recv_timeout(ROUND), Err(RecvTimeoutError::Timeout));
            if stopped {
                break End::Stopped;
            }
            match self.round() {
                Ok(None) => {}
                Ok(Some(end)) => break end,
                Err(error) => break End::Failed(chain(&error)),
            }
        };
        self.finish(end);
    }

    /// Takes what came, writes what is old enough, and looks whether it is time to end.
    fn round(&mut self) -> io::Result<Option<End>> {
        let now = now();
        self.take();
        let before = Instant::from_nanos(now.as_nanos().saturating_sub(HOLD_BACK.as_nanos()));
        self.write(before)?;
        if now - self.flushed >= FLUSH_PAUSE {
            self.flush()?;
            self.flushed = now;
        }
        if self.is_full {
            return Ok(Some(End::Size));
        }
        let over = self
            .plan
            .duration_max
            .is_some_and(|most| now - self.start >= most);
        Ok(over.then_some(End::Duration))
    }

    /// Empties the queue.
    fn take(&mut self) {
        // No more than there was room for: shards must not be able to keep this round from ending.
        let came = self.queue.try_iter().take(QUEUE_EVENTS);
        let known = self.held.len();
        self.held.extend(came);
        let seen = (self.held.len() - known) as u64;
        self.progress.seen.fetch_add(seen, Ordering::Relaxed);
        // Stable: events of one shard at the same time stay in their order.
        self.held.sort_by_key(|event| event.time);
    }

    /// Writes the events before a time, and the oldest beyond [`HELD_BACK_MAX`].
    fn write(&mut self, before: Instant) -> io::Result<()> {
        let old = self.held.partition_point(|event| event.time < before);
        let count = old.max(self.held.len().saturating_sub(HELD_BACK_MAX));
        let mut sources = lock(&self.sources);
        let room = self.plan.size_max.get().saturating_sub(TRAILER_BYTES);
        let mut rows = 0;
        for event in self.held.drain(..count) {
            let Some(source) = sources.list.get_mut(event.disk as usize) else {
                continue;
            };
            let volume = source.asker.volume(event.vm);
            let time_us = (event.time - self.start).as_nanos() / 1000;
            let mut written = Ok(());
            self.sampling.parts(source.id, &event, |offset, length| {
                rows += 1;
                if written.is_ok() {
                    let (offset, length) = (offset.get(), length.get());
                    let op = op(event.verb);
                    written = self.writer.record(volume, time_us, op, offset, length);
                }
            });
            written?;
            if self.writer.written_bytes() + self.writer.waiting_bytes() >= room {
                // What waits packs to less; only then is it known whether the file is full.
                self.writer.flush()?;
                self.is_full = self.writer.written_bytes() + LINE_BYTES_MAX >= room;
                if self.is_full {
                    break;
                }
            }
        }
        self.progress.recorded.fetch_add(rows, Ordering::Relaxed);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()?;
        let bytes = self.writer.written_bytes();
        self.progress.written_bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Closes the taps, writes what is left, and says how it ended.
    fn finish(mut self, mut end: End) {
        self.close_taps();
        if !matches!(end, End::Failed(_))
            && let Err(error) = self.write_rest(&end)
        {
            end = End::Failed(chain(&error));
        }
        lock(&self.progress.times).1 = Some(now());
        let path = self.plan.output.display();
        let lost = self.progress.lost.load(Ordering::Relaxed);
        if let End::Failed(reason) = &end {
            tracing::error!(event = EventKind::RecordingEnded.word(),
                %path, reason, "recording failed");
        } else {
            tracing::info!(event = EventKind::RecordingEnded.word(),
                %path, lost, end = end.word(), "recording ended");
        }
        *lock(&self.progress.end) = Some(end);
    }

    /// Nothing comes any more when this returns, or a shard is stuck.
    fn close_taps(&self) {
        let (done, closed) = mpsc::channel();
        let mut sources = lock(&self.sources);
        sources.is_closed = true;
        for source in &sources.list {
            (source.close)(done.clone());
        }
        drop((sources, done));
        // Ends when the last reply has dropped its sender.
        let _: Result<(), _> = closed.recv_timeout(TAPS_CLOSE_TIME_MAX);
    }

    fn write_rest(&mut self, end: &End) -> io::Result<()> {
        if *end != End::Size {
            self.take();
            self.write(Instant::from_nanos(u64::MAX))?;
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let progress = &self.progress;
        let (seen, recorded) = (count(&progress.seen), count(&progress.recorded));
        let lost = count(&progress.lost);
        self.writer.comment(&format!(
            "end={} requests={seen} rows={recorded} lost={lost}",
            end.word()
        ))?;
        self.writer.seal()?;
        let bytes = self.writer.written_bytes();
        self.progress.written_bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}

fn op(verb: TapVerb) -> Op {
    match verb {
        TapVerb::Read => Op::Read,
        TapVerb::Write => Op::Write,
        TapVerb::Flush => Op::Flush,
        TapVerb::Discard => Op::Discard,
        TapVerb::WriteZeroes => Op::WriteZeroes,
    }
}

/// The clock of the shards' events.
fn now() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    Instant::from_nanos(part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec))
}

/// What a panic elsewhere left is whole: every change is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::{Options, Record};
    use units::Offset;

    fn plan(output: PathBuf, size_max: Bytes) -> Plan {
        Plan {
            output,
            sample_one_in: 1,
            size_max,
            duration_max: None,
        }
    }

    fn tap(recorder: &Recorder, name: &str) -> Tap {
        let volume = Volume {
            vm: "vm".to_owned(),
            name: name.to_owned(),
        };
        let close = Box::new(drop::<Sender<()>>);
        recorder
            .tap(Asker::One(volume), DiskId::from_u128(1), close)
            .expect("it has not ended")
    }

    fn event(disk: u32, time: Instant, offset: u64) -> TapEvent {
        TapEvent {
            time,
            offset: Offset::new(offset),
            length: Bytes::kib(4),
            disk,
            vm: TenantSlot::new(0),
            verb: TapVerb::Read,
        }
    }

    fn read(path: &std::path::Path) -> Vec<(String, Record)> {
        let mut opened = trace::open(path, &Options::default()).unwrap();
        let (mut all, mut batch) = (Vec::new(), trace::Records::new());
        while opened.reader.read_batch(&mut batch).unwrap() {
            let volumes = opened.reader.volumes();
            all.extend(batch.iter().map(|record| {
                let volume = volumes.get(record.volume).unwrap();
                (volume.to_string(), record)
            }));
        }
        all
    }

    #[test]
    fn requests_of_several_shards_are_written_in_order_of_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.csv.zst");
        let mut recorder = Recorder::start(&plan(path.clone(), Bytes::gib(1))).unwrap();
        let taps = [tap(&recorder, "a"), tap(&recorder, "b")];
        let start = now();
        let at = |ms| start + units::Duration::from_millis(ms);
        for (disk, ms) in [(0, 1), (0, 5), (1, 2), (1, 4), (0, 9)] {
            let event = event(disk, at(ms), ms * 4096);
            taps[0].events.send(event).unwrap();
        }
        recorder.stop().unwrap().join().unwrap();
        let read = read(&path);
        let order: Vec<(&str, u64)> = read
            .iter()
            .map(|(name, record)| (name.as_str(), record.offset.get() / 4096))
            .collect();
        let wanted = [
            ("vm/a", 1),
            ("vm/b", 2),
            ("vm/b", 4),
            ("vm/a", 5),
            ("vm/a", 9),
        ];
        assert_eq!(order, wanted);
        assert_eq!(read[4].1.time_us - read[0].1.time_us, 8000);
        assert_eq!(recorder.progress.end(), Some(End::Stopped));
        assert_eq!(recorder.progress.recorded.load(Ordering::Relaxed), 5);
        assert!(
            recorder.stop().is_none(),
            "there is nothing to wait for any more"
        );
        let packed = std::fs::read(&path).unwrap();
        let seal = &packed[packed.len() - 82..];
        assert!(seal.starts_with(b"# end of trace: "), "{seal:?}");
        let text = zstd::decode_all(&packed[..]).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.ends_with("# end=stopped requests=5 rows=5 lost=0\n"),
            "{text}"
        );
    }

    #[test]
    fn a_row_of_a_base_image_names_the_vm_that_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.csv.zst");
        let mut recorder = Recorder::start(&plan(path.clone(), Bytes::gib(1))).unwrap();
        let names = ["web", "db"].into_iter().zip([3, 7]);
        let names: VmNames = names
            .map(|(name, slot)| (TenantSlot::new(slot), name.to_owned()))
            .collect();
        let shared = Asker::Many(SharedVolume {
            name: "base:debian".to_owned(),
            readers: BTreeMap::new(),
            ask: Box::new(move || names.clone()),
        });
        let close = Box::new(drop::<Sender<()>>);
        let tap = recorder.tap(shared, DiskId::from_u128(1), close).unwrap();
        for vm in [7, 3, 9] {
            let event = TapEvent {
                vm: TenantSlot::new(vm),
                ..event(0, now(), 0)
            };
            tap.events.send(event).unwrap();
        }
        recorder.stop().unwrap().join().unwrap();
        let volumes: Vec<String> = read(&path).into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            volumes,
            ["db/base:debian", "web/base:debian", "base:debian"]
        );
    }

    #[test]
    fn a_full_file_ends_the_recording_and_is_not_too_large() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.csv.zst");
        let size_max = Bytes::kib(64);
        let recorder = Recorder::start(&plan(path.clone(), size_max)).unwrap();
        let tap = tap(&recorder, "a");
        let mut dice = units::Prng::new(3);
        // Until nobody listens any more: random offsets pack badly.
        while tap.events.send(event(0, now(), dice.u64() >> 20)).is_ok() {}
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while recorder.progress.end().is_none() {
            assert!(std::time::Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(recorder.progress.end(), Some(End::Size));
        let size = std::fs::metadata(&path).unwrap().len();
        assert!((32 << 10..=size_max.get()).contains(&size), "{size}");
        let rows = recorder.progress.recorded.load(Ordering::Relaxed);
        assert_eq!(read(&path).len() as u64, rows);
    }

    #[test]
    fn an_existing_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, "mine").unwrap();
        let started = Recorder::start(&plan(path.clone(), Bytes::gib(1)));
        assert_eq!(started.err().unwrap().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }

    #[test]
    fn a_file_that_is_called_csv_is_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.csv");
        let mut recorder = Recorder::start(&plan(path.clone(), Bytes::gib(1))).unwrap();
        recorder.stop().unwrap().join().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let (lines, seal) = text.split_at(text.len() - 82);
        assert!(
            lines.ends_with("# end=stopped requests=0 rows=0 lost=0\n"),
            "{text}"
        );
        assert!(seal.starts_with("# end of trace: "), "{text}");
    }
}
