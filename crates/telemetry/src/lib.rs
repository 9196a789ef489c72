//! Traces of what operators and hosts do, for a collector that speaks OTLP over HTTP.
//!
//! ```text
//!   traceparent ─► Context ─┐
//!                           ▼                 at its end, if sampled
//!   Tracer ─── span ──► Span ── child ──► Span ──► queue (QUEUED_MAX) ─► exporter ─► POST /v1/traces
//!                         └── parent ─► Parent ── within ─► what runs there finds it by `Parent::here`
//! ```
//!
//! A span is a command, a step of one, or a step of a move between hosts; never a guest's request. Whoever ends a span waits
//! for nothing: a span that finds no room in the queue is counted and dropped. The exporter is one task, which alone waits for the
//! collector, and never longer than [`limits::POST_TIME_MAX`] for one batch.
//!
//! Invariants: without a collector ([`Tracer::off`]) no span takes memory, and nothing connects. A trace that its caller does
//! not sample is carried on and not exported. Nothing of a header file is ever in a span, an error or a log line.
//!
//! The W3C's `traceparent` is spoken, `tracestate` is not: see the decision record 0059.

#![forbid(unsafe_code)]

mod clock;
mod collector;
mod context;
mod ended;
mod exporter;
mod headers;
pub mod limits;
mod otlp;
mod queue;
mod resource;
mod span;

pub use collector::Collector;
pub use context::{Context, NoContext};
pub use ended::{Kind, Value};
pub use exporter::{Exporter, start};
pub use queue::SpanCounts;
pub use resource::Resource;
pub use span::{Parent, Span, Tracer};
