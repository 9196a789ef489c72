//! The loop: uses of files come in, the history is kept, memory and host are looked at.

use crate::args::Args;
use crate::classes::{self, Folders};
use crate::error::AgentError;
use crate::follow::Follow;
use crate::kernel::signals;
use crate::kernel::uses::Watch;
use crate::log::say;
use crate::port::Port;
use crate::preload::{FileSystems, Preloading, open};
use crate::sockets::Sockets;
use crate::state::History;
use crate::{memory, mounts, privileges};
use guest_files::{Leaving, Maps};
use guest_protocol::Message;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{Advice, fadvise, fdatasync, statvfs};
use std::path::PathBuf;
use units::{Duration, Instant};

/// How often the kernel is asked for uses. In between it merges them, which is what makes them cheap.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often the history is made durable.
const SAVE_INTERVAL: Duration = Duration::from_secs(300);
/// Files whose sizes are looked at in an epoch.
const MEASURED_AT_ONCE: usize = 256;
/// Buffers of events that are taken at one look: a flood beyond is left to the kernel, which merges it.
const BUFFERS_AT_ONCE: usize = 16;

struct Agent {
    maps: Maps,
    watch: Watch,
    file_systems: FileSystems,
    history: History,
    port: Port,
    drops: bool,
    hints: Option<Hints>,
    follow: Option<Follow>,
    sockets: Option<Sockets>,
    began: std::time::Instant,
    is_incomplete: bool,
}

/// What the host is told of ranges of the disks.
struct Hints {
    folders: Folders,
    interval: Duration,
    /// When it is looked at again.
    next: Instant,
    /// What the host was told.
    told: Vec<Message>,
}

/// Runs until it is told to stop.
///
/// # Errors
/// If it cannot begin, or the history cannot be kept.
pub(crate) fn run(args: &Args) -> Result<(), AgentError> {
    let system = |what| move |source| AgentError::System { what, source };
    let ends = signals::ends().map_err(system("signals"))?;
    let watch = Watch::new().map_err(AgentError::Marks)?;
    let file_systems = watched(&watch, mounts::on_disks())?;
    let sockets = args.sockets.then(|| Sockets::open(args.sockets_interval));
    let sockets = sockets.transpose()?;
    privileges::give_up().map_err(AgentError::Privileges)?;
    let history = History::in_folder(&args.state_dir)?;
    let maps = history.load(args.settings());
    say(&format!(
        "watching: file_systems={} files={}",
        file_systems.len(),
        maps.len()
    ));
    let mut agent = Agent {
        maps,
        watch,
        file_systems,
        history,
        port: Port::new(&args.port),
        drops: args.drop,
        hints: (!args.no_hints).then(|| Hints {
            folders: args.folders(),
            interval: args.hint_interval,
            next: Instant::ZERO,
            told: Vec::new(),
        }),
        follow: args.read_ahead.then(Follow::default),
        sockets,
        began: std::time::Instant::now(),
        is_incomplete: false,
    };
    let preloading = (!args.no_preload).then(|| agent.preloading(args.preload_time));
    agent.serve(&ends, args.epoch, preloading)
}

/// Marks each file system, and notes where its files are opened by their handles.
fn watched(watch: &Watch, mounts: Vec<PathBuf>) -> Result<FileSystems, AgentError> {
    let mut file_systems = FileSystems::new();
    for mount in mounts {
        watch.add(&mount).map_err(AgentError::Marks)?;
        // One that has just been unmounted is not watched either.
        if let Ok(about) = statvfs(&mount) {
            file_systems.insert(about.f_fsid, mount);
        }
    }
    if file_systems.is_empty() {
        return Err(AgentError::NoFileSystem);
    }
    Ok(file_systems)
}

