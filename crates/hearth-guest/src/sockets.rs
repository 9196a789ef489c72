//! Telling the host whom the guest speaks with, if the guest's operator wants that.

use crate::error::AgentError;
use crate::log::say;
use crate::netlink::Netlink;
use crate::peers::Peers;
use guest_protocol::Message;
use std::io;
use units::{Duration, Instant};

/// What the agent has of the guest's connections.
pub(crate) struct Sockets {
    netlink: Netlink,
    peers: Peers,
    interval: Duration,
    /// When the host is told again.
    next: Instant,
    /// What was said of trouble last: it is said once.
    said: Option<Trouble>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Refused,
    TooMany,
}

impl Sockets {
    /// Opens the sockets of netlink, and says in the journal what there is to tell.
    ///
    /// # Errors
    /// [`AgentError::Sockets`].
    pub(crate) fn open(interval: Duration) -> Result<Self, AgentError> {
        let mut sockets = Self {
            netlink: Netlink::open().map_err(AgentError::Sockets)?,
            peers: Peers::default(),
            interval,
            next: Instant::ZERO,
            said: None,
        };
        match sockets.netlink.look() {
            Ok(seen) => say(&format!(
                "the host is told whom the guest speaks with: connections={}",
                seen.len()
            )),
            Err(error) => drop(sockets.refused(&error)),
        }
        Ok(sockets)
    }

    /// A host listens that was told nothing yet: what it is told first, which begins the time that it counts.
    pub(crate) fn begin_anew(&mut self, now: Instant) -> Vec<Message> {
        self.next = now + self.interval;
        let looked = self.netlink.look().and_then(|seen| {
            self.peers.begin_anew(&seen);
            // Those ended before.
            self.netlink.ended()
        });
        match looked {
            Ok(_) => self.peers.tell(),
            Err(error) => self.refused(&error),
        }
    }

    /// Takes the connections that have ended, and looks at all if that is due: what the host is told then.
    pub(crate) fn look(&mut self, now: Instant) -> Vec<Message> {
        let is_due = now >= self.next;
        if is_due {
            self.next = now + self.interval;
        }
        match self.try_look(is_due) {
            Ok(true) => self.peers.tell(),
            Ok(false) => Vec::new(),
            Err(error) => self.refused(&error),
        }
    }

    fn try_look(&mut self, is_due: bool) -> io::Result<bool> {
        let (ended, is_whole) = self.netlink.ended()?;
        self.peers.end(&ended);
        let are_kept = !is_due || self.peers.look(&self.netlink.look()?);
        if !is_whole || !are_kept {
            self.say(
                Trouble::TooMany,
                "there are more TCP connections than can be counted: the host is told of too few bytes",
            );
        }
        Ok(is_due)
    }

    /// The kernel does not tell: nor is the host told.
    fn refused(&mut self, error: &io::Error) -> Vec<Message> {
        let remedy = match error.raw_os_error() {
            Some(libc::ENOENT) => "; what helps: modprobe tcp_diag",
            _ => "",
        };
        let line = format!("the kernel does not tell of TCP connections: {error}{remedy}");
        self.say(Trouble::Refused, &line);
        Vec::new()
    }

    fn say(&mut self, trouble: Trouble, line: &str) {
        if self.said.replace(trouble) != Some(trouble) {
            say(line);
        }
    }
}
