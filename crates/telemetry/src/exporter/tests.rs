use super::*;
use crate::context::Context;
use crate::ended::Kind;
use crate::span::Parent;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span as TheirSpan;
use prost::Message as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const OK: &str = "200 OK";

/// What the collector of a test was sent: the head of a request, and its spans.
type Sent = (String, Vec<TheirSpan>);

fn collector(port: u16) -> Collector {
    Collector {
        tls: false,
        host: "127.0.0.1".to_owned(),
        port,
        authority: format!("127.0.0.1:{port}"),
        target: "/v1/traces".to_owned(),
        headers_file: None,
        authorities: None,
    }
}

fn resource() -> Resource {
    Resource {
        service: "hearth".to_owned(),
        version: "1".to_owned(),
        host: "a".to_owned(),
    }
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    status: &str,
    sent: &UnboundedSender<Sent>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    let (head, length) = loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            // An empty batch has no such line.
            let length = head.split_once("content-length: ");
            let length = length.and_then(|(_, rest)| rest.lines().next());
            let length: usize = length.unwrap_or("0").parse().unwrap();
            break (head, length);
        }
    };
    let body = head.len() + 4;
    while bytes.len() < body + length {
        stream.read_buf(&mut bytes).await?;
    }
    let request = ExportTraceServiceRequest::decode(&bytes[body..]).unwrap();
    let scopes = request
        .resource_spans
        .into_iter()
        .flat_map(|of| of.scope_spans);
    let spans = scopes.flat_map(|scope| scope.spans).collect();
    let _ = sent.send((head, spans));
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(answer.as_bytes()).await
}

/// A collector that gives these answers, and then says that all is well.
async fn listen(answers: &'static [&'static str]) -> (u16, UnboundedReceiver<Sent>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = unbounded_channel();
    tokio::spawn(async move {
        let mut answers = answers.iter().copied().chain(std::iter::repeat(OK));
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            answer(stream, answers.next().unwrap(), &tell)
                .await
                .unwrap();
        }
    });
    (port, told)
}

