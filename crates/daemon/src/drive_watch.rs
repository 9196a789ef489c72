//! The drives under the caches: looked at on a slow timer, and told of.
//!
//! ```text
//!   every PAUSE ─► a blocking thread: sysfs, smartctl ─► Look ─┬─► GET /v1/drives, metrics
//!                                       ▲                      └─► a warning for each concern that is new
//!        hearth cache health, as root ──┘ POST /v1/drives/health: what the daemon may not ask itself
//! ```
//!
//! No shard and no request waits for a drive's answer: one that hangs delays the next look only.

use super::control::Control;
use api::drives::{CacheDrives, FlashDrive, FlashDrives, ToldHealth, Written};
use api::types::CacheStatus;
use configuration::{Auto, Config, Name, ProgramPath, Switch};
use drives::{Asker, ConcernCode, Drive, Health, Program, Smart, Storage, drives_under, judge};
use events::EventKind;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time between two looks. Wear and spare change over days, temperature over minutes; each answer costs a drive some
/// milliseconds.
const PAUSE: Duration = Duration::from_mins(10);
/// How long it holds what others said of a drive: a day, for whoever asks daily, and some.
const TOLD_TIME_MAX: Duration = Duration::from_hours(26);
/// Drives that others may tell of: more than any host has.
const TOLD_MAX: usize = 256;

/// A drive's counter of written bytes, and what the caches on it had written then.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    drive_bytes: u64,
    caches_bytes: u64,
}

#[derive(Default)]
struct State {
    looked_at: Option<Instant>,
    caches: Vec<CacheDrives>,
    told: BTreeMap<String, (Instant, Health)>,
    /// The first and the last mark of each drive.
    marks: BTreeMap<String, (Mark, Mark)>,
    warned: BTreeSet<(String, ConcernCode)>,
}

/// What is known of the drives.
pub(crate) struct DriveWatch {
    caches: Vec<(Name, PathBuf)>,
    asker: Asker,
    state: Mutex<State>,
}

impl DriveWatch {
    /// Begins to look, for as long as the daemon runs.
    pub(super) fn start(config: &Config, control: &Arc<Control>) -> Arc<Self> {
        let caches = config.caches.iter();
        let program = match &config.daemon.smartctl.0 {
            Switch::Off => Program::Off,
            Switch::On(Auto::Auto) => Program::Found,
            Switch::On(Auto::Fixed(ProgramPath(path))) => Program::At(path.clone()),
        };
        let watch = Arc::new(Self {
            caches: caches
                .map(|cache| (cache.name.clone(), cache.path.clone()))
                .collect(),
            asker: Asker::new(program),
            state: Mutex::default(),
        });
        tokio::spawn(keep(Arc::clone(&watch), Arc::clone(control)));
        watch
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves each field whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known.
    pub(crate) fn shown(&self) -> FlashDrives {
        let state = self.lock();
        FlashDrives {
            age_seconds: state.looked_at.map(|at| at.elapsed().as_secs_f64()),
            caches: state.caches.clone(),
        }
    }

    /// Somebody has asked drives that the daemon may not ask. Returns what is known then.
    pub(crate) fn told(&self, told: Vec<ToldHealth>) -> FlashDrives {
        let now = Instant::now();
        {
            let mut state = self.lock();
            let state = &mut *state;
            for ToldHealth { device, health } in told {
                let is_known = state.told.contains_key(&device);
                if is_known || state.told.len() < TOLD_MAX {
                    state.told.insert(device, (now, health));
                }
            }
            state.complete(now);
            state.warn();
        }
        self.shown()
    }

    /// Takes in what the drives have said.
    fn take(&self, caches: Vec<CacheDrives>, written: &BTreeMap<&str, u64>) {
        let now = Instant::now();
        let mut state = self.lock();
        let state = &mut *state;
        state.told.retain(|_, (at, _)| at.elapsed() < TOLD_TIME_MAX);
        state.looked_at = Some(now);
        state.caches = caches;
        state.complete(now);
        let mut of_drives: BTreeMap<String, u64> = BTreeMap::new();
        for cache in &state.caches {
            let bytes = written.get(cache.cache.as_str()).copied().unwrap_or(0);
            for flash in &cache.drives {
                *of_drives.entry(flash.drive.device.clone()).or_default() += bytes;
            }
        }
        for flash in state.caches.iter_mut().flat_map(|cache| &mut cache.drives) {
            let caches_bytes = of_drives.get(&flash.drive.device).copied().unwrap_or(0);
            flash.written = written_since(&mut state.marks, &flash.drive, caches_bytes, now);
        }
        state.warn();
    }
}

impl State {
    /// Puts what others said where the daemon could not ask, and judges.
    fn complete(&mut self, now: Instant) {
        for flash in self.caches.iter_mut().flat_map(|cache| &mut cache.drives) {
            let told = self.told.get(&flash.drive.device);
            let is_others = flash.told_seconds_ago.is_some();
            if let Some((at, health)) = told
                && (is_others || flash.drive.smart.health().is_none())
            {
                flash.drive.smart = Smart::Known(health.clone());
                flash.told_seconds_ago = Some(now.duration_since(*at).as_secs_f64());
            }
            flash.concerns = judge(&flash.drive);
        }
    }

