//! `SIGTERM` and `SIGINT` as events of a descriptor.

#![allow(unsafe_code, reason = "signals as events have no safe wrapper")]

use rustix::fd::{FromRawFd, OwnedFd};
use std::io;
use std::mem::MaybeUninit;

/// Takes both signals from now on: they end the process no more, but make the descriptor readable.
pub(crate) fn ends() -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the call fills the set, whatever was in it.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: it was filled by the call above.
    let mut set = unsafe { set.assume_init() };
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: a set that was made, and a signal that exists.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    // SAFETY: the set lives until the call has returned; the old one is not asked for.
    let done = unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: -1 asks for a new descriptor; the set lives until the call has returned.
    let ends =
        unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if ends < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor to us, and to nobody else here.
    Ok(unsafe { OwnedFd::from_raw_fd(ends) })
}
