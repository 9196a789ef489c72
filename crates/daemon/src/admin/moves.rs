//! The admin API's paths of the cluster's moves.

use super::{Answer, Body, parse, to_the_end};
use crate::Control;
use crate::cluster::MoveBook;
use api::cluster::{ClusterMove, ClusterMoves};
use api::problem::ProblemKind;
use api::types::Problem;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use executor::{Settings, SettingsChange};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

type Book = State<Option<Arc<MoveBook>>>;

/// The paths, of a host that has its cluster's moves there, if it is in one.
pub(super) fn routes(book: Option<Arc<MoveBook>>) -> Router<Arc<Control>> {
    let settings = get(show_settings).post(change_settings);
    Router::new()
        .route("/v1/cluster/moves", get(list_moves))
        .route("/v1/cluster/moves/{vm}", get(show_move).post(start_move))
        .route("/v1/cluster/moves/{vm}/pace", post(pace_move))
        .route("/v1/cluster/moves/{vm}/approve", post(approve_move))
        .route("/v1/cluster/moves/{vm}/cancel", post(cancel_move))
        .route("/v1/cluster/moves/{vm}/clear", post(clear_move))
        .route("/v1/cluster/settings", settings)
        .with_state(book)
}

fn of(book: Option<Arc<MoveBook>>) -> Result<Arc<MoveBook>, Problem> {
    book.ok_or_else(|| {
        Problem::new(ProblemKind::Refused, "this host is in no cluster")
            .with_remedy("name a store in [store] of the configuration, and restart the daemon")
    })
}

/// Each VM's last move, what becomes of plans, and how many moves there are at a time.
#[utoipa::path(get, path = "/v1/cluster/moves", responses(
    (status = 200, description = "The moves", body = ClusterMoves),
    (status = 409, description = "This host is in no cluster", body = Problem),
    (status = 500, description = "The store does not answer", body = Problem),
))]
pub(super) async fn list_moves(State(book): Book) -> Answer<ClusterMoves> {
    Ok(Json(of(book)?.list().await?))
}

/// A VM's last move.
#[utoipa::path(get, path = "/v1/cluster/moves/{vm}", params(("vm" = String, Path)), responses(
    (status = 200, description = "The move", body = ClusterMove),
    (status = 404, description = "There is none of the VM", body = Problem),
    (status = 409, description = "This host is in no cluster", body = Problem),
    (status = 500, description = "The store does not answer", body = Problem),
))]
pub(super) async fn show_move(State(book): Book, Path(vm): Path<String>) -> Answer<ClusterMove> {
    Ok(Json(of(book)?.show(&vm).await?))
}

/// Where a VM is to go.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MoveRequest {
    /// A host.
    to: String,
}

/// Begins a move of a VM. It needs no approval, and waits for its turn.
#[utoipa::path(post, path = "/v1/cluster/moves/{vm}", params(("vm" = String, Path)), request_body = MoveRequest, responses(
    (status = 200, description = "The move", body = ClusterMove),
    (status = 404, description = "No host has a disk of the VM attached", body = Problem),
    (status = 409, description = "The VM is on its way or at several hosts, or the host is not heard of or does not list its disks", body = Problem),
    (status = 500, description = "The store does not answer", body = Problem),
))]
pub(super) async fn start_move(
    State(book): Book,
    Path(vm): Path<String>,
    body: Body,
) -> Answer<ClusterMove> {
    let request: MoveRequest = parse(body)?;
    let book = of(book)?;
    to_the_end(async move { book.start(&vm, &request.to).await })
        .await
        .map(Json)
}

/// What a migration may send.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PaceRequest {
    /// In a second.
    bytes_per_second: u64,
}

/// Lets a VM's migration, which is under way or about to begin, send so many bytes a second; for a minute, if nobody says so
/// again.
#[utoipa::path(post, path = "/v1/cluster/moves/{vm}/pace", params(("vm" = String, Path)), request_body = PaceRequest, responses(
    (status = 200, description = "It is said", body = ()),
    (status = 400, description = "It is 0", body = Problem),
    (status = 409, description = "This host is in no cluster", body = Problem),
    (status = 500, description = "The store does not answer", body = Problem),
))]
pub(super) async fn pace_move(State(book): Book, Path(vm): Path<String>, body: Body) -> Answer<()> {
    let request: PaceRequest = parse(body)?;
    of(book)?.pace(&vm, request.bytes_per_second).await?;
    Ok(Json(()))
}

/// Approves a planned move.
#[utoipa::path(post, path = "/v1/cluster/moves/{vm}/approve", params(("vm" = String, Path)), responses(
    (status = 200, description = "The move", body = ClusterMove),
    (status = 404, description = "There is none of the VM", body = Problem),
    (status = 409, description = "It waits for no approval", body = Problem),
    (status = 500, description = "The store does not answer", body = Problem),
))]
pub(super) async fn approve_move(State(book): Book, Path(vm): Path<String>) -> Answer<ClusterMove> {
    let book = of(book)?;
    to_the_end(async move { book.approve(&vm).await })
        .await
        .map(Json)
}

/// Cancels a move. The VM stays at its source. Refused once the target has its disks.
#[utoipa::path(post, path = "/v1/cluster/moves/{vm}/cancel", params(("vm" = String, Path)), responses(
    (status = 200, description = "The move, which is being withdrawn", body = ClusterMove),
    (status = 404, description = "There is none of the VM", body = Problem),
    (status = 409, description = "It is too late, or the move is over", body = Problem),
    (status = 500, description = "The store does not answer", body = Problem),
))]
pub(super) async fn cancel_move(State(book): Book, Path(vm): Path<String>) -> Answer<ClusterMove> {
    let book = of(book)?;
    to_the_end(async move { book.cancel(&vm).await })
        .await
        .map(Json)
}

/// Clears a move that has failed: its VM is planned with again.
#[utoipa::path(post, path = "/v1/cluster/moves/{vm}/clear", params(("vm" = String, Path)), responses(
    (status = 200, description = "The move", body = ClusterMove),
    (status = 404, description = "There is none of the VM", body = Problem),
    (status = 409, description = "It has not failed", body = Problem),
    (status = 500, description = "The store does not answer", body = Problem),
))]
pub(super) async fn clear_move(State(book): Book, Path(vm): Path<String>) -> Answer<ClusterMove> {
    let book = of(book)?;
    to_the_end(async move { book.clear(&vm).await })
        .await
        .map(Json)
}

/// What operators have set for all hosts: what becomes of plans, by which rules they are made, limits, and VMs that stay.
#[utoipa::path(get, path = "/v1/cluster/settings", responses(
    (status = 200, description = "The settings; their form is in the book, chapter Balancing flash across hosts", content_type = "application/json"),
    (status = 409, description = "This host is in no cluster", body = Problem),
    (status = 500, description = "The store does not answer", body = Problem),
))]
pub(super) async fn show_settings(State(book): Book) -> Answer<Settings> {
    Ok(Json(of(book)?.settings().await?))
}

/// Changes what operators have set for all hosts. What is not said stays.
#[utoipa::path(post, path = "/v1/cluster/settings", responses(
    (status = 200, description = "The settings as they are then", content_type = "application/json"),
    (status = 400, description = "The change makes no sense", body = Problem),
    (status = 409, description = "This host is in no cluster", body = Problem),
    (status = 500, description = "The store does not answer", body = Problem),
))]
pub(super) async fn change_settings(State(book): Book, body: Body) -> Answer<Settings> {
    let change: SettingsChange = parse(body)?;
    let book = of(book)?;
    to_the_end(async move { book.set(&change).await })
        .await
        .map(Json)
}