    /// Tells of each concern once, and again when it has gone and come back.
    fn warn(&mut self) {
        let mut there = BTreeSet::new();
        for cache in &self.caches {
            for flash in &cache.drives {
                let device = &flash.drive.device;
                for concern in &flash.concerns {
                    let key = (device.clone(), concern.code);
                    if !self.warned.contains(&key) && !there.contains(&key) {
                        tracing::warn!(event = EventKind::DriveConcern.word(),
                            cache = %cache.cache, remedy = concern.remedy,
                            "drive {device}: {}", concern.found);
                    }
                    there.insert(key);
                }
            }
        }
        self.warned = there;
    }
}

/// What was written since the drive's counter was first known.
fn written_since(
    marks: &mut BTreeMap<String, (Mark, Mark)>,
    drive: &Drive,
    caches_bytes: u64,
    now: Instant,
) -> Option<Written> {
    let drive_bytes = drive.smart.health()?.written_bytes?;
    let mark = Mark {
        at: now,
        drive_bytes,
        caches_bytes,
    };
    let marks = marks.entry(drive.device.clone()).or_insert((mark, mark));
    if drive_bytes < marks.0.drive_bytes || caches_bytes < marks.0.caches_bytes {
        // Another drive, or another life of the caches.
        *marks = (mark, mark);
    }
    marks.1 = mark;
    let (first, last) = *marks;
    let seconds = last.at.duration_since(first.at).as_secs_f64();
    (last.at > first.at).then_some(Written {
        seconds,
        drive_bytes: last.drive_bytes - first.drive_bytes,
        caches_bytes: last.caches_bytes - first.caches_bytes,
    })
}

/// Looks again and again.
async fn keep(watch: Arc<DriveWatch>, control: Arc<Control>) {
    loop {
        let looking = Arc::clone(&watch);
        let look = tokio::task::spawn_blocking(move || look(&looking.caches, &looking.asker));
        if let Ok(caches) = look.await {
            let (status, ..) = control.observer().snapshot().await;
            watch.take(caches, &status.caches.iter().map(written).collect());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Bytes that a cache has written to flash since the daemon's start.
fn written(cache: &CacheStatus) -> (&str, u64) {
    let causes = cache.flash_written_bytes.causes();
    let bytes = causes.iter().map(|(_, bytes)| bytes).sum();
    (cache.name.as_str(), bytes)
}

/// What the drives of the caches say now. Each drive is asked once.
fn look(caches: &[(Name, PathBuf)], asker: &Asker) -> Vec<CacheDrives> {
    let mut asked: BTreeMap<String, Smart> = BTreeMap::new();
    let mut look = Vec::with_capacity(caches.len());
    for (name, path) in caches {
        let (no_drive, found) = match drives_under(path, Path::new("/sys")) {
            Ok(Storage::Drives(found)) => (None, found),
            Ok(Storage::NoDrive(why)) => (Some(why.to_owned()), Vec::new()),
            Err(error) => (Some(format!("it cannot be looked at: {error}")), Vec::new()),
        };
        let ask = |mut drive: Drive| {
            let smart = asked.entry(drive.device.clone());
            drive.smart = smart.or_insert_with(|| asker.ask(&drive.device)).clone();
            FlashDrive {
                drive,
                concerns: Vec::new(),
                told_seconds_ago: None,
                written: None,
            }
        };
        look.push(CacheDrives {
            cache: name.clone(),
            path: path.display().to_string(),
            no_drive,
            drives: found.into_iter().map(ask).collect(),
        });
    }
    look
}

#[cfg(test)]
mod tests;
