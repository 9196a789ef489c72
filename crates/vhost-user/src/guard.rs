//! Surviving a guest's memory that goes away.
//!
//! QEMU gives us files to map, and can cut them afterwards; touching what was cut raises SIGBUS,
//! which would end the process with every other guest's disk. So every mapping is listed here, and
//! the handler of the signal puts private zero pages in the place of one that lost its file. Whoever
//! was reading goes on with zeroes, and the mapping says that it [is lost](Watch::is_lost): its
//! connection ends at its next look.
//!
//! ```text
//!   touch ─► SIGBUS ─► handler: whose address? ─ ours ─► map zero pages over it, mark it, return
//!                                              └ none's ─► what was there before us, again
//! ```
//!
//! Refused alternatives: seals (`F_SEAL_SHRINK`) are set by QEMU on memory of its own making only,
//! and by nobody on files in `/dev/shm` or of huge pages; `pread` on the file instead of touching
//! costs a system call for each field of a ring. What the kernel itself writes for us, through the
//! ring, needs no handler: it fails with `EFAULT`.
//!
//! Invariants: an entry is listed only while its mapping exists; the handler uses nothing but atomic
//! loads and stores and `mmap`, which is a plain system call.

#![allow(
    unsafe_code,
    reason = "a signal handler, and the system calls that set it"
)]

use crate::limits::MAPPINGS_MAX;
use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// One listed mapping. `start` is 0 for a free entry and 1 for one that is being filled.
struct Entry {
    start: AtomicUsize,
    length: AtomicUsize,
    is_lost: AtomicBool,
}

const FREE: usize = 0;
const TAKEN: usize = 1;

static ENTRIES: [Entry; MAPPINGS_MAX] = [const {
    Entry {
        start: AtomicUsize::new(FREE),
        length: AtomicUsize::new(0),
        is_lost: AtomicBool::new(false),
    }
}; MAPPINGS_MAX];

/// One past the highest entry that was ever used: how far the handler looks.
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// Mappings lost since the process began.
static LOST: AtomicU64 = AtomicU64::new(0);

static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A mapping's place in the list. Drop it before the mapping goes.
#[derive(Debug)]
pub(crate) struct Watch {
    index: usize,
}

/// How many mappings were lost so far: if it is what it was, none was lost since.
pub(crate) fn losses() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Lists a mapping.
///
/// # Errors
/// If too many are listed, or the handler cannot be set.
pub(crate) fn watch(start: usize, length: usize) -> io::Result<Watch> {
    install()?;
    for (index, entry) in ENTRIES.iter().enumerate() {
        let claimed =
            entry
                .start
                .compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed);
        if claimed.is_ok() {
            entry.is_lost.store(false, Ordering::Relaxed);
            entry.length.store(length, Ordering::Relaxed);
            HIGHEST.fetch_max(index + 1, Ordering::AcqRel);
            entry.start.store(start, Ordering::Release);
            return Ok(Watch { index });
        }
    }
    Err(io::Error::other(
        "as many mappings of guest memory as this process can watch",
    ))
}

impl Watch {
    /// Whether the mapping lost its file: what is read from it now means nothing.
    pub(crate) fn is_lost(&self) -> bool {
        ENTRIES[self.index].is_lost.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        ENTRIES[self.index].start.store(FREE, Ordering::Release);
    }
}

fn install() -> io::Result<()> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    // SAFETY: all zeroes is a value of this struct of integers and a pointer.
    let mut before: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: the pointer is to a struct of ours; nothing is changed.
    if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if BEFORE.set(before).is_err() {
        // Another thread was faster, and installs it.
        return Ok(());
    }
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_bus_error;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler is a function of the type that `SA_SIGINFO` says, and does only what a
    // handler may.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

extern "C" fn on_bus_error(
    _signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel gives a handler of this kind a valid pointer.
    let info = unsafe { &*info };
    // SAFETY: a bus error comes with an address; another sender's signal with a word that is none
    // of ours.
    let address = unsafe { info.si_addr() }.addr();
    let is_fault = info.si_code > 0;
    if is_fault && replace(address) {
        return;
    }
    if let Some(before) = BEFORE.get() {
        // SAFETY: what was there before us is put back; returning raises the fault anew for it.
        unsafe { libc::sigaction(libc::SIGBUS, before, ptr::null_mut()) };
    }
    if !is_fault {
        // SAFETY: raising a signal has no preconditions.
        unsafe { libc::raise(libc::SIGBUS) };
    }
}

/// Puts zero pages over the mapping with this address. False: none of ours.
fn replace(address: usize) -> bool {
    let highest = HIGHEST.load(Ordering::Acquire);
    for entry in ENTRIES.iter().take(highest) {
        let start = entry.start.load(Ordering::Acquire);
        let length = entry.length.load(Ordering::Relaxed);
        if start <= TAKEN || address < start || address - start >= length {
            continue;
        }
        // SAFETY: errno is this thread's own; a handler must leave it as it was.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: the pointer is valid for as long as the thread.
        let saved = unsafe { *errno };
        // SAFETY: the range is one mapping of ours, which exists as long as it is listed; nobody
        // holds references into it, so that other bytes may take the place of those in it.
        let mapped = unsafe {
            libc::mmap(
                ptr::without_provenance_mut(start),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        // SAFETY: as above.
        unsafe { *errno = saved };
        if mapped == libc::MAP_FAILED {
            return false;
        }
        entry.is_lost.store(true, Ordering::Relaxed);
        LOST.fetch_add(1, Ordering::Relaxed);
        return true;
    }
    false
}
