//! The native half of the Python package `hearth`: readers, policies and curves, for notebooks.

use pyo3::prelude::*;

/// The functions and types that the package's Python half wraps.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
