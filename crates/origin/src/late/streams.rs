//! Connections of former sessions, on which a server may still answer.
//!
//! Nothing can be sent on them: the process that was killed may have sent half of a request. And
//! their bytes cannot be parsed from the beginning of a reply on: it may have received half of one. So
//! the answers are looked for by their cookies, which nobody but us and the server knows.

use super::{Change, KeepSockets};
use nbd_protocol::wire;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A header of a reply, as far as its cookie: magic, four bytes, cookie.
const HEADER_BYTES: usize = 16;
/// Bytes received at a time.
const RECEIVE_BYTES: usize = 64 << 10;

/// The connections of former sessions with one origin.
#[derive(Debug)]
pub(crate) struct Streams {
    open: Vec<Stream>,
    settle_time: Duration,
    /// When the last one ended.
    ended: Instant,
    keeper: Option<Arc<dyn KeepSockets>>,
}

#[derive(Debug)]
struct Stream {
    name: String,
    socket: OwnedFd,
    /// What may be the beginning of a header.
    tail: Vec<u8>,
}

impl Streams {
    /// Nobody has kept any.
    pub(crate) fn none(settle_time: Duration) -> Self {
        Self {
            open: Vec::new(),
            settle_time,
            ended: Instant::now(),
            keeper: None,
        }
    }

    /// These were kept under these names.
    pub(crate) fn new(
        kept: Vec<(String, OwnedFd)>,
        settle_time: Duration,
        keeper: Arc<dyn KeepSockets>,
    ) -> Self {
        let streams = kept.into_iter().map(|(name, socket)| Stream {
            name,
            socket,
            tail: Vec::new(),
        });
        Self {
            open: streams.collect(),
            keeper: Some(keeper),
            ..Self::none(settle_time)
        }
    }

    /// How many have not ended.
    pub(crate) fn count(&self) -> usize {
        self.open.len()
    }

    /// Whether all have ended.
    pub(crate) fn have_ended(&self) -> bool {
        self.open.is_empty()
    }

    /// When every change is over, if no connection is open.
    pub(crate) fn settled_at(&self) -> Option<Instant> {
        self.open.is_empty().then(|| self.ended + self.settle_time)
    }

    /// Tells the servers that nothing more will be asked. They answer what they have, or hang up.
    pub(crate) fn say_goodbye(&self) {
        for stream in &self.open {
            // One that has ended needs no word.
            let _ = rustix::net::shutdown(&stream.socket, Shutdown::Write);
        }
    }

    /// Waits until there is something to read, or the time has come; takes answered changes out, and
    /// all of them once they are over.
    pub(crate) fn listen(&mut self, until: Instant, changes: &mut Vec<Change>) {
        if !self.wait(until) {
            return;
        }
        let mut bytes = vec![0; RECEIVE_BYTES];
        let before = self.open.len();
        let keeper = &self.keeper;
        self.open.retain_mut(|stream| {
            let goes_on = stream.read(&mut bytes, changes);
            if !goes_on && let Some(keeper) = keeper {
                keeper.release(&stream.name);
            }
            goes_on
        });
        if self.open.len() < before {
            self.ended = Instant::now();
        }
    }

    /// Takes out the changes that have had their time, and lets the connections go once no change is
    /// left. True if none is.
    pub(crate) fn settle(&mut self, changes: &mut Vec<Change>) -> bool {
        if self.settled_at().is_some_and(|at| at <= Instant::now()) {
            changes.clear();
        }
        if changes.is_empty() {
            for stream in self.open.drain(..) {
                if let Some(keeper) = &self.keeper {
                    keeper.release(&stream.name);
                }
            }
        }
        changes.is_empty()
    }

    /// Whether anything may be read.
    fn wait(&self, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        let sockets = self.open.iter();
        let mut polled: Vec<PollFd<'_>> = sockets
            .map(|stream| PollFd::new(&stream.socket, PollFlags::IN))
            .collect();
        matches!(poll(&mut polled, Some(&left)), Ok(ready) if ready > 0)
    }
}

