//! Operations of an open image.

#![allow(
    unsafe_code,
    reason = "the library reads and fills memory that the operations in flight own"
)]

use crate::error::Error;
use crate::library::Handle;
use crate::open::Open;
use block_io::{Buf, Slice};
use libc::{c_int, c_void};
use slab::Slab;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::ptr;
use std::rc::Rc;

/// `RBD_WRITE_ZEROES_FLAG_THICK_PROVISION`.
const THICK: c_int = 1;
/// Ended operations that are taken from the library at a time.
const TAKEN_AT_ONCE: c_int = 64;

/// Whether the place of zeroes may be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeroes {
    /// It may.
    MayUnmap,
    /// It stays allocated.
    Allocate,
}

/// An operation that has ended.
#[derive(Debug)]
pub struct Ended {
    /// What it was called.
    pub tag: u64,
    /// The library's answer. A read that brought less than was asked for is an error.
    pub result: io::Result<()>,
    /// The buffer of a read.
    pub buf: Option<Buf>,
}

/// What an operation in flight keeps alive.
enum Cargo {
    Read { buf: Buf, length: usize },
    Write { _data: Slice },
    Nothing,
}

struct Flight {
    tag: u64,
    cargo: Cargo,
}

/// An image that serves operations for the thread that has it. Dropping it closes the image on a thread of its own, and
/// gives up for good the memory of what is in flight, because the library may still fill it.
pub struct Running {
    image: Option<Open>,
    listening: Rc<OwnedFd>,
    flights: ManuallyDrop<Slab<Flight>>,
    /// Dropped when the image is closed.
    until_closed: Option<Box<dyn Send>>,
}

impl Running {
    pub(crate) fn new(image: Open, listening: OwnedFd) -> Self {
        Self {
            listening: Rc::new(listening),
            image: Some(image),
            flights: ManuallyDrop::new(Slab::new()),
            until_closed: None,
        }
    }

    /// An eventfd that is added to whenever operations have ended. Blocking to read.
    pub fn bell(&self) -> Rc<OwnedFd> {
        Rc::clone(&self.listening)
    }

    /// Operations in flight.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Keeps something until the image is closed, some time after this is dropped.
    pub fn keep_until_closed(&mut self, kept: impl Send + 'static) {
        self.until_closed = Some(Box::new(kept));
    }

    /// Its size in bytes, as the cluster has it now. May block.
    ///
    /// # Errors
    /// What the library says.
    pub fn size(&self) -> Result<u64, Error> {
        self.image().size()
    }

    fn image(&self) -> &Open {
        self.image.as_ref().expect("an image until it is dropped")
    }

    /// Reads the first `length` bytes of `buf` from `offset`.
    ///
    /// # Errors
    /// The buffer comes back if the operation cannot be begun.
    pub fn read(
        &mut self,
        tag: u64,
        offset: u64,
        length: usize,
        mut buf: Buf,
    ) -> Result<(), (io::Error, Buf)> {
        let target = buf[..length].as_mut_ptr().cast();
        let cargo = Cargo::Read { buf, length };
        // SAFETY: the buffer stays where it is, with the flight, until the library has ended the operation.
        let begun = self.begin(tag, cargo, |image, completion| unsafe {
            (image.functions.rbd_aio_read)(image.handle, offset, length, target, completion)
        });
        begun.map_err(|(error, cargo)| match cargo {
            Cargo::Read { buf, .. } => (error, buf),
            Cargo::Write { .. } | Cargo::Nothing => unreachable!("the cargo of a read"),
        })
    }

    /// Writes at `offset`.
    ///
    /// # Errors
    /// If the operation cannot be begun.
    pub fn write(&mut self, tag: u64, offset: u64, data: Slice) -> io::Result<()> {
        let (source, length) = (data.as_ptr().cast(), data.len());
        let cargo = Cargo::Write { _data: data };
        // SAFETY: as for a read.
        let begun = self.begin(tag, cargo, |image, completion| unsafe {
            (image.functions.rbd_aio_write)(image.handle, offset, length, source, completion)
        });
        begun.map_err(|(error, _)| error)
    }

    /// Makes what was written before durable.
    ///
    /// # Errors
    /// If the operation cannot be begun.
    pub fn flush(&mut self, tag: u64) -> io::Result<()> {
        // SAFETY: the image is open.
        self.begin_bare(tag, |image, completion| unsafe {
            (image.functions.rbd_aio_flush)(image.handle, completion)
        })
    }

    /// Gives a range back.
    ///
    /// # Errors
    /// If the operation cannot be begun.
    pub fn discard(&mut self, tag: u64, offset: u64, length: u64) -> io::Result<()> {
        // SAFETY: the image is open.
        self.begin_bare(tag, |image, completion| unsafe {
            (image.functions.rbd_aio_discard)(image.handle, offset, length, completion)
        })
    }

