//! How a client ends: with a goodbye, after which its requests are carried out whether or not it waits for them; by closing
//! its own direction, and waiting for its answers; or by hanging up.
//!
//! A socket tells of a hang-up at once, also when it is not read. Then what was sent before it may still be
//! unread, and end with a goodbye.

use nbd_protocol::{RequestHeader, wire};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};
use std::os::fd::OwnedFd;

/// More bytes than a socket keeps unread, unless its client asks for more room: of such a client's end nothing is known.
const UNREAD_BYTES_MAX: u64 = 1 << 20;

/// What a client has said of its end so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Parting {
    /// Nothing.
    #[default]
    Stays,
    /// It sends nothing more, and may wait for its answers.
    Ended,
    /// It goes, and what it has asked for is to be carried out.
    Goodbye,
}

/// A client has hung up.
#[derive(Debug, thiserror::Error)]
#[error("it hung up while its requests were carried out")]
pub(crate) struct HungUp;

/// Whether nobody receives at the other end of a socket any more, for which a poll for that has ended. A client that has closed its
/// own direction ends it, too; and one that has done so over TCP looks like that whether or not it still receives.
pub(crate) fn is_hung_up(socket: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(socket, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let gone = PollFlags::HUP | PollFlags::ERR;
    matches!(poll(&mut watched, Some(&now)), Ok(1) if watched[0].revents().intersects(gone))
}

/// Whether what a client has sent ends with a goodbye, as far as that can be known: `taken` was received, the rest is unread in
/// its socket, to which nothing is added any more.
pub(crate) fn ends_with_goodbye(taken: &[u8], socket: &OwnedFd) -> bool {
    let unread = match rustix::io::ioctl_fionread(socket) {
        Ok(unread) if unread <= UNREAD_BYTES_MAX => usize::try_from(unread).expect("a MiB"),
        Ok(_) => return true,
        // Nothing can be received from it.
        Err(_) => 0,
    };
    let mut all = taken[taken.len().saturating_sub(RequestHeader::BYTES)..].to_vec();
    let before = all.len();
    all.resize(before + unread, 0);
    let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match recv(socket, &mut all[before..], peek) {
        Ok((received, _)) if received < unread => true,
        Ok(_) => is_goodbye(&all),
        Err(_) => is_goodbye(&all[..before]),
    }
}

fn is_goodbye(bytes: &[u8]) -> bool {
    let header = bytes.last_chunk().map(RequestHeader::decode);
    header.is_some_and(|header| header.is_ok_and(|header| header.kind == wire::command::DISC))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nbd_protocol::{CommandFlags, Cookie};
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    fn header(kind: u16) -> Vec<u8> {
        let header = RequestHeader {
            flags: CommandFlags::NONE,
            kind,
            cookie: Cookie(1),
            offset: 0,
            length: 0,
        };
        header.encode().to_vec()
    }

    #[test]
    fn a_goodbye_is_found_in_what_was_not_read() {
        let [flush, goodbye] = [wire::command::FLUSH, wire::command::DISC].map(header);
        let all = [flush.clone(), goodbye.clone()].concat();
        for (sent, is_goodbye) in [(&all, true), (&flush, false), (&Vec::new(), false)] {
            for taken in [0, sent.len().min(7), sent.len()] {
                let (socket, mut client) = UnixStream::pair().unwrap();
                client.write_all(&sent[taken..]).unwrap();
                drop(client);
                let socket = OwnedFd::from(socket);
                let found = ends_with_goodbye(&sent[..taken], &socket);
                assert_eq!(found, is_goodbye, "{taken} of {}", sent.len());
            }
        }
    }

    #[test]
    fn a_client_that_still_receives_has_not_hung_up() {
        let (socket, client) = UnixStream::pair().unwrap();
        let socket = OwnedFd::from(socket);
        assert!(!is_hung_up(&socket));
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(!is_hung_up(&socket));
        drop(client);
        assert!(is_hung_up(&socket));
    }

    #[test]
    fn what_was_not_read_stays_so() {
        let (socket, mut client) = UnixStream::pair().unwrap();
        client.write_all(&header(wire::command::DISC)).unwrap();
        drop(client);
        let socket = OwnedFd::from(socket);
        assert!(ends_with_goodbye(&[], &socket));
        assert!(ends_with_goodbye(&[], &socket));
    }
}