impl Stream {
    /// Reads what there is. False at the end of the stream.
    fn read(&mut self, bytes: &mut [u8], changes: &mut Vec<Change>) -> bool {
        loop {
            match rustix::net::recv(&self.socket, &mut *bytes, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return false,
                Ok((_, count)) => self.look(&bytes[..count], changes),
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Looks for answers.
    fn look(&mut self, bytes: &[u8], changes: &mut Vec<Change>) {
        self.tail.extend_from_slice(bytes);
        for header in self.tail.windows(HEADER_BYTES) {
            if let Some(cookie) = answered(header) {
                changes.retain(|change| change.cookie != cookie);
            }
        }
        let known = self.tail.len().saturating_sub(HEADER_BYTES - 1);
        self.tail.drain(..known);
    }
}

/// The cookie of a reply's header, if the reply ends its request.
fn answered(header: &[u8]) -> Option<u64> {
    let magic = u32::from_be_bytes(*header.first_chunk()?);
    let cookie = u64::from_be_bytes(*header[8..].first_chunk()?);
    match magic {
        wire::SIMPLE_REPLY_MAGIC => Some(cookie),
        wire::STRUCTURED_REPLY_MAGIC => {
            let flags = u16::from_be_bytes(*header[4..].first_chunk()?);
            (flags & wire::chunk::FLAG_DONE != 0).then_some(cookie)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    fn change(cookie: u64) -> Change {
        Change {
            cookie,
            offset: 0,
            length: 1,
        }
    }

    fn simple(cookie: u64) -> Vec<u8> {
        let mut bytes = wire::SIMPLE_REPLY_MAGIC.to_be_bytes().to_vec();
        bytes.extend([0; 4]);
        bytes.extend(cookie.to_be_bytes());
        bytes
    }

    fn structured(cookie: u64, flags: u16) -> Vec<u8> {
        let mut bytes = wire::STRUCTURED_REPLY_MAGIC.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend([0; 2]);
        bytes.extend(cookie.to_be_bytes());
        bytes.extend([0; 4]);
        bytes
    }

    fn pair(settle_time: Duration) -> (UnixStream, Streams) {
        let (server, client) = UnixStream::pair().unwrap();
        let kept = vec![("a".to_owned(), client.into())];
        let keeper = Arc::new(crate::late::KeepsNone);
        (server, Streams::new(kept, settle_time, keeper))
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    #[test]
    fn answers_are_found_behind_half_a_reply_and_however_they_are_cut() {
        let mut bytes = vec![7; 3001];
        bytes.extend(simple(11));
        bytes.extend(structured(12, 0));
        bytes.extend([7; 100]);
        bytes.extend(structured(13, wire::chunk::FLAG_DONE));
        for cut in [1, 7, 16, 4096] {
            let (mut server, mut streams) = pair(Duration::ZERO);
            let mut changes = vec![change(11), change(12), change(13), change(14)];
            for part in bytes.chunks(cut) {
                server.write_all(part).unwrap();
                streams.listen(soon(), &mut changes);
            }
            assert_eq!(changes, [change(12), change(14)], "cut {cut}");
            assert!(!streams.settle(&mut changes));
        }
    }

    #[test]
    fn what_was_not_answered_is_over_some_time_after_the_stream() {
        let (server, mut streams) = pair(Duration::ZERO);
        let mut changes = vec![change(1)];
        assert!(!streams.settle(&mut changes));
        assert_eq!(streams.settled_at(), None);
        drop(server);
        streams.listen(soon(), &mut changes);
        assert!(streams.have_ended());
        assert!(streams.settle(&mut changes));

        let (server, mut streams) = pair(Duration::from_secs(1000));
        let mut changes = vec![change(1)];
        drop(server);
        streams.listen(soon(), &mut changes);
        assert!(streams.have_ended() && !streams.settle(&mut changes));
        assert!(streams.settled_at().unwrap() > soon());
    }
}
