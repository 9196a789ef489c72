//! The admin API's paths of the drives under the caches.

use super::{Answer, Body, Shared, parse};
use crate::Control;
use crate::drive_watch::DriveWatch;
use api::drives::{FlashDrives, ToldHealth};
use api::types::Problem;
use axum::extract::Extension;
use axum::routing::{get, post};
use axum::{Json, Router};
use std::sync::Arc;

/// The paths.
pub(super) fn routes(watch: Arc<DriveWatch>) -> Router<Arc<Control>> {
    let telling = post(take_health).layer(Extension(Arc::clone(&watch)));
    looks(watch).route("/v1/drives/health", telling)
}

/// Those of them that change nothing.
pub(super) fn looks(watch: Arc<DriveWatch>) -> Router<Arc<Control>> {
    Router::new().route("/v1/drives", get(show_drives).layer(Extension(watch)))
}

/// The drives under each cache, and what they say of their health.
#[utoipa::path(get, path = "/v1/drives", responses((status = 200, description = "As the last look found them", body = FlashDrives)))]
pub(super) async fn show_drives(watch: Extension<Arc<DriveWatch>>) -> Json<FlashDrives> {
    Json(watch.shown())
}

/// Takes what somebody has heard of drives that the daemon may not ask.
#[utoipa::path(post, path = "/v1/drives/health", request_body = Vec<ToldHealth>, responses(
    (status = 200, description = "What is known then", body = FlashDrives),
    (status = 400, description = "Makes no sense", body = Problem),
))]
pub(super) async fn take_health(
    _: Shared,
    watch: Extension<Arc<DriveWatch>>,
    body: Body,
) -> Answer<FlashDrives> {
    let told: Vec<ToldHealth> = parse(body)?;
    Ok(Json(watch.told(told)))
}
