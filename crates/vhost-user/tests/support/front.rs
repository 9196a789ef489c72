//! QEMU's part of a connection: messages out, replies in.

#![allow(dead_code, reason = "each user of this file uses what it needs")]

use super::driver::Queue;
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use vhost_protocol::{Region, Request, RingAddresses, RingDescriptor, encode};

/// QEMU's own addresses begin here, so that nothing is taken for the guest's.
pub(crate) const USER: u64 = 0x7f00_0000_0000;

/// A reply: payload and descriptor.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u32,
    pub(crate) payload: Vec<u8>,
    pub(crate) file: Option<OwnedFd>,
}

impl Reply {
    pub(crate) fn number(&self) -> u64 {
        u64::from_le_bytes(self.payload[..8].try_into().unwrap())
    }
}

pub(crate) struct Front {
    pub(crate) socket: UnixStream,
}

impl Front {
    pub(crate) fn say(&self, request: &Request, wants: bool, files: &[BorrowedFd<'_>]) {
        self.send(&encode(request, wants), files);
    }

    /// Says each of them, with its descriptor.
    pub(crate) fn say_all(&self, messages: &[(Request, Option<OwnedFd>)]) {
        for (request, file) in messages {
            let files: Vec<BorrowedFd<'_>> = file.iter().map(AsFd::as_fd).collect();
            self.say(request, false, &files);
        }
    }

    pub(crate) fn send(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(files)));
        }
        let flags = SendFlags::NOSIGNAL;
        // A device that has hung up is found out by what is looked at next.
        let _ = sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut ancillary, flags);
    }

    /// A reply, if one has come.
    pub(crate) fn reply(&self) -> Option<Reply> {
        let mut header = [0; 12];
        let (count, file) = self.receive(&mut header)?;
        if count == 0 {
            return None;
        }
        assert_eq!(count, 12);
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        assert_eq!(word(4) & 0b111, 0b101, "version 1, a reply");
        let mut payload = vec![0; word(8) as usize];
        if !payload.is_empty() {
            let (count, _) = self.receive(&mut payload).unwrap();
            assert_eq!(count, payload.len());
        }
        let code = word(0);
        Some(Reply {
            code,
            payload,
            file,
        })
    }

    fn receive(&self, into: &mut [u8]) -> Option<(usize, Option<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let got = recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(into)],
            &mut ancillary,
            flags,
        );
        let count = got.ok()?.bytes;
        let mut file = None;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut files) = message {
                file = files.next();
            }
        }
        Some((count, file))
    }
}

/// The messages that set a queue up and start it.
pub(crate) fn start_messages(
    queue: &Queue,
    ring: u32,
    base: u16,
    logged: bool,
) -> Vec<(Request, Option<OwnedFd>)> {
    let descriptor = RingDescriptor {
        ring: u8::try_from(ring).unwrap(),
        has_descriptor: true,
    };
    vec![
        (
            Request::SetRingSize {
                ring,
                size: u32::from(queue.size),
            },
            None,
        ),
        (
            Request::SetRingBase {
                ring,
                base: u32::from(base),
            },
            None,
        ),
        (
            Request::SetRingAddresses(addresses(queue, ring, logged)),
            None,
        ),
        (Request::SetRingKick(descriptor), Some(queue.kick_fd())),
        (Request::SetRingCall(descriptor), Some(queue.call_fd())),
        (
            Request::EnableRing {
                ring,
                enabled: true,
            },
            None,
        ),
    ]
}

pub(crate) fn addresses(queue: &Queue, ring: u32, is_logged: bool) -> RingAddresses {
    RingAddresses {
        ring,
        is_logged,
        descriptors: USER + queue.descriptors,
        used: USER + queue.used,
        available: USER + queue.available,
        log: queue.used,
    }
}

/// The one region that a guest's memory is, unless a test says otherwise.
pub(crate) fn whole(bytes: usize) -> Region {
    Region {
        guest: 0,
        size: bytes as u64,
        user: USER,
        offset: 0,
    }
}

pub(crate) fn borrow(files: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    files.iter().map(AsFd::as_fd).collect()
}
