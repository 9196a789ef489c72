//! Ends a run from outside: Ctrl-C, a [`Stop`], or an exception in a policy written in Python.
//!
//! The crates below know nothing of Python. What ends them is an error of the reader, which every one of them
//! passes on; the exception that it stands for waits here.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use trace::{ReadError, Reader, Records, Volumes};

/// Batches between two looks at the signals: a look takes the interpreter's lock, some microseconds at most,
/// and 16 batches are some hundred microseconds of reading.
const BATCHES_PER_LOOK: u32 = 16;

/// Tells runs in other threads to end.
#[pyclass(frozen, module = "hearth._native")]
#[derive(Default)]
pub(crate) struct Stop {
    is_set: Arc<AtomicBool>,
}

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Ends every run that was given this.
    fn set(&self) {
        self.is_set.store(true, Ordering::Relaxed);
    }
}

/// The first exception of a run.
#[derive(Clone, Default)]
pub(crate) struct Fault {
    raised: Arc<Mutex<Option<PyErr>>>,
    is_raised: Arc<AtomicBool>,
    stop: Option<Arc<AtomicBool>>,
}

impl Fault {
    pub(crate) fn new(stop: Option<&Stop>) -> Self {
        Self {
            stop: stop.map(|stop| Arc::clone(&stop.is_set)),
            ..Self::default()
        }
    }

    /// Keeps the exception unless there is one already.
    pub(crate) fn raise(&self, error: PyErr) {
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        raised.get_or_insert(error);
        self.is_raised.store(true, Ordering::Release);
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::Acquire)
    }

    /// The exception, which stands for whatever else went wrong after it.
    ///
    /// # Errors
    /// If there was one.
    pub(crate) fn check(&self) -> PyResult<()> {
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        raised.take().map_or(Ok(()), Err)
    }

    /// Looks whether somebody wants the run to end; the exception is kept until [`Self::check`].
    pub(crate) fn look(&self) {
        if self
            .stop
            .as_ref()
            .is_some_and(|stop| stop.load(Ordering::Relaxed))
        {
            self.raise(PyKeyboardInterrupt::new_err("stopped"));
            return;
        }
        #[allow(
            clippy::redundant_closure_for_method_calls,
            reason = "the method by itself is of one lifetime only"
        )]
        let looked = Python::attach(|py| py.check_signals());
        if let Err(error) = looked {
            self.raise(error);
        }
    }

    /// The reader, which ends with the first exception.
    pub(crate) fn around(&self, reader: Box<dyn Reader>) -> Box<dyn Reader> {
        Box::new(Guarded {
            reader,
            fault: self.clone(),
            batches: 0,
        })
    }
}

struct Guarded {
    reader: Box<dyn Reader>,
    fault: Fault,
    batches: u32,
}

impl Reader for Guarded {
    fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
        if self.batches.is_multiple_of(BATCHES_PER_LOOK) {
            self.fault.look();
        }
        self.batches = self.batches.wrapping_add(1);
        if self.fault.is_raised() {
            records.clear();
            return Err(ended());
        }
        self.reader.read_batch(records)
    }

    fn volumes(&self) -> &Volumes {
        self.reader.volumes()
    }
}

/// What the crates below are told; nobody reads it, because [`Fault::check`] comes first.
fn ended() -> ReadError {
    ReadError::Input {
        file: String::new(),
        unpacked_bytes: 0,
        remedy: "see the exception",
        source: io::Error::from(io::ErrorKind::Interrupted),
    }
}
