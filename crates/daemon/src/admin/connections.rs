//! Connections of the admin API and of Prometheus: how many, and for how long they may say nothing.
//!
//! ```text
//!   accept ─► place ─► a request's head, within HEAD_TIME_MAX ─► its body, within BODY_TIME_MAX ─► answer
//!     ▲                   └── neither in time: closed ──┘                                            │
//!     └────────────────────────── the place is free ◄─────────────────────────────────────────────────┘
//! ```
//!
//! So a client that sends half a request, or none, keeps its place for a while and not for ever.

use super::Refusal;
use api::events::Who;
use api::problem::ProblemKind;
use api::types::Problem;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// How long the head of a request may take, from the connection's beginning or the answer before.
/// Prometheus asks more seldom and connects again.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// How long its body may take: an attach request is a kilobyte.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);

/// Connections to one listener at a time. Commands and Prometheus have one each for a moment; further
/// ones wait in the backlog.
pub(super) const CONNECTIONS_MAX: usize = 64;

/// Who asks, as the system or the page's gate says.
#[derive(Clone, Debug)]
pub(super) struct Caller(pub(super) Who);

/// Who is at the other end of the admin socket.
pub(in super::super) fn peer(stream: &UnixStream) -> Option<Who> {
    let peer = stream.peer_cred().ok()?;
    Some(Who::User {
        uid: peer.uid(),
        pid: peer.pid().and_then(|pid| u32::try_from(pid).ok()),
    })
}

/// Serves a listener's clients until `ends` becomes true or its sender is gone, and then to the end of
/// the requests that were begun. `who` says who a client is, if that is to be known.
pub(in super::super) async fn serve<L: Listener>(
    mut listener: L,
    router: Router,
    who: fn(&L::Io) -> Option<Who>,
    mut ends: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut open = JoinSet::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        tokio::select! {
            () = told(&mut ends) => break,
            Some(_) = open.join_next() => {}
            // Places are never closed, so there always is one.
            (place, (stream, _)) = next => if let Ok(place) = place {
                let router = match who(&stream) {
                    Some(who) => router.clone().layer(Extension(Caller(who))),
                    None => router.clone(),
                };
                open.spawn(connection(stream, router, ends.clone(), place));
            }
        }
    }
    drop(listener);
    while open.join_next().await.is_some() {}
}

/// Serves a connection, which holds its `place` meanwhile.
pub(super) async fn connection<S, P>(
    stream: S,
    router: Router,
    mut ends: watch::Receiver<bool>,
    _place: P,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = told(&mut ends) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the admin API was lost, or said nothing in time");
    }
}

/// Waits for the word to end, or the end of whoever could give it.
pub(in super::super) async fn told(ends: &mut watch::Receiver<bool>) {
    let _either = ends.wait_for(|end| *end).await;
}

/// Has a request's body before anything is done about it, or refuses the request.
pub(super) async fn whole_body(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let head = parts.clone();
    let received = Bytes::from_request(Request::from_parts(parts, body), &());
    let refused = match tokio::time::timeout(BODY_TIME_MAX, received).await {
        Ok(Ok(bytes)) => return next.run(Request::from_parts(head, Body::from(bytes))).await,
        Ok(Err(error)) => Problem::new(ProblemKind::Invalid, error.body_text()),
        Err(_) => {
            let seconds = BODY_TIME_MAX.as_secs();
            let detail = format!("the request's body did not come within {seconds} s");
            Problem::new(ProblemKind::Invalid, detail)
        }
    };
    Refusal::from(refused).into_response()
}
