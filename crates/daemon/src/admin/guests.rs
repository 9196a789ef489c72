//! The admin API's paths of the agents in guests.

use super::names::VmName;
use super::{Answer, Control};
use crate::guest_sockets::GuestSockets;
use api::guests::GuestPeers;
use api::types::Problem;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;

/// The paths.
pub(super) fn routes(guests: Arc<GuestSockets>) -> Router<Arc<Control>> {
    Router::new()
        .route("/v1/vms/{name}/peers", get(show_peers))
        .with_state(guests)
}

/// Whom a VM's guest speaks with over TCP, as its agent says. Nothing of it is proved but which VM says it.
#[utoipa::path(get, path = "/v1/vms/{name}/peers", params(("name" = String, Path)), responses(
    (status = 200, description = "Bytes by address, the most first", body = GuestPeers),
    (status = 404, description = "No VM of this name has a channel for its agent", body = Problem),
    (status = 409, description = "The configuration does not let guests say it", body = Problem),
))]
pub(super) async fn show_peers(
    State(guests): State<Arc<GuestSockets>>,
    VmName(name): VmName,
) -> Answer<GuestPeers> {
    Ok(Json(guests.peers(&name)?))
}
