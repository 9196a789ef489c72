//! Errors as Python has them, split by what the caller does next.
//!
//! | exception | what to do |
//! |---|---|
//! | `ValueError` | write the argument another way: a size, a policy, a format |
//! | `FileNotFoundError`, `PermissionError`, ... | give the right path |
//! | [`TraceError`] | mend the trace, get a whole copy of it, or say its format |
//! | [`PolicyError`] | mend the policy that was written in Python |

use curves::CurveError;
use pyo3::exceptions::PyValueError;
use pyo3::{PyErr, create_exception};
use simulator::SimError;
use std::error::Error;
use trace::{OpenError, ReadError};

create_exception!(
    hearth,
    TraceError,
    PyValueError,
    "A trace cannot be read, is not what its format says, or has not what is asked of it."
);
create_exception!(
    hearth,
    PolicyError,
    pyo3::exceptions::PyRuntimeError,
    "A policy written in Python did what no cache can do."
);

/// An error with its causes, in the words of this package: `format=` is what the program calls `--format`.
pub(crate) fn words(error: &dyn Error) -> String {
    let mut text = units::errors::chain(error);
    for (option, argument) in [
        ("--format text", "format=\"text\""),
        ("--format", "format="),
        ("--block", "block="),
    ] {
        text = text.replace(option, argument);
    }
    text.replace("hearth sim", "hearth.simulate")
}

/// An argument that is not one.
pub(crate) fn value(error: &dyn Error) -> PyErr {
    PyValueError::new_err(words(error))
}

pub(crate) fn read(error: &ReadError) -> PyErr {
    match error {
        // What the system says has a class of its own, such as `FileNotFoundError`.
        ReadError::Input { source, .. } if source.raw_os_error().is_some() => {
            PyErr::from(std::io::Error::new(source.kind(), words(error)))
        }
        ReadError::Part(error) => open(error),
        error => TraceError::new_err(words(error)),
    }
}

pub(crate) fn open(error: &OpenError) -> PyErr {
    match error {
        OpenError::Read(error) => read(error),
        OpenError::Generator(error) => value(error),
        error => TraceError::new_err(words(error)),
    }
}

pub(crate) fn sim(trace: &str, error: &SimError) -> PyErr {
    match error {
        SimError::Open(error) => open(error),
        SimError::Read(error) => read(error),
        SimError::Size(_) | SimError::Policy(_) => value(error),
        error => TraceError::new_err(format!("{trace}: {}", words(error))),
    }
}

pub(crate) fn curve(trace: &str, error: &CurveError) -> PyErr {
    match error {
        CurveError::Read(error) => read(error),
        CurveError::Miniature(error) => value(error),
        error @ CurveError::Split(_) => TraceError::new_err(format!("{trace}: {}", words(error))),
    }
}