async fn soon(counts: impl Fn() -> SpanCounts, delivered: u64, dropped: u64) {
    let wanted = SpanCounts { delivered, dropped };
    let until = Instant::now() + Duration::from_secs(20);
    while counts() != wanted {
        assert!(Instant::now() < until, "{:?}, not {wanted:?}", counts());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn spans_reach_the_collector_below_each_other() {
    let (port, mut told) = listen(&[]).await;
    let (tracer, exporter) = start(collector(port), resource()).unwrap();
    let mut span = tracer.span("disk attach", Kind::Server, None);
    let (trace, number) = {
        let context = span.context().unwrap();
        (context.trace(), context.span())
    };
    span.set("hearth.disk", "other");
    span.set("hearth.disk", "web");
    span.parent()
        .within(async {
            let mut child = Parent::here().child("origin open");
            child.fail("origin", "no such file");
        })
        .await;
    assert!(Parent::here().child("nobody's").context().is_none());
    span.end();
    let (head, spans) = told.recv().await.unwrap();
    assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
    assert!(
        head.contains("content-type: application/x-protobuf"),
        "{head}"
    );
    let [child, above] = &spans[..] else {
        panic!("{spans:?}");
    };
    assert_eq!(
        (child.name.as_str(), above.name.as_str()),
        ("origin open", "disk attach")
    );
    assert_eq!(above.trace_id, trace.to_be_bytes());
    assert_eq!(child.trace_id, above.trace_id);
    assert_eq!(child.parent_span_id, number.to_be_bytes());
    assert!(above.parent_span_id.is_empty());
    assert_eq!(above.attributes.len(), 1, "the last value counts");
    assert!(above.start_time_unix_nano <= child.start_time_unix_nano);
    assert!(child.end_time_unix_nano <= above.end_time_unix_nano);
    soon(exporter.counts(), 2, 0).await;
}

#[tokio::test]
async fn the_callers_trace_goes_on_and_is_exported_if_it_is_sampled() {
    let (port, mut told) = listen(&[]).await;
    let (tracer, exporter) = start(collector(port), resource()).unwrap();
    for is_sampled in [false, true] {
        let above = Context::new(7, 8, is_sampled);
        let span = tracer.span("disk flush", Kind::Server, above);
        let context = span.context().unwrap();
        assert_eq!((context.trace(), context.is_sampled()), (7, is_sampled));
        let child = span.parent().child("step");
        assert_eq!(child.context().unwrap().is_sampled(), is_sampled);
    }
    let (_, spans) = told.recv().await.unwrap();
    assert_eq!(spans.len(), 2, "{spans:?}");
    assert_eq!(spans[1].parent_span_id, 8_u64.to_be_bytes());
    assert_eq!(spans[1].flags, 0x301);
    soon(exporter.counts(), 2, 0).await;
}

#[tokio::test]
async fn without_a_collector_a_span_is_nothing() {
    let mut span = Tracer::off().span("disk flush", Kind::Server, Context::new(1, 2, true));
    span.set("a", 1_u64);
    span.moment("b", "c", "d");
    span.fail("e", "f");
    assert_eq!(span.context(), None);
    let inner = span
        .parent()
        .within(async { Parent::here().child("x").context() });
    assert_eq!(inner.await, None);
}

#[tokio::test]
async fn a_collector_that_starts_anew_gets_the_batch_later() {
    let (port, mut told) = listen(&["503 Service Unavailable"]).await;
    let (tracer, exporter) = start(collector(port), resource()).unwrap();
    tracer.span("disk flush", Kind::Server, None).end();
    let refused = told.recv().await.unwrap().1;
    assert_eq!(told.recv().await.unwrap().1, refused);
    soon(exporter.counts(), 1, 0).await;
}

#[tokio::test]
async fn a_batch_that_will_never_be_taken_is_dropped_at_once() {
    let (port, mut told) = listen(&["400 Bad Request"]).await;
    let (tracer, exporter) = start(collector(port), resource()).unwrap();
    tracer.span("disk flush", Kind::Server, None).end();
    told.recv().await.unwrap();
    soon(exporter.counts(), 0, 1).await;
    tracer.span("disk drop", Kind::Server, None).end();
    assert_eq!(told.recv().await.unwrap().1[0].name, "disk drop");
    soon(exporter.counts(), 1, 1).await;
}

#[tokio::test]
async fn nobody_waits_for_a_collector_that_is_away_and_what_is_too_much_is_dropped() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let (tracer, exporter) = start(collector(port), resource()).unwrap();
    let more = 10;
    let began = Instant::now();
    for _ in 0..QUEUED_MAX + more {
        tracer.span("disk flush", Kind::Server, None).end();
    }
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    assert_eq!((exporter.counts())().dropped, more as u64);
    // The first batch was tried for the last time.
    let whole = (more + BATCH_MAX) as u64;
    soon(exporter.counts(), 0, whole).await;
}

#[tokio::test]
async fn the_end_sends_what_waits_and_does_not_wait_for_a_collector_that_says_nothing() {
    let (port, mut told) = listen(&[]).await;
    let (tracer, exporter) = start(collector(port), resource()).unwrap();
    tracer.span("disk flush", Kind::Server, None).end();
    let counts = exporter.counts();
    exporter.finish().await;
    assert_eq!(told.try_recv().unwrap().1.len(), 1);
    assert_eq!(counts().delivered, 1);

    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let (tracer, exporter) = start(collector(port), resource()).unwrap();
    tracer.span("disk flush", Kind::Server, None).end();
    let began = Instant::now();
    exporter.finish().await;
    let took = began.elapsed();
    assert!(took < 2 * FAREWELL_TIME_MAX, "{took:?}");
}

#[tokio::test]
async fn the_collector_gets_its_headers_as_they_are_when_spans_are_sent() {
    let (port, mut told) = listen(&[]).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "Authorization: Bearer one\n").unwrap();
    let wanted = Collector {
        headers_file: Some(PathBuf::from(file.path())),
        ..collector(port)
    };
    let (tracer, exporter) = start(wanted, resource()).unwrap();
    for token in ["one", "two"] {
        std::fs::write(file.path(), format!("Authorization: Bearer {token}\n")).unwrap();
        tracer.span("disk flush", Kind::Server, None).end();
        let (head, _) = told.recv().await.unwrap();
        assert!(
            head.contains(&format!("authorization: bearer {token}")),
            "{head}"
        );
    }
    soon(exporter.counts(), 2, 0).await;
}

#[tokio::test]
async fn a_collector_with_tls_shows_a_certificate_that_is_known() {
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let authority = dir.path().join("ca.pem");
    std::fs::write(&authority, issued.cert.pem()).unwrap();
    let key =
        openssl::pkey::PKey::private_key_from_pem(issued.signing_key.serialize_pem().as_bytes());
    let certificate = openssl::x509::X509::from_pem(issued.cert.pem().as_bytes()).unwrap();
    let mut acceptor =
        openssl::ssl::SslAcceptor::mozilla_intermediate_v5(openssl::ssl::SslMethod::tls()).unwrap();
    acceptor.set_private_key(&key.unwrap()).unwrap();
    acceptor.set_certificate(&certificate).unwrap();
    let acceptor = acceptor.build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, mut told) = unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let session = openssl::ssl::Ssl::new(acceptor.context()).unwrap();
            let mut stream = tokio_openssl::SslStream::new(session, stream).unwrap();
            if std::pin::Pin::new(&mut stream).accept().await.is_ok() {
                let _ = answer(stream, OK, &tell).await;
            }
        }
    });
    let known = Collector {
        tls: true,
        host: "localhost".to_owned(),
        authorities: Some(authority),
        ..collector(port)
    };
    let strange = Collector {
        authorities: None,
        ..known.clone()
    };
    let refused = strange.post(Vec::new().into()).await.unwrap_err();
    assert!(matches!(refused, PostError::Tls(_)), "{refused:?}");
    let elsewhere = Collector {
        host: "127.0.0.1".to_owned(),
        ..known.clone()
    };
    let refused = elsewhere.post(Vec::new().into()).await.unwrap_err();
    assert!(
        matches!(refused, PostError::Tls(_)),
        "another name: {refused:?}"
    );
    known.post(Vec::new().into()).await.unwrap();
    told.recv().await.unwrap();
}
