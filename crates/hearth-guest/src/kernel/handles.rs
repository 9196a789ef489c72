//! Files by their handles. Needs `CAP_DAC_READ_SEARCH`.

#![allow(unsafe_code, reason = "a system call without a safe wrapper")]

use guest_files::{HANDLE_BYTES_MAX, Handle};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::fs::File;
use std::io;

/// What the call wants: `struct file_handle`, with room for the longest.
#[repr(C)]
struct Named {
    bytes: libc::c_uint,
    kind: libc::c_int,
    handle: [u8; HANDLE_BYTES_MAX],
}

/// Opens a file to be read. `file_system` is any open file or folder of it.
///
/// # Errors
/// `ESTALE` if the file is there no more.
pub(crate) fn open(file_system: BorrowedFd<'_>, handle: &Handle) -> io::Result<File> {
    let bytes = handle.bytes();
    let mut named = Named {
        bytes: u32::try_from(bytes.len()).map_err(io::Error::other)?,
        kind: handle.kind(),
        handle: [0; HANDLE_BYTES_MAX],
    };
    named.handle[..bytes.len()].copy_from_slice(bytes);
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    let mount = file_system.as_fd().as_raw_fd();
    let pointer = (&raw mut named).cast::<libc::file_handle>();
    // SAFETY: `named` is laid out as a `file_handle` whose bytes follow it, as many as it says, and lives until
    // the call has returned.
    let file = unsafe { libc::open_by_handle_at(mount, pointer, flags) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor to us, and to nobody else here.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    Ok(file.into())
}
