//! A trace as an Arrow C stream: batches are made while they are taken, and the trace is never whole in
//! memory.
//!
//! | column | type | |
//! |---|---|---|
//! | `time_us` | uint64 | the trace's own clock |
//! | `vm`, `volume` | dictionary of text | empty where the format does not tell |
//! | `op` | dictionary of text | read, write, flush, discard, write-zeroes |
//! | `offset_bytes`, `length_bytes` | uint64 | |
//! | `response_us` | uint32 | absent where the format does not tell |

use crate::arguments::{block, can_be_read_again, options};
use crate::error::{open, words};
use arrow_array::builder::{UInt32Builder, UInt64Builder};
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, RecordBatch, RecordBatchReader, StringArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use trace::{Format, Op, Options, Reader, Record, Records};

/// Rows of a batch: some MiB, which is what readers of Arrow work best with.
const BATCH_ROWS: usize = 1 << 16;

/// Names and descriptions of the formats that traces are read in.
#[pyfunction]
pub(crate) fn formats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for format in Format::all() {
        all.set_item(format.name(), format.about())?;
    }
    Ok(all)
}

/// An opened trace.
#[pyclass(frozen, module = "hearth._native")]
pub(crate) struct Trace {
    #[pyo3(get)]
    path: PathBuf,
    /// The format that it is read as.
    #[pyo3(get)]
    format: &'static str,
    /// What the format was recognised by; None if it was given.
    #[pyo3(get)]
    recognised_by: Option<String>,
    /// What the file is packed with: none, gzip, zstd, xz or bzip2.
    #[pyo3(get)]
    packing: &'static str,
    options: Options,
    /// The reader that the first stream takes; later ones open the trace anew.
    first: Mutex<Option<Box<dyn Reader>>>,
}

#[pymethods]
impl Trace {
    #[new]
    #[pyo3(signature = (path, format=None, columns=None, block_size="4KiB"))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        format: Option<&str>,
        columns: Option<&str>,
        block_size: &str,
    ) -> PyResult<Self> {
        let options = options(format, columns, block(block_size)?)?;
        let opened = py
            .detach(|| trace::open(&path, &options))
            .map_err(|error| open(&error))?;
        Ok(Self {
            path,
            format: opened.format.name(),
            recognised_by: opened.recognised_by,
            packing: opened.packing.name(),
            options,
            first: Mutex::new(Some(opened.reader)),
        })
    }

    fn __repr__(&self) -> String {
        format!("<hearth.Trace {} ({})>", self.path.display(), self.format)
    }

    /// The columns, as the Arrow C data interface hands them over.
    #[allow(clippy::unused_self, reason = "the protocol has a method here")]
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &schema())
    }

    /// The records from the trace's beginning, as the Arrow C stream interface hands them over.
    ///
    /// No other schema than the trace's own is offered, whatever is asked for.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let first = self
            .first
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let reader = match first {
            Some(reader) => reader,
            None if can_be_read_again(&self.path) => {
                py.detach(|| trace::open(&self.path, &self.options))
                    .map_err(|error| open(&error))?
                    .reader
            }
            None => {
                return Err(PyValueError::new_err(format!(
                    "{} came through a pipe and was read; save it as a file to read it again",
                    self.path.display()
                )));
            }
        };
        stream_capsule(py, Box::new(Batches::new(reader)))
    }
}

/// A schema in the capsule that the Arrow `PyCapsule` interface wants.
pub(crate) fn schema_capsule<'py>(
    py: Python<'py>,
    schema: &Schema,
) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// The same for a stream.
pub(crate) fn stream_capsule(
    py: Python<'_>,
    batches: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(
        py,
        FFI_ArrowArrayStream::new(batches),
        c"arrow_array_stream",
    )
}

fn words_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("time_us", DataType::UInt64, false),
        Field::new("vm", words_type(), false),
        Field::new("volume", words_type(), false),
        Field::new("op", words_type(), false),
        Field::new("offset_bytes", DataType::UInt64, false),
        Field::new("length_bytes", DataType::UInt64, false),
        Field::new("response_us", DataType::UInt32, true),
    ])
}

/// The records of a reader, in batches of rows.
struct Batches {
    reader: Box<dyn Reader>,
    schema: SchemaRef,
    records: Records,
    is_over: bool,
}

impl Batches {
    fn new(reader: Box<dyn Reader>) -> Self {
        Self {
            reader,
            schema: Arc::new(schema()),
            records: Records::new(),
            is_over: false,
        }
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let mut rows = Rows::default();
        // Volumes are told by their places, which `rows` keeps.
        while rows.places.len() < BATCH_ROWS {
            let more = self
                .reader
                .read_batch(&mut self.records)
                .map_err(|error| ArrowError::InvalidArgumentError(words(&error)))?;
            if !more {
                break;
            }
            for record in &self.records {
                rows.push(&record);
            }
        }
        if rows.places.is_empty() {
            return Ok(None);
        }
        rows.finish(&self.schema, &*self.reader).map(Some)
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let batch = self.batch().transpose();
        // Nothing that comes behind an error can be trusted.
        self.is_over = !matches!(batch, Some(Ok(_)));
        batch
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Rows that are being gathered.
#[derive(Default)]
struct Rows {
    times: UInt64Builder,
    places: Vec<i32>,
    ops: Vec<i32>,
    offsets: UInt64Builder,
    lengths: UInt64Builder,
    responses: UInt32Builder,
}

impl Rows {
    fn push(&mut self, record: &Record) {
        self.times.append_value(record.time_us);
        // No trace has 2^31 volumes: their names would fill the memory first.
        self.places
            .push(i32::try_from(record.volume.get()).unwrap_or(i32::MAX));
        let op = Op::ALL.iter().position(|op| *op == record.op);
        self.ops
            .push(op.and_then(|op| i32::try_from(op).ok()).unwrap_or(0));
        self.offsets.append_value(record.offset.get());
        self.lengths.append_value(record.length.get());
        self.responses.append_option(record.response_us);
    }

    fn finish(
        mut self,
        schema: &SchemaRef,
        reader: &dyn Reader,
    ) -> Result<RecordBatch, ArrowError> {
        let volumes = || reader.volumes().iter().map(|(_, volume)| volume);
        let vms: StringArray = volumes().map(|volume| Some(volume.vm.as_str())).collect();
        let names: StringArray = volumes().map(|volume| Some(volume.name.as_str())).collect();
        let ops: StringArray = Op::ALL.iter().map(|op| Some(op.name())).collect();
        let places = Int32Array::from(self.places);
        let column = |keys: Int32Array, words: StringArray| -> Result<ArrayRef, ArrowError> {
            Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(
                keys,
                Arc::new(words),
            )?))
        };
        RecordBatch::try_new(
            Arc::clone(schema),
            vec![
                Arc::new(self.times.finish()),
                column(places.clone(), vms)?,
                column(places, names)?,
                column(Int32Array::from(self.ops), ops)?,
                Arc::new(self.offsets.finish()),
                Arc::new(self.lengths.finish()),
                Arc::new(self.responses.finish()),
            ],
        )
    }
}
