//! What a service manager does for a daemon's sockets: it keeps copies of those that it is given
//! (`FDSTORE=1`), and hands them to the next process.

use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::Context;
use command_fds::{CommandFdExt as _, FdMapping};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::{Lab, limits};

/// The first descriptor that is handed over.
const FIRST: i32 = 3;

/// A service manager with one service. It listens all the time: a daemon waits until it is heard.
pub struct Manager {
    ear: Arc<Ear>,
    path: PathBuf,
    listening: Option<JoinHandle<()>>,
}

struct Ear {
    socket: UnixDatagram,
    kept: Mutex<BTreeMap<String, OwnedFd>>,
    is_over: AtomicBool,
}

impl Manager {
    /// One that keeps nothing yet.
    ///
    /// # Errors
    ///
    /// When its socket cannot be made.
    pub fn new(lab: &Lab) -> anyhow::Result<Self> {
        let path = lab.path("notify.sock");
        let socket = UnixDatagram::bind(&path).context("a socket for notifications")?;
        let ear = Arc::new(Ear {
            socket,
            kept: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&ear);
        let listening = std::thread::spawn(move || {
            // What cannot be heard is said again, with its reason, to who asks.
            while !theirs.is_over.load(Ordering::Relaxed) && theirs.listen().is_ok() {
                std::thread::sleep(limits::PAUSE);
            }
        });
        Ok(Self {
            ear,
            path,
            listening: Some(listening),
        })
    }

    /// The names of what is kept.
    ///
    /// # Errors
    ///
    /// When what the daemon said cannot be received.
    pub fn kept(&self) -> anyhow::Result<Vec<String>> {
        self.ear.listen()?;
        let kept = self.ear.kept.lock();
        let kept = kept.unwrap_or_else(PoisonError::into_inner);
        Ok(kept.keys().cloned().collect())
    }

    /// Gives a process that is about to start what is kept.
    pub(crate) fn equip(&self, command: &mut Command) -> anyhow::Result<()> {
        self.ear.listen()?;
        let kept = self.ear.kept.lock();
        let kept = kept.unwrap_or_else(PoisonError::into_inner);
        let (mut names, mut mappings) = (Vec::new(), Vec::new());
        for (child_fd, (name, fd)) in (FIRST..).zip(kept.iter()) {
            names.push(name.clone());
            mappings.push(FdMapping {
                parent_fd: fd.try_clone()?,
                child_fd,
            });
        }
        command.env("NOTIFY_SOCKET", &self.path);
        command.env("LISTEN_FDS", names.len().to_string());
        command.env("LISTEN_FDNAMES", names.join(":"));
        command.fd_mappings(mappings)?;
        Ok(())
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.ear.is_over.store(true, Ordering::Relaxed);
        if let Some(listening) = self.listening.take() {
            // A thread that panicked has said so.
            let _ = listening.join();
        }
    }
}

impl Ear {
    /// Does what the daemon has asked for.
    fn listen(&self) -> anyhow::Result<()> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; 4096];
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let mut into = [IoSliceMut::new(&mut bytes)];
            let length = match recvmsg(&self.socket, &mut into, &mut ancillary, flags) {
                Ok(received) => received.bytes,
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error).context("what the daemon says"),
            };
            let said = String::from_utf8_lossy(&bytes[..length]).into_owned();
            let value = |key: &str| said.lines().find_map(|line| line.strip_prefix(key));
            if let Some(name) = value("FDNAME=") {
                if value("FDSTOREREMOVE=1").is_some() {
                    kept.remove(name);
                }
                for message in ancillary.drain() {
                    if let RecvAncillaryMessage::ScmRights(fds) = message {
                        kept.extend(fds.map(|fd| (name.to_owned(), fd)));
                    }
                }
            }
        }
    }
}
