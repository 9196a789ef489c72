//! Uses of files, as fanotify tells them: by handle (`FAN_REPORT_FID`), so that nothing is held open.
//!
//! ```text
//!   event:  length 4 │ version 1 │ 0 1 │ metadata's length 2 │ mask 8 │ descriptor 4 │ process 4 │ information
//!   information:  type 1 │ 0 1 │ length 2 │ file system 8 │ handle's bytes 4 │ handle's kind 4 │ handle
//! ```

#![allow(unsafe_code, reason = "fanotify has no safe wrapper")]

use guest_files::{Handle, Use};
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use zerocopy::{FromBytes, Immutable, KnownLayout};

const FAN_REPORT_FID: libc::c_uint = 0x200;
const FAN_MARK_FILESYSTEM: libc::c_uint = 0x100;
const FID: u8 = 1;
/// Bytes of events that are read at once.
const BUFFER_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Event {
    length: u32,
    version: u8,
    zero: u8,
    metadata_length: u16,
    mask: u64,
    descriptor: i32,
    process: i32,
}

#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Information {
    kind: u8,
    zero: u8,
    length: u16,
    file_system: [u32; 2],
    handle_bytes: u32,
    handle_kind: i32,
}

/// What one look at the events gave.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    /// Files and what was done with them, in order.
    pub(crate) files: Vec<(Handle, Use)>,
    /// Whether the kernel had to forget some.
    pub(crate) is_incomplete: bool,
}

/// A group of marks, and the events that it gathers.
pub(crate) struct Watch {
    group: OwnedFd,
    buffer: Vec<u8>,
}

impl Watch {
    /// Nothing is watched yet.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_CLASS_NOTIF | FAN_REPORT_FID;
        let event_flags = libc::O_RDONLY | libc::O_CLOEXEC;
        // SAFETY: two numbers go in, and no memory of ours.
        let group = unsafe { libc::fanotify_init(flags, event_flags.cast_unsigned()) };
        if group < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given this descriptor to us, and to nobody else here.
        let group = unsafe { OwnedFd::from_raw_fd(group) };
        Ok(Self {
            group,
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    /// Watches the whole file system that is mounted at a path.
    pub(crate) fn add(&self, mount: &Path) -> io::Result<()> {
        let path = CString::new(mount.as_os_str().as_bytes())?;
        let flags = libc::FAN_MARK_ADD | FAN_MARK_FILESYSTEM;
        let mask = libc::FAN_OPEN | libc::FAN_CLOSE_WRITE;
        let group = self.group.as_fd().as_raw_fd();
        // SAFETY: the path is a C string that lives until the call has returned.
        let done =
            unsafe { libc::fanotify_mark(group, flags, mask, libc::AT_FDCWD, path.as_ptr()) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// The uses since the last look, those of this process left out; of a flood no more than one buffer's.
    pub(crate) fn take(&mut self) -> io::Result<Uses> {
        match rustix::io::read(&self.group, &mut self.buffer[..]) {
            Ok(bytes) => Ok(parse(&self.buffer[..bytes], std::process::id())),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(Uses::default()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The uses in a buffer of events.
fn parse(mut events: &[u8], own_process: u32) -> Uses {
    let mut uses = Uses::default();
    while let Ok((event, _)) = Event::read_from_prefix(events) {
        let length = event.length as usize;
        if length < size_of::<Event>() {
            break;
        }
        let Some((whole, rest)) = events.split_at_checked(length) else {
            break;
        };
        events = rest;
        uses.is_incomplete |= event.mask & libc::FAN_Q_OVERFLOW != 0;
        if event.process.cast_unsigned() == own_process {
            continue;
        }
        let information = whole.get(usize::from(event.metadata_length)..);
        let what = if event.mask & libc::FAN_CLOSE_WRITE != 0 {
            Use::Write
        } else {
            Use::Read
        };
        let handle = information.and_then(handle);
        uses.files.extend(handle.map(|handle| (handle, what)));
    }
    uses
}

fn handle(information: &[u8]) -> Option<Handle> {
    let (head, bytes) = Information::read_from_prefix(information).ok()?;
    if head.kind != FID {
        return None;
    }
    let bytes = bytes.get(..head.handle_bytes as usize)?;
    let [low, high] = head.file_system.map(u64::from);
    Handle::new(high << 32 | low, head.handle_kind, bytes).ok()
}

#[cfg(test)]
#[allow(
    clippy::host_endian_bytes,
    reason = "the kernel of this machine writes events in its own order"
)]
mod tests {
    use super::*;

    fn event(mask: u64, process: i32, handle: &[u8]) -> Vec<u8> {
        let padded = handle.len().next_multiple_of(4);
        let length = u32::try_from(24 + 20 + padded).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend([3, 0]);
        bytes.extend(24_u16.to_ne_bytes());
        bytes.extend(mask.to_ne_bytes());
        bytes.extend((-1_i32).to_ne_bytes());
        bytes.extend(process.to_ne_bytes());
        bytes.extend([1, 0]);
        bytes.extend(u16::try_from(20 + padded).unwrap().to_ne_bytes());
        bytes.extend(5_u32.to_ne_bytes());
        bytes.extend(6_u32.to_ne_bytes());
        bytes.extend(u32::try_from(handle.len()).unwrap().to_ne_bytes());
        bytes.extend(1_i32.to_ne_bytes());
        bytes.extend(handle);
        bytes.resize(length as usize, 0);
        bytes
    }

    fn named(bytes: &[u8]) -> Handle {
        Handle::new(6 << 32 | 5, 1, bytes).unwrap()
    }

    #[test]
    fn uses_of_others_are_told_by_handle() {
        let own = event(libc::FAN_OPEN, 77, b"own");
        let open = event(libc::FAN_OPEN, 8, b"opened");
        let close = event(libc::FAN_OPEN | libc::FAN_CLOSE_WRITE, 9, b"written1");
        let uses = parse(&[own, open, close].concat(), 77);
        let expected = [
            (named(b"opened"), Use::Read),
            (named(b"written1"), Use::Write),
        ];
        assert_eq!(uses.files, expected);
        assert!(!uses.is_incomplete);
    }

    #[test]
    fn an_overflow_is_told() {
        let mut event = event(libc::FAN_Q_OVERFLOW, 0, b"");
        event.truncate(24);
        event[..4].copy_from_slice(&24_u32.to_ne_bytes());
        let uses = parse(&event, 77);
        assert!(uses.is_incomplete && uses.files.is_empty());
    }

    #[test]
    fn bytes_that_are_cut_or_lie_end_the_look() {
        let whole = event(libc::FAN_OPEN, 8, b"opened");
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length], 77), Uses::default());
        }
        let mut lying = whole.clone();
        lying[..4].copy_from_slice(&3_u32.to_ne_bytes());
        assert_eq!(parse(&lying, 77), Uses::default());
        lying = whole;
        lying[36..40].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(parse(&lying, 77), Uses::default());
    }
}
