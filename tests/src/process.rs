//! A started program that does not outlive its test, and waiting without sleeping blindly.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::{Lab, limits, tools};

/// A running program. Dropping it kills it, by its id.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; what it says goes to `NAME.log` in the lab, after what an earlier one said.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start(lab: &Lab, name: &str, command: &mut Command) -> anyhow::Result<Self> {
        let log = lab.path(&format!("{name}.log"));
        let out = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .context("a log file")?;
        let err = out.try_clone().context("a log file")?;
        let child = tools::with_system_path(command)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log,
        })
    }

    /// Where its output goes.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it as a power cut would: no last words, nothing flushed by it.
    ///
    /// # Errors
    ///
    /// When it had ended already, which a test that cuts the power must notice.
    pub fn kill(mut self) -> anyhow::Result<()> {
        if !self.is_running() {
            bail!("{} had ended before it was to be killed", self.name);
        }
        self.signal(Signal::KILL)?;
        self.child.wait().with_context(|| self.name.clone())?;
        Ok(())
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    ///
    /// When it does not end in time.
    pub fn terminate(self) -> anyhow::Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait(limits::SHORT)
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    ///
    /// When it does not end in time; it is killed then.
    pub fn wait(mut self, deadline: Duration) -> anyhow::Result<ExitStatus> {
        let mut status = None;
        wait_until(&format!("{} to end", self.name), deadline, || {
            status = self.child.try_wait().with_context(|| self.name.clone())?;
            Ok(status.is_some())
        })?;
        status.context("it has ended")
    }

    /// Sends it a signal.
    ///
    /// # Errors
    ///
    /// When it has gone.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = Pid::from_child(&self.child);
        kill_process(id, signal).with_context(|| format!("signalling {}", self.name))
    }

    /// Lets it stand still: when this returns, none of its threads runs. The signal alone does not say so.
    ///
    /// # Errors
    ///
    /// When it has gone.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)?;
        let id = WaitId::Pid(Pid::from_child(&self.child));
        let which = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = waitid(id, which)?;
        let is_stopped = status.is_some_and(|status| status.stopped());
        ensure!(is_stopped, "{} has ended", self.name);
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_running() {
            // It may end between the look and the signal; either way it is gone afterwards.
            let _ = self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// The clock that all programs of this host share, in seconds.
pub fn monotonic() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::try_from(now).map_or(0.0, |now| now.as_secs_f64())
}

/// Waits until something listens at a unix socket of this network namespace. It is not enough that the socket exists: a program
/// binds a socket before it listens, and a connection in between is refused. Nobody connects for this look.
///
/// # Errors
///
/// When nothing does in time.
pub fn wait_for_listener(socket: &Path) -> anyhow::Result<()> {
    let what = format!("a server at {}", socket.display());
    wait_until(&what, limits::LONG, || listens(socket))
}

/// Whether something listens at a unix socket, as the kernel's list says.
fn listens(socket: &Path) -> anyhow::Result<bool> {
    /// `__SO_ACCEPTCON` of Linux, as the list of `proc_net` shows it.
    const LISTENING: &str = "00010000";
    let sockets = std::fs::read_to_string("/proc/net/unix").context("the list of unix sockets")?;
    Ok(sockets.lines().any(|line| {
        // Number, references, protocol, flags, type, state, inode, path.
        line.split_ascii_whitespace().nth(3) == Some(LISTENING)
            && line.ends_with(&format!(" {}", socket.display()))
    }))
}

/// Looks again and again until `is_so` holds.
///
/// # Errors
///
/// When it does not hold before the deadline, or when `is_so` fails.
pub fn wait_until(
    what: &str,
    deadline: Duration,
    mut is_so: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        if is_so()? {
            return Ok(());
        }
        if began.elapsed() > deadline {
            bail!("waited {} s for {what}", deadline.as_secs());
        }
        std::thread::sleep(limits::PAUSE);
    }
}
