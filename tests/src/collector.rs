//! A collector of traces that takes OTLP over HTTP, and tells what it was sent.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::{Span as Theirs, span::SpanKind, status::StatusCode};
use prost::Message as _;

use crate::{limits, wait_until};

/// How long a part of a request may take.
const READ_TIME_MAX: Duration = Duration::from_secs(10);

/// What a collector does with a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Takes,
    /// Takes the connection, and says nothing.
    Stalls,
}

/// A span that has come.
#[derive(Clone, Debug)]
pub struct TracedSpan {
    /// The attribute `host.name` of whose it is.
    pub host: String,
    /// Its name.
    pub name: String,
    /// The trace's number, as 32 digits.
    pub trace: String,
    /// Its own, as 16 digits.
    pub span: String,
    /// That of the span above it; empty if there is none.
    pub parent: String,
    /// Whether somebody outside of the daemon asked for it.
    pub is_server: bool,
    /// Texts and numbers, as texts.
    pub attributes: BTreeMap<String, String>,
    /// Names of moments in it.
    pub events: Vec<String>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// When it began and ended, in nanoseconds since 1970.
    pub times: (u64, u64),
}

impl TracedSpan {
    /// An attribute; empty if it is not there.
    pub fn get(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }
}

#[derive(Default)]
struct Seen {
    spans: Mutex<Vec<TracedSpan>>,
    heads: Mutex<Vec<String>>,
    connections: AtomicU64,
}

/// A collector at a port of its own, until the test ends.
pub struct Collector {
    port: u16,
    seen: Arc<Seen>,
}

impl Collector {
    /// One that takes what it is sent.
    ///
    /// # Errors
    ///
    /// When it cannot listen.
    pub fn start() -> anyhow::Result<Self> {
        Self::with(Manner::Takes)
    }

    /// One that takes connections, and answers nothing.
    ///
    /// # Errors
    ///
    /// When it cannot listen.
    pub fn stalled() -> anyhow::Result<Self> {
        Self::with(Manner::Stalls)
    }

    fn with(manner: Manner) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("a collector's port")?;
        let port = listener.local_addr()?.port();
        let seen: Arc<Seen> = Arc::default();
        let told = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming().flatten() {
                told.connections.fetch_add(1, Ordering::Relaxed);
                if manner == Manner::Stalls {
                    held.push(stream);
                } else if let Err(error) = take(stream, &told) {
                    println!("the collector has not understood a request: {error:#}");
                }
            }
        });
        Ok(Self { port, seen })
    }

    /// Its address, as the configuration has it.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// How many connections were made to it.
    pub fn connections(&self) -> u64 {
        self.seen.connections.load(Ordering::Relaxed)
    }

    /// Heads of requests so far, in small letters.
    pub fn heads(&self) -> Vec<String> {
        let heads = self.seen.heads.lock();
        heads.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What has come so far.
    pub fn spans(&self) -> Vec<TracedSpan> {
        let spans = self.seen.spans.lock();
        spans.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a span that is as wanted.
    ///
    /// # Errors
    ///
    /// When none comes; says which came instead.
    pub fn wait_for(
        &self,
        what: &str,
        mut is_wanted: impl FnMut(&TracedSpan) -> bool,
    ) -> anyhow::Result<TracedSpan> {
        let mut found = None;
        let waited = wait_until(what, limits::SHORT, || {
            found = self.spans().into_iter().find(&mut is_wanted);
            Ok(found.is_some())
        });
        waited.with_context(|| {
            let told = |span: &TracedSpan| {
                let (host, name, failure) = (&span.host, &span.name, &span.failure);
                format!("{host}: {name} {:?} {failure:?}", span.attributes)
            };
            let spans: Vec<_> = self.spans().iter().map(told).collect();
            format!("there came:\n{}", spans.join("\n"))
        })?;
        found.context("it was found")
    }
}

fn take(mut stream: TcpStream, seen: &Seen) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(READ_TIME_MAX))?;
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    let (head, body) = loop {
        let count = stream.read(&mut piece)?;
        ensure!(count > 0, "a request that ends in its head");
        bytes.extend_from_slice(&piece[..count]);
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            break (
                String::from_utf8_lossy(&bytes[..end]).to_lowercase(),
                end + 4,
            );
        }
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.context("a length")?.trim().parse()?;
    while bytes.len() < body + length {
        let count = stream.read(&mut piece)?;
        ensure!(count > 0, "a request that ends in its body");
        bytes.extend_from_slice(&piece[..count]);
    }
    let request = ExportTraceServiceRequest::decode(&bytes[body..])?;
    {
        let spans = seen.spans.lock();
        let mut spans = spans.unwrap_or_else(PoisonError::into_inner);
        for of in request.resource_spans {
            let resource = of.resource.unwrap_or_default();
            let host = texts(&resource.attributes);
            let host = host.get("host.name").cloned().unwrap_or_default();
            let inner = of.scope_spans.into_iter().flat_map(|scope| scope.spans);
            spans.extend(inner.map(|span| traced(&host, &span)));
        }
    }
    let heads = seen.heads.lock();
    heads.unwrap_or_else(PoisonError::into_inner).push(head);
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
    Ok(())
}

fn traced(host: &str, of: &Theirs) -> TracedSpan {
    let failed = of.status.as_ref();
    let failed = failed.filter(|status| status.code() == StatusCode::Error);
    TracedSpan {
        host: host.to_owned(),
        name: of.name.clone(),
        trace: hex(&of.trace_id),
        span: hex(&of.span_id),
        parent: hex(&of.parent_span_id),
        is_server: of.kind() == SpanKind::Server,
        attributes: texts(&of.attributes),
        events: of.events.iter().map(|event| event.name.clone()).collect(),
        failure: failed.map(|status| status.message.clone()),
        times: (of.start_time_unix_nano, of.end_time_unix_nano),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn texts(pairs: &[KeyValue]) -> BTreeMap<String, String> {
    let pairs = pairs.iter().filter_map(|pair| {
        let text = match pair.value.as_ref()?.value.as_ref()? {
            Value::StringValue(text) => text.clone(),
            Value::IntValue(number) => number.to_string(),
            _ => return None,
        };
        Some((pair.key.clone(), text))
    });
    pairs.collect()
}
