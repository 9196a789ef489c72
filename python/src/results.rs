//! Results as an Arrow table, with the columns of `hearth sim --csv`.

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
        let fields = COLUMNS.iter().map(|column| {
            let kind = match column.kind {
                Kind::Text => DataType::Utf8,
                Kind::Count => DataType::UInt64,
                Kind::Real => DataType::Float64,
            };
            Field::new(column.name, kind, column.kind == Kind::Real)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let columns = COLUMNS
            .iter()
            .map(|column| array(column.name, column.kind, &runs))
            .collect::<PyResult<Vec<_>>>()?;
        let batch = RecordBatch::try_new(schema, columns)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { batch })
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
