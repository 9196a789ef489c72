//! The admin API's paths of disks that roam.

use super::names::DiskName;
use super::{Answer, Shared};
use crate::Control;
use api::roaming::{RoamingDisk, RoamingDisks};
use api::types::Problem;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;

/// The paths.
pub(super) fn routes() -> Router<Arc<Control>> {
    Router::new()
        .route("/v1/roaming", get(list_roaming))
        .route("/v1/roaming/{name}", get(show_roaming))
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
