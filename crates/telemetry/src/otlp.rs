//! Spans as OTLP has them in protobuf: `ExportTraceServiceRequest` of opentelemetry-proto 1.x, as far as it is used here.
//!
//! The numbers of the fields are for ever. A test reads what is written here by the crate that OpenTelemetry makes from its own
//! files.

use crate::ended::{Attribute, Ended, Kind, Value};
use crate::resource::Resource;
use prost::{Message, Oneof};

/// The bit of a span's flags that says: the next one is known. The first eight bits are the W3C's.
const KNOWS_WHETHER_REMOTE: u32 = 0x100;
/// The bit that says: the span above is of another process.
const IS_REMOTE: u32 = 0x200;
/// The code of a status that is an error.
const ERROR: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Attributes>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct Attributes {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    own: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    above: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    began_nanos: u64,
    #[prost(fixed64, tag = "8")]
    end_nanos: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "10")]
    attributes_left_out: u32,
    #[prost(message, repeated, tag = "11")]
    events: Vec<Event>,
    #[prost(uint32, tag = "12")]
    events_left_out: u32,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    flags: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(fixed64, tag = "1")]
    at_nanos: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, repeated, tag = "3")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "OneValue", tags = "1, 3")]
    value: Option<OneValue>,
}

#[derive(Clone, PartialEq, Oneof)]
enum OneValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}

#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_spans: i64,
    #[prost(string, tag = "2")]
    why: String,
}

/// What a collector has not taken of a batch, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejected {
    pub(crate) spans: u64,
    pub(crate) why: String,
}

/// A batch in bytes.
pub(crate) fn request(resource: &Resource, spans: &[Ended]) -> Vec<u8> {
    let attributes = resource.attributes();
    let attributes = attributes.map(|(key, value)| key_value(key, &Value::from(value)));
    let request = Request {
        resource_spans: vec![ResourceSpans {
            resource: Some(Attributes {
                attributes: attributes.collect(),
            }),
            scope_spans: vec![ScopeSpans {
                scope: Some(Scope {
                    name: "hearth".to_owned(),
                    version: resource.version.clone(),
                }),
                spans: spans.iter().map(span).collect(),
            }],
        }],
    };
    request.encode_to_vec()
}

/// What the answer to a batch says that was not taken. One that cannot be read says nothing: the collector has taken the batch.
pub(crate) fn rejected(answer: &[u8]) -> Option<Rejected> {
    let partial = Response::decode(answer).ok()?.partial_success?;
    let spans = u64::try_from(partial.rejected_spans).unwrap_or(0);
    (spans > 0).then_some(Rejected {
        spans,
        why: partial.why,
    })
}

fn span(of: &Ended) -> Span {
    let is_remote = of.above.is_some_and(|(_, is_remote)| is_remote);
    let above = of.above.map(|(above, _)| above.to_be_bytes().to_vec());
    let events = of.moments.iter().map(|moment| Event {
        at_nanos: moment.at_nanos,
        name: moment.name.to_owned(),
        attributes: key_values(&moment.attributes),
    });
    Span {
        trace: of.context.trace().to_be_bytes().to_vec(),
        own: of.context.span().to_be_bytes().to_vec(),
        above: above.unwrap_or_default(),
        name: of.name.to_owned(),
        kind: match of.kind {
            Kind::Internal => 1,
            Kind::Server => 2,
        },
        began_nanos: of.began_nanos,
        end_nanos: of.end_nanos,
        attributes: key_values(&of.attributes),
        attributes_left_out: of.attributes_left_out,
        events: events.collect(),
        events_left_out: of.moments_left_out,
        status: of.failure.as_ref().map(|why| Status {
            message: why.clone(),
            code: ERROR,
        }),
        flags: u32::from(of.context.is_sampled())
            | KNOWS_WHETHER_REMOTE
            | if is_remote { IS_REMOTE } else { 0 },
    }
}

fn key_values(attributes: &[Attribute]) -> Vec<KeyValue> {
    let attributes = attributes.iter();
    attributes
        .map(|(key, value)| key_value(key, value))
        .collect()
}

