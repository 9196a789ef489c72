//! The admin API's paths of VMs and base images.

use super::names::VmName;
use super::{Answer, Body, Shared, parse, to_the_end};
use crate::Control;
use crate::observer::AtAGlance;
use api::types::Problem;
use api::vms::{ImageStatus, Images, VmStatus, Vms};
use axum::extract::{Query, State};
use axum::routing::{delete, get};
use axum::{Json, Router};
use configuration::VmChange;
use serde::Deserialize;
use std::sync::Arc;

/// The paths.
pub(super) fn routes() -> Router<Arc<Control>> {
    Router::new()
        .route("/v1/vms", get(list_vms))
        .route("/v1/vms/{name}", get(show_vm).patch(change_vm))
        .route("/v1/vms/{name}/settings", delete(reset_vm))
        .route("/v1/images", get(list_images))
        .route("/v1/images/{name}", get(show_image))
}

/// Every VM and base image.
#[utoipa::path(get, path = "/v1/vms", responses((status = 200, description = "Every VM and base image", body = Vms)))]
pub(super) async fn list_vms(State(control): Shared) -> Json<Vms> {
    Json(control.observer().vms().await)
}

/// One VM.
#[utoipa::path(get, path = "/v1/vms/{name}", params(("name" = String, Path)), responses(
    (status = 200, description = "The VM as it is now", body = VmStatus),
    (status = 404, description = "No such VM", body = Problem),
))]
pub(super) async fn show_vm(State(control): Shared, VmName(name): VmName) -> Answer<VmStatus> {
    Ok(Json(control.observer().vm(&name).await?))
}

/// Every base image.
#[utoipa::path(get, path = "/v1/images", responses((status = 200, description = "Every base image", body = Images)))]
pub(super) async fn list_images(State(control): Shared) -> Json<Images> {
    Json(AtAGlance::of(control.observer()).images().await)
}

/// One base image.
#[utoipa::path(get, path = "/v1/images/{name}", params(("name" = String, Path)), responses(
    (status = 200, description = "The base image as it is now", body = ImageStatus),
    (status = 404, description = "No such base image", body = Problem),
))]
pub(super) async fn show_image(
    State(control): Shared,
    VmName(name): VmName,
) -> Answer<ImageStatus> {
    Ok(Json(control.observer().image(&name).await?))
}

/// How a VM's settings are changed.
#[derive(Debug, Deserialize)]
pub(super) struct HowChanged {
    /// The VM need not be known yet.
    #[serde(default)]
    new: bool,
}

/// Changes a VM's settings; they are remembered over restarts and hold over the configuration file's.
#[utoipa::path(patch, path = "/v1/vms/{name}", params(
    ("name" = String, Path),
    ("new" = Option<bool>, Query, description = "The VM need not be known yet; false unless given"),
), request_body = VmChange, responses(
    (status = 200, description = "The VM as it is now", body = VmStatus),
    (status = 400, description = "Makes no sense, or contradicts other settings", body = Problem),
    (status = 404, description = "No such VM, and it is not said to be new", body = Problem),
    (status = 500, description = "Cannot be remembered", body = Problem),
))]
pub(super) async fn change_vm(
    State(control): Shared,
    VmName(name): VmName,
    Query(how): Query<HowChanged>,
    body: Body,
) -> Answer<VmStatus> {
    let change: VmChange = parse(body)?;
    to_the_end(async move { control.set_vm(&name, change, how.new).await })
        .await
        .map(Json)
}

/// Takes back what was changed of a VM's settings: the configuration file's hold again.
#[utoipa::path(delete, path = "/v1/vms/{name}/settings", params(("name" = String, Path)), responses(
    (status = 200, description = "The VM as it is now", body = VmStatus),
    (status = 400, description = "The file's settings contradict others", body = Problem),
    (status = 404, description = "No such VM", body = Problem),
))]
pub(super) async fn reset_vm(State(control): Shared, VmName(name): VmName) -> Answer<VmStatus> {
    to_the_end(async move { control.reset_vm(&name).await })
        .await
        .map(Json)
}
