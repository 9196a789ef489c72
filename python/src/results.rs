//! Results as an Arrow table: runs with the columns of `hearth sim --csv`, and runs of fleets.

use crate::traces::{schema_capsule, stream_capsule};
use arrow_array::builder::{Float64Builder, StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_schema::{DataType, Field, Schema};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use simulator::columns::{COLUMNS, Kind};
use std::sync::Arc;

/// A table of results.
#[pyclass(frozen, module = "hearth._native")]
pub(crate) struct Table {
    batch: RecordBatch,
}

#[pymethods]
impl Table {
    /// The table of such dictionaries as `simulate` gives, one row each.
    #[new]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "pyo3 hands arguments over by value"
    )]
    fn new(runs: Vec<Bound<'_, PyDict>>) -> PyResult<Self> {
        let columns = COLUMNS.iter().map(|column| (column.name, column.kind));
        Self::with(&columns.collect::<Vec<_>>(), &runs)
    }

    /// The table of such dictionaries as `simulate_fleet` gives, one row each.
    #[staticmethod]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "pyo3 hands arguments over by value"
    )]
    fn of_fleets(runs: Vec<Bound<'_, PyDict>>) -> PyResult<Self> {
        Self::with(&crate::fleet::COLUMNS, &runs)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.batch.schema())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        stream_capsule(py, Box::new(batches))
    }
}

impl Table {
    /// A row for each dictionary, with these of its keys.
    fn with(columns: &[(&str, Kind)], runs: &[Bound<'_, PyDict>]) -> PyResult<Self> {
        let fields = columns.iter().map(|(name, kind)| {
            let data = match kind {
                Kind::Text => DataType::Utf8,
                Kind::Count => DataType::UInt64,
                Kind::Real => DataType::Float64,
            };
            Field::new(*name, data, *kind == Kind::Real)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let columns = columns
            .iter()
            .map(|(name, kind)| array(name, *kind, runs))
            .collect::<PyResult<Vec<_>>>()?;
        let batch = RecordBatch::try_new(schema, columns)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { batch })
    }
}

fn array(name: &str, kind: Kind, runs: &[Bound<'_, PyDict>]) -> PyResult<ArrayRef> {
    Ok(match kind {
        Kind::Text => {
            let mut column = StringBuilder::new();
            for run in runs {
                column.append_value(cell(run, name)?.extract::<String>()?);
            }
            Arc::new(column.finish())
        }
        Kind::Count => {
            let mut column = UInt64Builder::new();
            for run in runs {
                column.append_value(cell(run, name)?.extract::<u64>()?);
            }
            Arc::new(column.finish())
        }
        Kind::Real => {
            let mut column = Float64Builder::new();
            for run in runs {
                column.append_option(cell(run, name)?.extract::<Option<f64>>()?);
            }
            Arc::new(column.finish())
        }
    })
}

fn cell<'py>(run: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    run.as_any().get_item(name)
}