fn key_value(key: &str, value: &Value) -> KeyValue {
    let value = match value {
        Value::Text(text) => OneValue::Text(text.clone()),
        Value::Number(number) => OneValue::Number(*number),
    };
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::ended::Moment;
    use opentelemetry_proto::tonic::collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
    };
    use opentelemetry_proto::tonic::common::v1::{KeyValue as TheirPair, any_value};
    use opentelemetry_proto::tonic::trace::v1::{span::SpanKind, status::StatusCode};

    fn resource() -> Resource {
        Resource {
            service: "hearth".to_owned(),
            version: "1.2.3".to_owned(),
            host: "node-a".to_owned(),
        }
    }

    fn text<'a>(pairs: &'a [TheirPair], key: &str) -> Option<&'a str> {
        let pair = pairs.iter().find(|pair| pair.key == key)?;
        match pair.value.as_ref()?.value.as_ref()? {
            any_value::Value::StringValue(text) => Some(text),
            _ => None,
        }
    }

    #[test]
    fn opentelemetrys_own_messages_read_what_is_written_here() {
        let ended = Ended {
            context: Context::new(0x0102 << 64, 0x0a0b, true).unwrap(),
            above: Some((0x0c, true)),
            name: "disk attach",
            kind: Kind::Server,
            began_nanos: 7,
            end_nanos: 9,
            attributes: vec![
                ("hearth.disk", "web".into()),
                ("http.response.status_code", 404_u16.into()),
            ],
            attributes_left_out: 3,
            moments: vec![Moment {
                name: "refused",
                at_nanos: 8,
                attributes: vec![("hearth.reason", "busy".into())],
            }],
            moments_left_out: 4,
            failure: Some("no such cache".to_owned()),
        };
        let alone = Ended {
            above: None,
            kind: Kind::Internal,
            failure: None,
            ..ended.clone()
        };
        let bytes = request(&resource(), &[ended, alone]);
        let theirs = ExportTraceServiceRequest::decode(bytes.as_slice()).unwrap();
        let [of_resource] = &theirs.resource_spans[..] else {
            panic!("one resource: {theirs:?}");
        };
        let of = &of_resource.resource.as_ref().unwrap().attributes;
        assert_eq!(text(of, "service.name"), Some("hearth"));
        assert_eq!(text(of, "service.version"), Some("1.2.3"));
        assert_eq!(text(of, "host.name"), Some("node-a"));
        let scope = &of_resource.scope_spans[0];
        assert_eq!(scope.scope.as_ref().unwrap().name, "hearth");
        let [first, second] = &scope.spans[..] else {
            panic!("two spans: {scope:?}");
        };
        assert_eq!(first.trace_id, (0x0102_u128 << 64).to_be_bytes());
        assert_eq!(first.span_id, [0, 0, 0, 0, 0, 0, 0x0a, 0x0b]);
        assert_eq!(first.parent_span_id, [0, 0, 0, 0, 0, 0, 0, 0x0c]);
        assert_eq!(first.name, "disk attach");
        assert_eq!(first.kind(), SpanKind::Server);
        assert_eq!(
            (first.start_time_unix_nano, first.end_time_unix_nano),
            (7, 9)
        );
        assert_eq!(text(&first.attributes, "hearth.disk"), Some("web"));
        assert_eq!(first.attributes.len(), 2);
        assert_eq!(first.dropped_attributes_count, 3);
        assert_eq!(first.events[0].name, "refused");
        assert_eq!(first.events[0].time_unix_nano, 8);
        assert_eq!(
            text(&first.events[0].attributes, "hearth.reason"),
            Some("busy")
        );
        assert_eq!(first.dropped_events_count, 4);
        let status = first.status.as_ref().unwrap();
        assert_eq!(status.code(), StatusCode::Error);
        assert_eq!(status.message, "no such cache");
        assert_eq!(first.flags, 0x301);
        assert_eq!(second.kind(), SpanKind::Internal);
        assert!(second.parent_span_id.is_empty() && second.status.is_none());
        assert_eq!(second.flags, 0x101);
    }

    #[test]
    fn what_a_collector_rejects_is_read() {
        let answer = |rejected_spans| ExportTraceServiceResponse {
            partial_success: Some(ExportTracePartialSuccess {
                rejected_spans,
                error_message: "too old".to_owned(),
            }),
        };
        let said = rejected(&answer(2).encode_to_vec()).unwrap();
        assert_eq!((said.spans, said.why.as_str()), (2, "too old"));
        assert_eq!(rejected(&answer(0).encode_to_vec()), None);
        assert_eq!(rejected(&answer(-1).encode_to_vec()), None);
        assert_eq!(rejected(b""), None);
        assert_eq!(rejected(b"\xff\xff{}"), None);
    }
}
