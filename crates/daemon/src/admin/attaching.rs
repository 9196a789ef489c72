//! The paths that attach a disk.

use super::names::DiskName;
use super::write_back::query;
use super::{Answer, Body, Refusal, Shared, parse, to_the_end};
use crate::debts::attach_waiting as attach_waiting_disk;
use api::problem::ProblemKind;
use api::types::{DiskStatus, Problem};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use configuration::DiskConfig;
use serde::Deserialize;

/// How to attach.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AttachQuery {
    without_store: bool,
}

/// Attaches a disk; it is remembered over restarts until it is detached.
#[utoipa::path(post, path = "/v1/disks", request_body = DiskConfig, params(
    ("without_store" = Option<bool>, Query, description = "The operator's word that no other host has the disk, while the cluster's store does not answer"),
), responses(
    (status = 201, description = "Attached", body = DiskStatus),
    (status = 400, description = "Makes no sense", body = Problem),
    (status = 404, description = "No such cache", body = Problem),
    (status = 409, description = "A disk of this name or identity is attached, or without_store is not for it", body = Problem),
    (status = 502, description = "The origin cannot be used", body = Problem),
    (status = 503, description = "The daemon is stopping", body = Problem),
))]
pub(super) async fn attach_disk(
    State(control): Shared,
    asked: Result<Query<AttachQuery>, QueryRejection>,
    body: Body,
) -> Result<Response, Refusal> {
    let how = query(asked)?;
    let disk: DiskConfig = parse(body)?;
    let attaching = async move { control.attach(disk, how.without_store).await };
    let status = to_the_end(attaching).await?;
    Ok((StatusCode::CREATED, Json(status)).into_response())
}

/// Attaches a disk that waits because the cluster's store does not answer, by the operator's word that no other host has it.
#[utoipa::path(post, path = "/v1/disks/{name}/attach", params(
    ("name" = String, Path),
    ("without_store" = bool, Query, description = "That word: true; other disks that wait are tried by themselves"),
), responses(
    (status = 200, description = "Attached", body = DiskStatus),
    (status = 400, description = "Makes no sense", body = Problem),
    (status = 404, description = "No such disk", body = Problem),
    (status = 409, description = "The disk does not wait, still waits, or without_store is not for it", body = Problem),
    (status = 503, description = "The daemon is stopping", body = Problem),
))]
pub(super) async fn attach_waiting(
    State(control): Shared,
    DiskName(name): DiskName,
    asked: Result<Query<AttachQuery>, QueryRejection>,
) -> Answer<DiskStatus> {
    if !query(asked)?.without_store {
        let detail = "a disk that waits is tried by itself; without_store=true attaches it while the store is away";
        return Err(Problem::new(ProblemKind::Invalid, detail).into());
    }
    to_the_end(async move { attach_waiting_disk(&control, &name).await })
        .await
        .map(Json)
}
