//! What of the daemon becomes spans, and where they go.
//!
//! A command of the admin API is a span ([`verb`]), its steps are below it ([`step`]). Moves have theirs in
//! `roaming/move_trace.rs`, the cluster's in `cluster/driven.rs`.

use super::cluster::host_of;
use api::types::Problem;
use axum::http::{HeaderMap, Method, StatusCode};
use configuration::{Config, OtlpUrl};
use shard::ShardError;
use std::borrow::Cow;
use std::io;
use telemetry::{Collector, Context, Exporter, Kind, Parent, Resource, Span, SpanCounts, Tracer};
use units::errors::chain;

/// The W3C's header.
const TRACEPARENT: &str = "traceparent";

/// What begins traces, and what sends them. Both are for as long as the daemon runs.
pub(crate) struct Traces {
    pub(crate) tracer: Tracer,
    exporter: Option<Exporter>,
}

impl Traces {
    /// As the configuration says: without a collector nothing is traced. To be called within the runtime.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub(crate) fn start(config: &Config) -> io::Result<Self> {
        let telemetry = &config.telemetry;
        let Some(url) = telemetry.otlp.0.as_ref() else {
            return Ok(Self {
                tracer: Tracer::off(),
                exporter: None,
            });
        };
        let OtlpUrl {
            tls, host, port, ..
        } = url;
        let collector = Collector {
            tls: *tls,
            host: host.clone(),
            port: *port,
            authority: url.authority(),
            target: url.target(),
            headers_file: telemetry.headers_file.clone(),
            authorities: telemetry.authority.clone(),
        };
        let resource = Resource {
            service: telemetry.service_name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: host_of(config),
        };
        let (tracer, exporter) = telemetry::start(collector, resource)?;
        Ok(Self {
            tracer,
            exporter: Some(exporter),
        })
    }

    /// What has become of spans; none if nothing is traced.
    pub(crate) fn counts(&self) -> Option<Counts> {
        let exporter = self.exporter.as_ref()?;
        Some(Counts(std::sync::Arc::new(exporter.counts())))
    }

    /// Sends what waits, for a moment.
    pub(crate) async fn finish(self) {
        if let Some(exporter) = self.exporter {
            exporter.finish().await;
        }
    }
}

/// Where to read what has become of spans.
#[derive(Clone)]
pub(crate) struct Counts(std::sync::Arc<dyn Fn() -> SpanCounts + Send + Sync>);

impl Counts {
    /// As of now.
    pub(crate) fn now(&self) -> SpanCounts {
        (self.0)()
    }
}

/// The trace that a request says it belongs to. One that says so twice, or wrongly, begins one of its own.
fn caller(headers: &HeaderMap) -> Option<Context> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let value = values.next()?;
    let only = values.next().is_none();
    value.to_str().ok().filter(|_| only)?.parse().ok()
}

/// Begins the span of a command.
pub(crate) fn verb(
    tracer: &Tracer,
    (verb, method, route): (&'static str, &Method, &'static str),
    headers: &HeaderMap,
) -> Span {
    let mut span = tracer.span(verb, Kind::Server, caller(headers));
    span.set("http.request.method", method.as_str());
    span.set("http.route", route);
    span
}

/// The command was answered. One that is refused has failed for who asked, whatever side's fault it is: the conventions for HTTP
/// let who knows more than the status say so.
pub(crate) fn answered(span: &mut Span, status: StatusCode, problem: Option<&Problem>) {
    span.set("http.response.status_code", status.as_u16());
    match problem {
        Some(problem) => fail(span, problem),
        None if status.is_success() => {}
        None => span.fail(status.as_str(), ""),
    }
}

/// Why something has failed, as a span tells it: a word for its kind, and a line.
pub(crate) trait Fault {
    /// Both.
    fn fault(&self) -> (Cow<'_, str>, Cow<'_, str>);
}

impl Fault for Problem {
    fn fault(&self) -> (Cow<'_, str>, Cow<'_, str>) {
        let word = self.kind.rsplit(':').next().unwrap_or_default();
        (word.into(), self.detail.as_str().into())
    }
}

impl Fault for ShardError {
    fn fault(&self) -> (Cow<'_, str>, Cow<'_, str>) {
        ("cache".into(), chain(self).into())
    }
}

/// Marks a span as failed.
pub(crate) fn fail(span: &mut Span, fault: &impl Fault) {
    let (kind, why) = fault.fault();
    span.fail(&kind, &why);
}

/// Carries out a step as a span below what runs here, if that is one.
pub(crate) async fn step<T, E: Fault>(
    name: &'static str,
    what: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let mut span = Parent::here().child(name);
    let outcome = span.parent().within(what).await;
    if let Err(fault) = &outcome {
        fail(&mut span, fault);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    const RIGHT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn one_header_names_the_callers_trace() {
        let mut headers = HeaderMap::new();
        assert_eq!(caller(&headers), None);
        headers.append(TRACEPARENT, HeaderValue::from_static(RIGHT));
        assert_eq!(caller(&headers), RIGHT.parse().ok());
        headers.append(TRACEPARENT, HeaderValue::from_static(RIGHT));
        assert_eq!(caller(&headers), None, "twice");
        headers.insert(TRACEPARENT, HeaderValue::from_static("00-x"));
        assert_eq!(caller(&headers), None);
    }

    #[test]
    fn a_problem_is_told_by_its_word_and_its_line() {
        let problem = Problem::no_such_cache("c");
        let (kind, why) = problem.fault();
        assert_eq!((&*kind, &*why), ("no-such-cache", "there is no cache 'c'"));
    }
}