    /// Makes a range read as zeroes.
    ///
    /// # Errors
    /// If the operation cannot be begun.
    pub fn zero(&mut self, tag: u64, offset: u64, length: usize, zeroes: Zeroes) -> io::Result<()> {
        let flags = match zeroes {
            Zeroes::MayUnmap => 0,
            Zeroes::Allocate => THICK,
        };
        // SAFETY: the image is open.
        self.begin_bare(tag, |image, completion| unsafe {
            (image.functions.rbd_aio_write_zeroes)(
                image.handle,
                offset,
                length,
                completion,
                flags,
                0,
            )
        })
    }

    fn begin_bare(
        &mut self,
        tag: u64,
        call: impl FnOnce(&Open, Handle) -> c_int,
    ) -> io::Result<()> {
        self.begin(tag, Cargo::Nothing, call)
            .map_err(|(error, _)| error)
    }

    fn begin(
        &mut self,
        tag: u64,
        cargo: Cargo,
        call: impl FnOnce(&Open, Handle) -> c_int,
    ) -> Result<(), (io::Error, Cargo)> {
        let key = self.flights.insert(Flight { tag, cargo });
        let image = self.image.as_ref().expect("an image until it is dropped");
        let functions = image.functions;
        let mut completion: Handle = ptr::null_mut();
        let argument = ptr::without_provenance_mut::<c_void>(key);
        // SAFETY: the argument is a number that is never followed.
        let created =
            unsafe { (functions.rbd_aio_create_completion)(argument, None, &raw mut completion) };
        let answer = if created < 0 {
            created
        } else {
            call(image, completion)
        };
        if answer >= 0 {
            return Ok(());
        }
        if created >= 0 {
            // SAFETY: the operation did not begin, so nobody else has its completion.
            unsafe { (functions.rbd_aio_release)(completion) };
        }
        let flight = self.flights.remove(key);
        Err((io::Error::from_raw_os_error(-answer), flight.cargo))
    }

    /// Hands over what has ended.
    pub fn ended(&mut self, mut each: impl FnMut(Ended)) {
        let (functions, handle) = (self.image().functions, self.image().handle);
        loop {
            let mut completions: [Handle; TAKEN_AT_ONCE as usize] =
                [ptr::null_mut(); TAKEN_AT_ONCE as usize];
            // SAFETY: there is room for as many as is said.
            let count = unsafe {
                (functions.rbd_poll_io_events)(handle, completions.as_mut_ptr(), TAKEN_AT_ONCE)
            };
            for completion in completions
                .into_iter()
                .take(usize::try_from(count).unwrap_or(0))
            {
                // SAFETY: the library has ended the operation, and hands its completion over once.
                let key = unsafe { (functions.rbd_aio_get_arg)(completion) }.addr();
                // SAFETY: the same.
                let answer = unsafe { (functions.rbd_aio_get_return_value)(completion) };
                // SAFETY: the same, and nobody uses it afterwards.
                unsafe { (functions.rbd_aio_release)(completion) };
                each(self.flights.remove(key).end(answer));
            }
            if count < TAKEN_AT_ONCE {
                return;
            }
        }
    }
}

impl Flight {
    fn end(self, answer: isize) -> Ended {
        let error = |number: isize| {
            let number = i32::try_from(number).unwrap_or(libc::EIO);
            Err(io::Error::from_raw_os_error(number))
        };
        let (result, buf) = match self.cargo {
            _ if answer < 0 => (error(answer.saturating_neg()), self.cargo.into_buf()),
            Cargo::Read { buf, length } if answer.unsigned_abs() == length => (Ok(()), Some(buf)),
            Cargo::Read { buf, .. } => (Err(io::ErrorKind::UnexpectedEof.into()), Some(buf)),
            Cargo::Write { .. } | Cargo::Nothing => (Ok(()), None),
        };
        Ended {
            tag: self.tag,
            result,
            buf,
        }
    }
}

impl Cargo {
    fn into_buf(self) -> Option<Buf> {
        match self {
            Self::Read { buf, .. } => Some(buf),
            Self::Write { .. } | Self::Nothing => None,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.flights.is_empty() {
            // SAFETY: it is not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.flights) };
        }
        let (image, kept) = (self.image.take(), self.until_closed.take());
        let close = move || {
            drop(image);
            drop(kept);
        };
        let thread = std::thread::Builder::new().name("rbd-close".to_owned());
        // Without a thread it is closed here, when the closure is dropped.
        let _ = thread.spawn(close);
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("in_flight", &self.flights.len())
            .finish_non_exhaustive()
    }
}
