//! The admin API's path by which the configuration is read again.

use super::{Answer, Shared, to_the_end};
use crate::Control;
use crate::reload::Reloader;
use api::reload::Reload;
use api::types::Problem;
use axum::extract::{Query, State};
use axum::routing::post;
use axum::{Extension, Json, Router};
use serde::Deserialize;
use std::sync::Arc;

/// The path.
pub(super) fn routes(reloader: Arc<Reloader>) -> Router<Arc<Control>> {
    Router::new()
        .route("/v1/reload", post(reload))
        .layer(Extension(reloader))
}

/// How the configuration is read again.
#[derive(Debug, Deserialize)]
pub(super) struct HowReloaded {
    /// It is only told what would come of it.
    #[serde(default)]
    dry_run: bool,
}

/// Reads the configuration again and applies what can change without a restart.
#[utoipa::path(post, path = "/v1/reload", params(
    ("dry_run" = Option<bool>, Query, description = "Only tell what would come of it; false unless given"),
), responses(
    (status = 200, description = "Every difference, and what came of it", body = Reload),
    (status = 400, description = "The configuration is wrong: nothing was changed", body = Problem),
    (status = 503, description = "The daemon is stopping", body = Problem),
))]
pub(super) async fn reload(
    State(control): Shared,
    Extension(reloader): Extension<Arc<Reloader>>,
    Query(how): Query<HowReloaded>,
) -> Answer<Reload> {
    to_the_end(async move { reloader.reload(&control, how.dry_run).await })
        .await
        .map(Json)
}
