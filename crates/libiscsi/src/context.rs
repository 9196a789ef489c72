//! The library's hold on a session, and the shape of its commands.

#![allow(
    unsafe_code,
    reason = "the library's functions are called with handles that it gave"
)]

use crate::library::{Functions, Handle, Task};
use crate::sense::{Outcome, Sense};
use libc::c_int;
use std::ffi::CStr;

/// The library's hold on a session. It ends with this, without a word to the target.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) functions: &'static Functions,
    pub(crate) handle: Handle,
    pub(crate) unit: c_int,
}

// SAFETY: the library has no state of threads; one at a time uses it.
unsafe impl Send for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it is not used afterwards. What is under way ends before this returns.
        unsafe { (self.functions.iscsi_destroy_context)(self.handle) };
    }
}

/// Which way the bytes of a command go.
pub(crate) enum Direction {
    None,
    In,
    Out,
}

impl Direction {
    pub(crate) const fn number(&self) -> c_int {
        match self {
            Self::None => 0,
            Self::In => 1,
            Self::Out => 2,
        }
    }
}

impl Context {
    /// The library's last words.
    pub(crate) fn words(&self) -> String {
        // SAFETY: the context is there.
        let words = unsafe { (self.functions.iscsi_get_error)(self.handle) };
        if words.is_null() {
            return "no reason is given".to_owned();
        }
        // SAFETY: the library's text ends with a zero byte.
        unsafe { CStr::from_ptr(words) }
            .to_string_lossy()
            .trim()
            .to_owned()
    }
}

impl Task {
    pub(crate) fn outcome(&self, status: c_int) -> Outcome {
        Outcome::of(
            status,
            Sense {
                key: u8::try_from(self.sense_key).unwrap_or(0),
                code: u16::try_from(self.sense_code).unwrap_or(0),
            },
        )
    }
}

/// Bytes of a command by its first (SPC-4, the group code).
pub(crate) const fn size_of(operation: u8) -> c_int {
    match operation >> 5 {
        0 => 6,
        1 | 2 => 10,
        5 => 12,
        _ => 16,
    }
}
