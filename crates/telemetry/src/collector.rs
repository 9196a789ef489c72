//! A collector, and one request to it.

use crate::headers::{self, HeadersError};
use crate::limits::{ANSWER_BYTES_MAX, POST_TIME_MAX};
use http_body_util::{BodyExt as _, Collected, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use openssl::error::ErrorStack;
use openssl::ssl::{SslConnector, SslMethod};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_openssl::SslStream;

/// Who sends.
const SENDER: &str = concat!("hearth/", env!("CARGO_PKG_VERSION"));

/// Where spans go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// The connection is encrypted.
    pub tls: bool,
    /// A name or an address; IPv6 without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Host and port as the header `Host` has them.
    pub authority: String,
    /// The path that traces are sent to.
    pub target: String,
    /// The file with headers that it wants.
    pub headers_file: Option<PathBuf>,
    /// The authorities that may have signed its certificate, if not the system's.
    pub authorities: Option<PathBuf>,
}

/// Why a batch was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    #[error("the collector at {authority} cannot be reached")]
    Unreachable {
        authority: String,
        #[source]
        source: io::Error,
    },
    #[error("the collector has not answered within {} s", POST_TIME_MAX.as_secs())]
    Late,
    #[error("the TLS session with the collector failed")]
    Tls(#[source] openssl::ssl::Error),
    #[error("the authorities of telemetry.authority cannot be used")]
    Authorities(#[source] ErrorStack),
    #[error("the connection to the collector broke")]
    Broken(#[source] hyper::Error),
    #[error("the collector answers {0}")]
    Status(StatusCode),
    #[error("the request to the collector cannot be made")]
    Request(#[source] hyper::http::Error),
    #[error(transparent)]
    Headers(#[from] HeadersError),
}

impl PostError {
    /// Whether the same batch may be taken later. By the specification of OTLP these statuses say so, and others that the
    /// batch will never be taken.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Status(status) => matches!(status.as_u16(), 429 | 502 | 503 | 504),
            _ => true,
        }
    }

    /// What to do about it.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } | Self::Late | Self::Broken(_) => {
                "look whether the collector runs and telemetry.otlp names its port for OTLP over HTTP, 4318 by default"
            }
            Self::Tls(_) | Self::Authorities(_) => {
                "look at the collector's certificate, and name who has signed it in telemetry.authority"
            }
            Self::Status(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) | Self::Headers(_) => {
                "write the header that the collector wants into telemetry.headers_file, which the daemon's user can read"
            }
            Self::Status(_) | Self::Request(_) => {
                "look at the collector's log, and whether telemetry.otlp names its port for OTLP over HTTP, 4318 by default"
            }
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Collector {
    /// Sends a batch over a connection of its own, and returns the answer's body. Takes [`POST_TIME_MAX`] at most.
    ///
    /// # Errors
    /// [`PostError`].
    pub(crate) async fn post(&self, batch: Bytes) -> Result<Bytes, PostError> {
        let posting = tokio::time::timeout(POST_TIME_MAX, self.try_post(batch));
        posting.await.unwrap_or(Err(PostError::Late))
    }

    async fn try_post(&self, batch: Bytes) -> Result<Bytes, PostError> {
        let request = self.request(batch).await?;
        let stream = TokioIo::new(self.connect().await?);
        let (mut sender, connection) = http1::handshake(stream).await.map_err(PostError::Broken)?;
        let answering = async {
            let answer = sender.send_request(request).await;
            let answer = answer.map_err(PostError::Broken)?;
            let status = answer.status();
            if !status.is_success() {
                return Err(PostError::Status(status));
            }
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
            // The batch is taken; a longer answer says nothing that is needed.
            let body = body.collect().await;
            Ok(body.map(Collected::to_bytes).unwrap_or_default())
        };
        let mut answering = std::pin::pin!(answering);
        tokio::select! {
            answer = &mut answering => answer,
            // The connection may end before its answer is looked at.
            _ = connection => answering.await,
        }
    }

    async fn request(&self, batch: Bytes) -> Result<Request<Full<Bytes>>, PostError> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.target)
            .header(HOST, &self.authority)
            .header(USER_AGENT, SENDER)
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(Full::new(batch))
            .map_err(PostError::Request)?;
        if let Some(path) = self.headers_file.clone() {
            let reading = tokio::task::spawn_blocking(move || headers::read(&path));
            let read = reading.await.map_err(io::Error::other);
            let read = read.map_err(HeadersError::from)??;
            for (name, value) in read {
                request.headers_mut().append(name, value);
            }
        }
        Ok(request)
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, PostError> {
        let connecting = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = connecting.map_err(|source| PostError::Unreachable {
            authority: self.authority.clone(),
            source,
        })?;
        if !self.tls {
            return Ok(Box::new(stream));
        }
        let mut builder =
            SslConnector::builder(SslMethod::tls_client()).map_err(PostError::Authorities)?;
        if let Some(authorities) = &self.authorities {
            builder
                .set_ca_file(authorities)
                .map_err(PostError::Authorities)?;
        }
        let session = builder.build().configure();
        let session = session.and_then(|session| session.into_ssl(&self.host));
        let session = session.and_then(|session| SslStream::new(session, stream));
        let mut stream = session.map_err(PostError::Authorities)?;
        let shaken = Pin::new(&mut stream).connect().await;
        shaken.map_err(PostError::Tls)?;
        Ok(Box::new(stream))
    }
}
