//! The library's hold on an image.

#![allow(
    unsafe_code,
    reason = "the library's functions are called with handles that it gave"
)]

use crate::cluster::Pool;
use crate::error::{Error, checked};
use crate::library::{Functions, Handle};
use std::os::fd::OwnedFd;

/// The library's hold on an image, which is closed with this.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) functions: &'static Functions,
    pub(crate) handle: Handle,
    /// What the library rings by its number until the image is closed.
    pub(crate) bell: OwnedFd,
    pub(crate) pool: Pool,
}

// SAFETY: the library's handles may be used from any thread.
unsafe impl Send for Open {}

impl Open {
    /// See [`crate::Image::size`].
    pub(crate) fn size(&self) -> Result<u64, Error> {
        let mut size = 0;
        // SAFETY: the image is open.
        let answer = unsafe { (self.functions.rbd_get_size)(self.handle, &raw mut size) };
        checked("its size", answer)?;
        Ok(size)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: the image is not used afterwards. Its pool is closed after it.
        unsafe { (self.functions.rbd_close)(self.handle) };
    }
}
