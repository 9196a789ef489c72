//! The admin API's paths of caches' policies, and of advice on the host.

use super::names::CacheName;
use super::{Answer, Body, Shared, parse, to_the_end};
use crate::Control;
use crate::scrubs;
use api::advice::HostAdvice;
use api::scrub::ScrubRequest;
use api::types::{CacheStatus, Problem};
use axum::extract::State;
use axum::routing::{delete, get, patch, post};
use axum::{Json, Router};
use configuration::PolicyChange;
use std::sync::Arc;

/// The paths.
pub(super) fn routes() -> Router<Arc<Control>> {
    Router::new()
        .route("/v1/caches/{name}/policy", patch(change_policy))
        .route("/v1/caches/{name}/settings", delete(reset_policy))
        .route("/v1/caches/{name}/scrub", post(scrub).delete(stop_scrub))
        .route("/v1/advice", get(show_advice))
}

/// Changes a cache's policy; it is remembered over restarts and holds over the configuration file's.
#[utoipa::path(patch, path = "/v1/caches/{name}/policy", params(("name" = String, Path)),
    request_body = PolicyChange, responses(
    (status = 200, description = "The cache as it is now", body = CacheStatus),
    (status = 400, description = "Makes no sense, or contradicts other settings", body = Problem),
    (status = 404, description = "No such cache", body = Problem),
    (status = 500, description = "Cannot be remembered", body = Problem),
))]
pub(super) async fn change_policy(
    State(control): Shared,
    CacheName(name): CacheName,
    body: Body,
) -> Answer<CacheStatus> {
    let change: PolicyChange = parse(body)?;
    to_the_end(async move { control.set_policy_of(&name, change).await })
        .await
        .map(Json)
}

/// Takes back what was changed of a cache's policy: the configuration file's holds again.
#[utoipa::path(delete, path = "/v1/caches/{name}/settings", params(("name" = String, Path)), responses(
    (status = 200, description = "The cache as it is now", body = CacheStatus),
    (status = 400, description = "The file's settings contradict others", body = Problem),
    (status = 404, description = "No such cache", body = Problem),
))]
pub(super) async fn reset_policy(
    State(control): Shared,
    CacheName(name): CacheName,
) -> Answer<CacheStatus> {
    to_the_end(async move { control.reset_policy_of(&name).await })
        .await
        .map(Json)
}

/// Has what is on a cache's flash read and its checksums verified, while guests are served. It goes on over restarts;
/// while a pass is under way only its rate changes.
#[utoipa::path(post, path = "/v1/caches/{name}/scrub", params(("name" = String, Path)),
    request_body = ScrubRequest, responses(
    (status = 200, description = "The cache as it is now", body = CacheStatus),
    (status = 400, description = "The rate is no size", body = Problem),
    (status = 404, description = "No such cache", body = Problem),
    (status = 409, description = "Its flash is not in use", body = Problem),
))]
pub(super) async fn scrub(
    State(control): Shared,
    CacheName(name): CacheName,
    body: Body,
) -> Answer<CacheStatus> {
    let asked: ScrubRequest = parse(body)?;
    to_the_end(async move { scrubs::scrub(&control, &name, asked).await })
        .await
        .map(Json)
}

/// Ends the pass of the scrub that is under way, if there is one.
#[utoipa::path(delete, path = "/v1/caches/{name}/scrub", params(("name" = String, Path)), responses(
    (status = 200, description = "The cache as it is now", body = CacheStatus),
    (status = 404, description = "No such cache", body = Problem),
))]
pub(super) async fn stop_scrub(
    State(control): Shared,
    CacheName(name): CacheName,
) -> Answer<CacheStatus> {
    to_the_end(async move { scrubs::stop(&control, &name).await })
        .await
        .map(Json)
}

/// Who would gain from flash, whether there is too little, whether the write budget costs hits, and
/// whether more flash would pay.
#[utoipa::path(get, path = "/v1/advice", responses((status = 200, description = "What the caches of this host would gain from", body = HostAdvice)))]
pub(super) async fn show_advice(State(control): Shared) -> Json<HostAdvice> {
    Json(control.observer().advice().await)
}
