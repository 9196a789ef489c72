//! The admin API's paths of the host's resources.

use super::{Answer, Body, Shared, parse};
use crate::Control;
use crate::registry::Entry;
use api::resources::{Resources, Watched};
use api::types::Problem;
use axum::extract::{Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use monitor::Reading;
use serde::Deserialize;
use std::sync::Arc;

/// The paths.
pub(super) fn routes() -> Router<Arc<Control>> {
    Router::new()
        .route("/v1/resources", get(show_resources))
        .route("/v1/resources/readings", post(take_reading))
}

/// How much is shown.
#[derive(Debug, Deserialize)]
pub(super) struct HowMuch {
    #[serde(default = "one")]
    samples: usize,
}

const fn one() -> usize {
    1
}

/// What the host and its VMs use.
#[utoipa::path(get, path = "/v1/resources", params(
    ("samples" = Option<usize>, Query, description = "How many of the last samples, at most 720; 1 unless given"),
), responses((status = 200, description = "As far as a monitor says so", body = Resources)))]
pub(super) async fn show_resources(
    State(control): Shared,
    Query(how): Query<HowMuch>,
) -> Json<Resources> {
    Json(control.disk_sockets().resources().shown(how.samples))
}

/// Takes what the resource monitor has read; answers what it reads next.
#[utoipa::path(post, path = "/v1/resources/readings", request_body = Reading, responses(
    (status = 200, description = "The processes to read beside the host", body = Watched),
    (status = 400, description = "Makes no sense", body = Problem),
))]
pub(super) async fn take_reading(State(control): Shared, body: Body) -> Answer<Watched> {
    let reading: Reading = parse(body)?;
    let entries = control.registry().all();
    let own = entries.iter().filter(|entry| !entry.config.shared);
    let here = own.map(Entry::vm).collect();
    let resources = control.disk_sockets().resources();
    let (watched, weights) = resources.read(reading, &here);
    control.tenancies().weigh(&weights).await;
    Ok(Json(watched))
}
