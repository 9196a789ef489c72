//! An image that is open: its size, who else has it, its exclusive lock.

#![allow(
    unsafe_code,
    reason = "the library's functions are called with handles that it gave"
)]

use crate::address::Address;
use crate::cluster::Pool;
use crate::error::{Error, checked};
use crate::library::RawWatcher;
use crate::open::Open;
use crate::running::Running;
use libc::{c_char, c_int};
use rustix::event::{EventfdFlags, eventfd};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr;

/// `RBD_FEATURE_EXCLUSIVE_LOCK`.
const EXCLUSIVE_LOCK: u64 = 1 << 2;
/// `RBD_LOCK_MODE_EXCLUSIVE`.
const MODE_EXCLUSIVE: c_int = 0;
/// `EVENT_TYPE_EVENTFD`.
const EVENTFD: c_int = 2;
/// Watchers that are looked at. An image has one for each client that writes it, and some more.
const WATCHERS_MAX: usize = 64;

fn no_descriptor(source: io::Error) -> Error {
    Error::Failed {
        what: "an eventfd",
        source,
    }
}

/// A client that has an image open for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watcher {
    /// The number that the cluster gave the client's connection.
    pub client: u64,
    /// Its address: where it is, and its instance.
    pub address: String,
}

/// An image that is open. It closes when this is dropped, which blocks for as long as the cluster takes.
#[derive(Debug)]
pub struct Image {
    open: Open,
    /// A descriptor of the bell for who waits for it.
    listening: OwnedFd,
}

impl Image {
    /// Opens an image. Blocks for as long as the cluster takes.
    ///
    /// # Errors
    /// If the library cannot be loaded, the cluster be reached or the image be opened.
    pub fn open(address: &Address<'_>, read_only: bool) -> Result<Self, Error> {
        let name = CString::new(address.image)?;
        let snapshot = address.snapshot.map(CString::new).transpose()?;
        let pool = Pool::open(address)?;
        let functions = pool.functions;
        let open = if read_only {
            functions.rbd_open_read_only
        } else {
            functions.rbd_open
        };
        let snapshot = snapshot
            .as_ref()
            .map_or(ptr::null(), |snapshot| snapshot.as_ptr());
        let bell =
            eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| no_descriptor(errno.into()))?;
        let listening = bell.try_clone().map_err(no_descriptor)?;
        let mut handle = ptr::null_mut();
        // SAFETY: each text ends with a zero byte and outlives the call, and the pool is open.
        let opened = unsafe { open(pool.handle, name.as_ptr(), &raw mut handle, snapshot) };
        checked("the image", opened)?;
        let open = Open {
            functions,
            handle,
            bell,
            pool,
        };
        // SAFETY: the image is open, and the descriptor stays until it is closed.
        let told = unsafe {
            (functions.rbd_set_image_notification)(handle, open.bell.as_raw_fd(), EVENTFD)
        };
        checked("its notification", told)?;
        Ok(Self { open, listening })
    }

    /// The number that the cluster gave this client's connection: as a [`Watcher`] it has that number.
    pub fn client(&self) -> u64 {
        self.open.pool.client()
    }

    /// Its size in bytes, as the cluster has it now. May block.
    ///
    /// # Errors
    /// What the library says.
    pub fn size(&self) -> Result<u64, Error> {
        self.open.size()
    }

    /// Whether the image can be locked for one writer.
    ///
    /// # Errors
    /// What the library says.
    pub fn can_be_locked(&self) -> Result<bool, Error> {
        let mut features = 0;
        // SAFETY: the image is open.
        checked("its features", unsafe {
            (self.open.functions.rbd_get_features)(self.open.handle, &raw mut features)
        })?;
        Ok(features & EXCLUSIVE_LOCK != 0)
    }

    /// The address of the client that has the exclusive lock, if any has.
    ///
    /// # Errors
    /// What the library says.
    pub fn lock_owner(&self) -> Result<Option<String>, Error> {
        let (mut mode, mut owner, mut count) = (0, ptr::null_mut::<c_char>(), 1);
        // SAFETY: there is room for one owner, and an exclusive lock has one.
        let answer = unsafe {
            (self.open.functions.rbd_lock_get_owners)(
                self.open.handle,
                &raw mut mode,
                &raw mut owner,
                &raw mut count,
            )
        };
        if answer == -libc::ENOENT || (answer >= 0 && count == 0) {
            return Ok(None);
        }
        checked("the owner of its lock", answer)?;
        // SAFETY: the library has written one text, which ends with a zero byte.
        let text = unsafe { CStr::from_ptr(owner) };
        let text = text.to_string_lossy().into_owned();
        // SAFETY: the library takes back what it has written.
        unsafe { (self.open.functions.rbd_lock_get_owners_cleanup)(&raw mut owner, count) };
        Ok(Some(text))
    }

    /// Who has the image open for writing, this client among them.
    ///
    /// # Errors
    /// What the library says.
    pub fn watchers(&self) -> Result<Vec<Watcher>, Error> {
        let mut raw = [const {
            RawWatcher {
                address: ptr::null_mut(),
                id: 0,
                cookie: 0,
            }
        }; WATCHERS_MAX];
        let mut count = raw.len();
        // SAFETY: there is room for as many as is said.
        checked("who has it open", unsafe {
            (self.open.functions.rbd_watchers_list)(
                self.open.handle,
                raw.as_mut_ptr(),
                &raw mut count,
            )
        })?;
        let found = raw[..count].iter().map(|watcher| Watcher {
            client: watcher.id.cast_unsigned(),
            // SAFETY: the library has written a text that ends with a zero byte.
            address: unsafe { CStr::from_ptr(watcher.address) }
                .to_string_lossy()
                .into_owned(),
        });
        let found = found.collect();
        // SAFETY: the library takes back what it has written.
        unsafe { (self.open.functions.rbd_watchers_list_cleanup)(raw.as_mut_ptr(), count) };
        Ok(found)
    }

    /// Takes the exclusive lock and keeps it until the image is closed: nobody who asks for it gets it. That of a client
    /// which does not live any more is broken.
    ///
    /// # Errors
    /// What the library says; `EROFS` or `EBUSY` if another client keeps it.
    pub fn lock(&self) -> Result<(), Error> {
        // SAFETY: the image is open.
        let answer =
            unsafe { (self.open.functions.rbd_lock_acquire)(self.open.handle, MODE_EXCLUSIVE) };
        checked("its lock", answer).map(drop)
    }

    /// Takes the lock away from the client of this address, and has the cluster refuse whatever that client sends from now
    /// on: none of its writes can land any more when this returns.
    ///
    /// # Errors
    /// What the library says.
    pub fn break_lock(&self, owner: &str) -> Result<(), Error> {
        let owner = CString::new(owner)?;
        // SAFETY: the image is open, and the text ends with a zero byte.
        let answer = unsafe {
            (self.open.functions.rbd_lock_break)(self.open.handle, MODE_EXCLUSIVE, owner.as_ptr())
        };
        if answer == -libc::ENOENT {
            return Ok(());
        }
        checked("the lock of a client that is gone", answer).map(drop)
    }

    /// Has it serve operations, from this thread on.
    pub fn start(self) -> Running {
        Running::new(self.open, self.listening)
    }
}
