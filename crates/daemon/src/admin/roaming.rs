//! The admin API's paths of disks that roam.

use super::names::DiskName;
use super::{Answer, Shared};
use crate::Control;
use api::roaming::{MigrationCheck, RoamingDisk, RoamingDisks};
use api::types::Problem;
use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use std::sync::Arc;

/// The paths.
pub(super) fn routes() -> Router<Arc<Control>> {
    Router::new()
        .route("/v1/roaming", get(list_roaming))
        .route("/v1/roaming/{name}", get(show_roaming))
        .route("/v1/roaming/{name}/check", get(check_migration))
}

/// Every disk that roams, and the peers of this host.
#[utoipa::path(get, path = "/v1/roaming", responses((status = 200, description = "Every disk that roams", body = RoamingDisks)))]
pub(super) async fn list_roaming(State(control): Shared) -> Json<RoamingDisks> {
    Json(control.observer().roaming().await)
}

/// One disk that roams.
#[utoipa::path(get, path = "/v1/roaming/{name}", params(("name" = String, Path)), responses(
    (status = 200, description = "How the disk roams now", body = RoamingDisk),
    (status = 404, description = "No such disk", body = Problem),
    (status = 409, description = "The disk does not roam", body = Problem),
))]
pub(super) async fn show_roaming(
    State(control): Shared,
    DiskName(name): DiskName,
) -> Answer<RoamingDisk> {
    Ok(Json(control.observer().roaming_disk(&name).await?))
}

/// Where a VM is to go.
#[derive(Debug, Deserialize)]
pub(super) struct Destination {
    /// A peer.
    to: Option<String>,
}

/// Whether a disk, or all disks of a VM, could be handed over now. The peer is asked; nothing is changed.
#[utoipa::path(get, path = "/v1/roaming/{name}/check", params(
    ("name" = String, Path, description = "A disk or a VM"),
    ("to" = Option<String>, Query, description = "The peer that it would go to; this host unless given"),
), responses(
    (status = 200, description = "Whether it would be right, and what is in the way", body = MigrationCheck),
    (status = 404, description = "No such disk, VM or peer", body = Problem),
))]
pub(super) async fn check_migration(
    State(control): Shared,
    DiskName(name): DiskName,
    Query(Destination { to }): Query<Destination>,
) -> Answer<MigrationCheck> {
    Ok(Json(control.observer().check(&name, to.as_deref()).await?))
}
