//! The paths that change a disk, bring what its origin lacks to it, and let it go.

use super::names::DiskName;
use super::{Answer, Body, Shared, parse, to_the_end};
use crate::Control;
use api::problem::ProblemKind;
use api::types::{DiskStatus, Problem};
use api::write_back::{Barrier, DiskChange, OfDirty};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::routing::{delete, post};
use axum::{Json, Router};
use serde::Deserialize;
use std::sync::Arc;

pub(super) fn routes() -> Router<Arc<Control>> {
    Router::new()
        .route("/v1/disks/{name}", delete(detach_disk).patch(change_disk))
        .route("/v1/disks/{name}/settings", delete(reset_disk))
        .route("/v1/disks/{name}/flush", post(flush_disk))
        .route("/v1/disks/{name}/barrier", post(barrier))
}

pub(super) fn query<Q>(query: Result<Query<Q>, QueryRejection>) -> Result<Q, Problem> {
    match query {
        Ok(Query(query)) => Ok(query),
        Err(error) => Err(Problem::new(ProblemKind::Invalid, error.body_text())),
    }
}

/// How to detach.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DetachQuery {
    force: bool,
    dirty: OfDirty,
    yes_lose_data: bool,
    erase: bool,
}

/// Detaches a disk. Its blocks stay on flash until they are reclaimed. A disk that waits is only
/// forgotten: its dirty log, owner's record and data key stay, and the answer says what is kept.
#[utoipa::path(delete, path = "/v1/disks/{name}", params(
    ("name" = String, Path),
    ("force" = Option<bool>, Query, description = "Detach although clients are connected; they are cut off"),
    ("dirty" = Option<OfDirty>, Query, description = "What becomes of bytes that the origin lacks; refuse unless given"),
    ("yes_lose_data" = Option<bool>, Query, description = "Needed with dirty=drop"),
    ("erase" = Option<bool>, Query, description = "Erase the disk's data key: what is on flash of it can be read by nobody any more"),
), responses(
    (status = 200, description = "Detached; the disk's last state", body = DiskStatus),
    (status = 400, description = "Makes no sense", body = Problem),
    (status = 404, description = "No such disk", body = Problem),
    (status = 409, description = "Clients are connected, the origin lacks bytes, or the disk waits and more is asked for than to forget it", body = Problem),
    (status = 502, description = "The origin does not take what it lacks", body = Problem),
))]
pub(super) async fn detach_disk(
    State(control): Shared,
    DiskName(name): DiskName,
    asked: Result<Query<DetachQuery>, QueryRejection>,
) -> Answer<DiskStatus> {
    let how = query(asked)?;
    if (how.dirty == OfDirty::Drop) != how.yes_lose_data {
        let detail = "dirty=drop loses what guests were promised, and needs yes_lose_data=true; nothing else takes it";
        return Err(Problem::new(ProblemKind::Invalid, detail).into());
    }
    if how.erase && how.dirty == OfDirty::Keep {
        let detail = "erase makes what dirty=keep keeps unreadable: use dirty=flush";
        return Err(Problem::new(ProblemKind::Invalid, detail).into());
    }
    to_the_end(async move { control.detach(&name, how.force, how.dirty, how.erase).await })
        .await
        .map(Json)
}

/// Changes a disk's settings. Answers when the change holds: one from or to write-back waits for the
/// origin. It is remembered over restarts.
#[utoipa::path(patch, path = "/v1/disks/{name}", params(("name" = String, Path)),
    request_body = DiskChange, responses(
    (status = 200, description = "The disk as it is now", body = DiskStatus),
    (status = 400, description = "Makes no sense, or there is no room for it", body = Problem),
    (status = 404, description = "No such disk", body = Problem),
    (status = 409, description = "The disk is not attached yet", body = Problem),
    (status = 500, description = "Cannot be recorded or remembered", body = Problem),
    (status = 502, description = "The origin does not take what it lacks", body = Problem),
))]
pub(super) async fn change_disk(
    State(control): Shared,
    DiskName(name): DiskName,
    body: Body,
) -> Answer<DiskStatus> {
    let change: DiskChange = parse(body)?;
    if change.is_nothing() {
        let detail = "nothing is to be changed: give write_policy, write_back or limits";
        return Err(Problem::new(ProblemKind::Invalid, detail).into());
    }
    to_the_end(async move { control.change_disk(&name, change).await })
        .await
        .map(Json)
}

/// Takes back what was changed of a disk of the configuration file.
#[utoipa::path(delete, path = "/v1/disks/{name}/settings", params(("name" = String, Path)), responses(
    (status = 200, description = "The disk as it is now", body = DiskStatus),
    (status = 400, description = "The configuration file has no such disk", body = Problem),
    (status = 404, description = "No such disk", body = Problem),
    (status = 502, description = "The origin does not take what it lacks", body = Problem),
))]
pub(super) async fn reset_disk(
    State(control): Shared,
    DiskName(name): DiskName,
) -> Answer<DiskStatus> {
    to_the_end(async move { control.reset_disk(&name).await })
        .await
        .map(Json)
}

/// Whether to wait.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FlushQuery {
    wait: bool,
}

/// Brings every write that was answered to the origin, durably. For a disk under write-back that
/// only begins unless it is to be waited for.
#[utoipa::path(post, path = "/v1/disks/{name}/flush", params(
    ("name" = String, Path),
    ("wait" = Option<bool>, Query, description = "Answer when the origin has everything"),
), responses(
    (status = 200, description = "The disk as it is now", body = DiskStatus),
    (status = 404, description = "No such disk", body = Problem),
    (status = 409, description = "The disk is not attached yet, or is locked", body = Problem),
    (status = 500, description = "The flush failed", body = Problem),
    (status = 502, description = "The origin does not take what it lacks", body = Problem),
))]
pub(super) async fn flush_disk(
    State(control): Shared,
    DiskName(name): DiskName,
    asked: Result<Query<FlushQuery>, QueryRejection>,
) -> Answer<DiskStatus> {
    let FlushQuery { wait } = query(asked)?;
    to_the_end(async move { control.flush(&name, wait).await })
        .await
        .map(Json)
}

/// Makes the origin consistent as of now, for a snapshot or a backup of it. Answers when it is.
#[utoipa::path(post, path = "/v1/disks/{name}/barrier", params(("name" = String, Path)), responses(
    (status = 200, description = "The origin is consistent", body = Barrier),
    (status = 404, description = "No such disk", body = Problem),
    (status = 409, description = "The disk is not attached yet, is locked, or is destaged in any order", body = Problem),
    (status = 502, description = "The origin does not take what it lacks", body = Problem),
))]
pub(super) async fn barrier(State(control): Shared, DiskName(name): DiskName) -> Answer<Barrier> {
    to_the_end(async move { control.barrier(&name).await })
        .await
        .map(Json)
}