impl Agent {
    fn now(&self) -> Instant {
        let passed = self.began.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    fn preloading(&mut self, time: Duration) -> Preloading {
        let now = self.now();
        Preloading::new(&mut self.maps, &self.file_systems, now, time)
    }

    fn serve(
        &mut self,
        ends: &OwnedFd,
        epoch: Duration,
        mut preloading: Option<Preloading>,
    ) -> Result<(), AgentError> {
        let (mut epoch_ends, mut save) = (self.now() + epoch, self.now() + SAVE_INTERVAL);
        loop {
            let pause = match preloading {
                Some(_) => Duration::ZERO,
                None => LOOK_INTERVAL.min(epoch),
            };
            if self.is_ended(ends, pause)? {
                break;
            }
            let now = self.now();
            if let Some(under_way) = &mut preloading
                && !under_way.go_on(&self.file_systems, now)
            {
                preloading = None;
            }
            self.look()?;
            // What is read ahead comes first.
            if preloading.is_none() {
                self.tell_ranges(now);
            }
            self.tell_sockets(now);
            if now >= epoch_ends {
                epoch_ends = now + epoch;
                self.end_epoch();
            }
            if now >= save {
                save = now + SAVE_INTERVAL;
                self.history.save(&self.maps)?;
            }
        }
        self.look()?;
        self.history.save(&self.maps)?;
        let followed = self.follow.as_ref().map_or(0, Follow::bytes);
        say(&format!(
            "ended: files={} followed_bytes={followed}",
            self.maps.len()
        ));
        Ok(())
    }

    /// Takes the uses that there are, and what the host says.
    fn look(&mut self) -> Result<(), AgentError> {
        for _ in 0..BUFFERS_AT_ONCE {
            let uses = self.watch.take().map_err(AgentError::Marks)?;
            for (handle, what) in &uses.files {
                self.maps.used(handle, *what);
                if let Some(follow) = &mut self.follow {
                    follow.used(handle);
                }
            }
            if uses.is_incomplete && !std::mem::replace(&mut self.is_incomplete, true) {
                say("the kernel had to forget uses of files: more were used than it keeps");
            }
            if uses.files.is_empty() {
                break;
            }
        }
        if self.port.look() {
            say("the host listens");
            let memory = memory::look();
            self.port.tell(Message::Memory(memory));
            // To say how it did is to say that it follows.
            if let Some(follow) = &mut self.follow {
                let used = follow.end_epoch(memory.available_bytes);
                self.port.tell(Message::Used(used));
            }
            if let Some(hints) = &mut self.hints {
                hints.told.clear();
                hints.next = Instant::ZERO;
            }
            let now = self.now();
            if let Some(sockets) = &mut self.sockets {
                for message in sockets.begin_anew(now) {
                    self.port.tell(message);
                }
            }
        }
        if let Some(follow) = &mut self.follow {
            follow.read(&self.file_systems, &self.port.take_expected());
        }
        Ok(())
    }

    /// Tells the host of ranges of the disks, if that is due, the host listens and something has changed.
    fn tell_ranges(&mut self, now: Instant) {
        let Some(hints) = &mut self.hints else {
            return;
        };
        if now < hints.next || !self.port.is_heard() {
            return;
        }
        hints.next = now + hints.interval;
        let found = classes::messages(&self.maps, &self.file_systems, &hints.folders);
        let (messages, places) = found;
        if let Some(follow) = &mut self.follow {
            follow.set_places(places);
        }
        if messages != hints.told {
            // While a new beginning is told, what is to be kept out is not; files that matter no longer do no harm.
            let begins_anew = !classes::keep_out(&messages).eq(classes::keep_out(&hints.told));
            hints.told.clone_from(&messages);
            self.port.tell_ranges(messages, begins_anew);
        }
    }

    /// Tells the host whom the guest speaks with, if that is due and the host listens.
    fn tell_sockets(&mut self, now: Instant) {
        let Some(sockets) = &mut self.sockets else {
            return;
        };
        if self.port.is_heard() {
            for message in sockets.look(now) {
                self.port.tell(message);
            }
        }
    }

    fn end_epoch(&mut self) {
        for handle in self.maps.to_measure(MEASURED_AT_ONCE) {
            match open(&self.file_systems, &handle).and_then(|file| file.metadata()) {
                Ok(about) => self.maps.measured(&handle, about.len()),
                Err(_) => self.maps.removed(&handle),
            }
        }
        let memory = memory::look();
        self.port.tell(Message::Memory(memory));
        if let Some(follow) = &mut self.follow {
            let used = follow.end_epoch(memory.available_bytes);
            self.port.tell(Message::Used(used));
        }
        if self.drops {
            let cache_memory = memory.available_bytes.saturating_add(memory.cache_bytes);
            let leaving = self.maps.end_epoch(cache_memory);
            self.let_leave(&leaving);
        } else {
            self.maps.end_epoch(u64::MAX);
        }
    }

    /// Waits for a signal that ends the agent, at most so long, and no longer than until the host says something.
    fn is_ended(&mut self, ends: &OwnedFd, pause: Duration) -> Result<bool, AgentError> {
        let pause = Timespec::try_from(pause.to_std()).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        let mut polled = vec![PollFd::new(ends, PollFlags::IN)];
        if self.follow.is_some() {
            let port = self.port.awaited();
            polled.extend(port.map(|port| PollFd::new(port, PollFlags::IN)));
        }
        match poll(&mut polled, Some(&pause)) {
            Ok(_) => {
                let is_ended = !polled[0].revents().is_empty();
                let says = polled.get(1).map(PollFd::revents);
                if says.is_some_and(|says| says.contains(PollFlags::HUP)) {
                    self.port.hung_up();
                }
                Ok(is_ended)
            }
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(AgentError::System {
                what: "waiting",
                source: error.into(),
            }),
        }
    }

    /// Drops files from the guest's memory; dirty ones are written out before.
    fn let_leave(&self, leaving: &Leaving) {
        for handle in &leaving.write_out {
            if let Ok(file) = open(&self.file_systems, handle) {
                // What cannot be written out stays in memory, where the kernel drops nothing dirty.
                let _ = fdatasync(&file);
                let _ = fadvise(&file, 0, None, Advice::DontNeed);
            }
        }
        for handle in &leaving.drop {
            if let Ok(file) = open(&self.file_systems, handle) {
                let _ = fadvise(&file, 0, None, Advice::DontNeed);
            }
        }
    }
}
