//! The admin API's path of the cluster.

use super::Answer;
use crate::Control;
use crate::cluster::View;
use api::cluster::ClusterStatus;
use api::problem::ProblemKind;
use api::types::Problem;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;

/// The paths, of a host that sees its cluster there, if it is in one.
pub(super) fn routes(view: Option<Arc<View>>) -> Router<Arc<Control>> {
    Router::new()
        .route("/v1/cluster", get(show_cluster))
        .with_state(view)
}

/// The hosts and disks of the cluster, as this host sees them in the store.
#[utoipa::path(get, path = "/v1/cluster", responses(
    (status = 200, description = "The cluster; where the store is away, as it was seen last", body = ClusterStatus),
    (status = 409, description = "This host is in no cluster", body = Problem),
))]
pub(super) async fn show_cluster(State(view): State<Option<Arc<View>>>) -> Answer<ClusterStatus> {
    let Some(view) = view else {
        let problem = Problem::new(ProblemKind::Refused, "this host is in no cluster");
        return Err(problem
            .with_remedy("name a store in [store] of the configuration, and restart the daemon")
            .into());
    };
    Ok(Json(view.look().await))
}
