//! The client's side of the admin API: one request, one answer, over the daemon's unix socket.

use super::problem::Problem;
use http_body_util::{BodyExt, Full, Limited};
pub use hyper::Method;
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderValue;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use units::errors::chain;

/// How long connecting to a socket of this host may take; the daemon accepts at once or its
/// control thread is stuck.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// The largest answer that is read: 1,024 disks with full histograms are below 16 MiB.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// What answers are mostly.
const JSON: &str = "application/json";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The daemon cannot be reached, or has broken the connection off.
    #[error("{message}")]
    Unreachable {
        /// What happened.
        message: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The daemon refuses the request.
    #[error("{}", .0.detail)]
    Refused(Problem),
    /// The request cannot be made of this path.
    #[error("{0}")]
    Path(String),
    /// The body cannot be written as JSON.
    #[error("{0}")]
    Body(String),
    /// The answer is too long, or ends early.
    #[error("{0}")]
    Answer(String),
    /// The answer is in another language than ours.
    #[error("cannot make sense of the daemon's answer ({status}): {error}")]
    Strange {
        /// Its status.
        status: StatusCode,
        /// What cannot be made sense of.
        error: serde_json::Error,
    },
}

impl ClientError {
    /// What to do about it.
    pub fn remedy(&self) -> Option<&str> {
        match self {
            Self::Unreachable { remedy, .. } => Some(remedy),
            Self::Refused(problem) => problem.remedy.as_deref(),
            Self::Strange { .. } => Some(
                "use the hearth that belongs to the running daemon: compare hearth --version with hearth status",
            ),
            Self::Path(_) | Self::Body(_) | Self::Answer(_) => None,
        }
    }
}

/// What carries an answer.
pub(super) type Connection = JoinHandle<hyper::Result<()>>;

/// A daemon to talk to.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
    traceparent: Option<HeaderValue>,
}

impl Client {
    /// The daemon that listens on this socket.
    pub fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
            traceparent: None,
        }
    }

    /// The same, each of whose requests belongs to a trace: the W3C's `traceparent`. What cannot be in a header is left out; the
    /// daemon passes over one that it does not understand.
    #[must_use]
    pub fn traced(self, traceparent: Option<&str>) -> Self {
        let value = traceparent.map(HeaderValue::from_str);
        Self {
            traceparent: value.and_then(Result::ok),
            ..self
        }
    }

    /// Asks for a resource.
    ///
    /// # Errors
    /// If the daemon cannot be reached, answers with a problem, or not in our language.
    pub async fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, ClientError> {
        self.send::<(), A>(Method::GET, path, None).await
    }

    /// Asks for a text.
    ///
    /// # Errors
    /// See [`Client::get`].
    pub async fn text(&self, path: &str) -> Result<String, ClientError> {
        let (status, bytes) = self.exchange(Method::GET, path, Vec::new()).await?;
        if status.is_success() {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        Err(refused(status, &bytes))
    }

    /// Sends a request with or without a body and reads the answer.
    ///
    /// # Errors
    /// See [`Client::get`].
    pub async fn send<B: Serialize, A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
    ) -> Result<A, ClientError> {
        let body = match body {
            Some(body) => {
                serde_json::to_vec(body).map_err(|error| ClientError::Body(chain(&error)))?
            }
            None => Vec::new(),
        };
        let (status, bytes) = self.exchange(method, path, body).await?;
        if status.is_success() {
            return serde_json::from_slice(&bytes)
                .map_err(|error| ClientError::Strange { status, error });
        }
        Err(refused(status, &bytes))
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let (answer, connection) = self.ask(method, path, body, JSON).await?;
        let collected = collected(answer).await;
        connection.abort();
        collected
    }

    /// Sends a request. The answer comes over the connection that is answered beside it.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        accept: &str,
    ) -> Result<(Response<Incoming>, Connection), ClientError> {
        let stream = self.connect().await?;
        let broken = |error: hyper::Error| ClientError::Unreachable {
            message: format!("the daemon broke the connection off: {}", chain(&error)),
            remedy: "journalctl -u hearth -n 50",
        };
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        let connection = tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "hearth")
            .header("accept", accept)
            .header("content-type", JSON)
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| ClientError::Path(chain(&error)))?;
        if let Some(traceparent) = &self.traceparent {
            let headers = request.headers_mut();
            headers.insert("traceparent", traceparent.clone());
        }
        let answer = sender.send_request(request).await.map_err(broken)?;
        Ok((answer, connection))
    }

    async fn connect(&self) -> Result<UnixStream, ClientError> {
        let connecting = UnixStream::connect(&self.socket);
        match tokio::time::timeout(CONNECT_TIME_MAX, connecting).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(self.unreachable(&error)),
            Err(_) => Err(self.unreachable(&io::Error::from(io::ErrorKind::TimedOut))),
        }
    }

    fn unreachable(&self, error: &io::Error) -> ClientError {
        let remedy = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "run this as root, or as a member of the configuration's daemon.admin_group"
            }
            io::ErrorKind::TimedOut => "journalctl -u hearth -n 50",
            _ => "systemctl status hearth; another socket is given with --socket",
        };
        ClientError::Unreachable {
            message: format!(
                "cannot reach the daemon at {}: {error}",
                self.socket.display()
            ),
            remedy,
        }
    }
}

pub(super) async fn collected(
    answer: Response<Incoming>,
) -> Result<(StatusCode, Bytes), ClientError> {
    let status = answer.status();
    let collected = Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
        .collect()
        .await
        .map_err(|error| ClientError::Answer(error.to_string()))?;
    Ok((status, collected.to_bytes()))
}

pub(super) fn refused(status: StatusCode, bytes: &Bytes) -> ClientError {
    match serde_json::from_slice(bytes) {
        Ok(problem) => ClientError::Refused(problem),
        Err(error) => ClientError::Strange { status, error },
    }
}
