//! QEMU's socket: messages with their descriptors, read and written without waiting.
//!
//! A message is read in two steps and never beyond its end, so that the descriptors which come with
//! its first byte are surely its own. Every descriptor is owned from the moment that it is received.

use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use vhost_protocol::limits::DESCRIPTORS_MAX;
use vhost_protocol::{Header, MessageError};

/// A message as it came.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) header: Header,
    pub(crate) payload: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// What a look at the socket brought.
#[derive(Debug)]
pub(crate) enum Received {
    Message(Message),
    /// Nothing yet, or not all of one.
    Nothing,
    /// The other side closed it.
    End,
}

/// Why a socket is of no more use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error("the socket failed")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Message(#[from] MessageError),
    #[error("a message came with more than {DESCRIPTORS_MAX} descriptors")]
    Descriptors,
    #[error("the other side does not read what we send")]
    Unread,
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: Rc<OwnedFd>,
    header: [u8; Header::BYTES],
    filled: usize,
    body: Option<Message>,
}

impl Socket {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self {
            fd: Rc::new(fd),
            header: [0; Header::BYTES],
            filled: 0,
            body: None,
        }
    }

    pub(crate) fn fd(&self) -> &Rc<OwnedFd> {
        &self.fd
    }

    /// The next message, if all of it is there.
    pub(crate) fn read_message(&mut self) -> Result<Received, SocketError> {
        let mut descriptors = Vec::new();
        loop {
            if let Some(body) = &mut self.body {
                if self.filled == body.payload.len() {
                    self.filled = 0;
                    let message = self.body.take().expect("it is there");
                    return Ok(Received::Message(message));
                }
                let into = &mut body.payload[self.filled..];
                match receive(&self.fd, into, &mut body.descriptors)? {
                    Some(0) => return Ok(Received::End),
                    Some(count) => self.filled += count,
                    None => return Ok(Received::Nothing),
                }
                continue;
            }
            let into = &mut self.header[self.filled..];
            match receive(&self.fd, into, &mut descriptors)? {
                Some(0) => return Ok(Received::End),
                Some(count) => self.filled += count,
                None if descriptors.is_empty() => return Ok(Received::Nothing),
                // Descriptors came with part of a header, and would be lost: nobody sends so.
                None => return Err(SocketError::Descriptors),
            }
            if self.filled == Header::BYTES {
                let header = Header::decode(&self.header)?;
                self.filled = 0;
                self.body = Some(Message {
                    header,
                    payload: vec![0; header.length as usize],
                    descriptors: std::mem::take(&mut descriptors),
                });
            }
        }
    }

    /// Sends a message. Ours are short: a socket that has no room for one is not read.
    pub(crate) fn send(
        &self,
        bytes: &[u8],
        beside: Option<BorrowedFd<'_>>,
    ) -> Result<(), SocketError> {
        send(&self.fd, bytes, beside)
    }
}

/// Sends a message on a socket, with a descriptor or without.
pub(crate) fn send(
    to: impl AsFd,
    bytes: &[u8],
    beside: Option<BorrowedFd<'_>>,
) -> Result<(), SocketError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = beside.map(|fd| [fd]);
    if let Some(descriptors) = &descriptors {
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        assert!(fits, "there is room for one descriptor");
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    match sendmsg(to, &[IoSlice::new(bytes)], &mut ancillary, flags) {
        Ok(count) if count == bytes.len() => Ok(()),
        Ok(_) | Err(Errno::AGAIN) => Err(SocketError::Unread),
        Err(error) => Err(SocketError::Io(error.into())),
    }
}

/// Receives what is there: `None` for nothing yet, zero for the end.
fn receive(
    from: &OwnedFd,
    into: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> Result<Option<usize>, SocketError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match recvmsg(from, &mut [IoSliceMut::new(into)], &mut ancillary, flags) {
            Ok(received) => break received,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(SocketError::Io(error.into())),
        }
    };
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(came) = message {
            descriptors.extend(came);
        }
    }
    let is_cut = received.flags.contains(ReturnFlags::CTRUNC);
    if is_cut || descriptors.len() > DESCRIPTORS_MAX {
        return Err(SocketError::Descriptors);
    }
    Ok(Some(received.bytes))
}
