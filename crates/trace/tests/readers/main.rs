//! Readers and writers of traces. All are one program: each alone would be linked with all formats.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod convert;
mod damage;
mod formats;
mod hostile;
mod info;
mod parquet;
mod recognition;
mod splitter;
mod streams;
mod support;
mod together;
