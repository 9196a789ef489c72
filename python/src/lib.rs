//! The native half of the Python package `hearth`: readers, policies and curves, for notebooks.
//!
//! ```text
//!   hearth/*.py ─► here ─┬─ traces ────► Arrow C stream, batch by batch
//!                        ├─ simulation ► JSON, as `hearth sim --json` has it, and what plots need beside
//!                        │    └─ user_policy: the caller's class, looked over at every access
//!                        ├─ curve ─────► JSON, as `hearth mrc --json` has it
//!                        ├─ fleet ─────► JSON, a run of `hearth sim fleet --json` with what was asked
//!                        └─ results ───► Arrow C stream of dictionaries
//! ```
//!
//! What runs long runs without the interpreter's lock; `guard` takes it now and then to see whether somebody
//! pressed Ctrl-C, and ends the reading of the trace if so.
//!
//! Units: microseconds, bytes and blocks, said at the end of each name.

#![forbid(unsafe_code)]

mod arguments;
mod curve;
mod error;
mod fleet;
mod guard;
mod results;
mod simulation;
mod traces;
mod user_policy;

use pyo3::prelude::*;

/// The functions and types that the package's Python half wraps.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("TraceError", py.get_type::<error::TraceError>())?;
    module.add("PolicyError", py.get_type::<error::PolicyError>())?;
    module.add_class::<traces::Trace>()?;
    module.add_class::<results::Table>()?;
    module.add_class::<guard::Stop>()?;
    module.add_function(wrap_pyfunction!(traces::formats, module)?)?;
    module.add_function(wrap_pyfunction!(simulation::policies, module)?)?;
    module.add_function(wrap_pyfunction!(simulation::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(fleet::simulate_fleet, module)?)?;
    module.add_function(wrap_pyfunction!(curve::mrc, module)?)
}
