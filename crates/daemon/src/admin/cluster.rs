//! The admin API's paths of the cluster.

use super::Answer;
use crate::Control;
use crate::cluster::View;
use api::cluster::ClusterStatus;
use api::problem::ProblemKind;
use api::types::Problem;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use placement::FleetReport;
use std::sync::Arc;

/// The paths, of a host that sees its cluster there, if it is in one.
pub(super) fn routes(view: Option<Arc<View>>) -> Router<Arc<Control>> {
    Router::new()
        .route("/v1/cluster", get(show_cluster))
        .route("/v1/cluster/loads", get(show_loads))
        .with_state(view)
}

/// The hosts and disks of the cluster, as this host sees them in the store.
#[utoipa::path(get, path = "/v1/cluster", responses(
    (status = 200, description = "The cluster; where the store is away, as it was seen last", body = ClusterStatus),
    (status = 409, description = "This host is in no cluster", body = Problem),
))]
pub(super) async fn show_cluster(State(view): State<Option<Arc<View>>>) -> Answer<ClusterStatus> {
    Ok(Json(seen_by(view.as_deref())?.look().await))
}

/// What the VMs of all hosts want of their flash: what `hearth plan` reads, as a file of loads has it.
#[utoipa::path(get, path = "/v1/cluster/loads", responses(
    (status = 200, description = "The loads of the hosts that are heard of; their form is in the book, chapter Balancing flash across hosts", content_type = "application/json"),
    (status = 409, description = "This host is in no cluster", body = Problem),
    (status = 500, description = "The store does not answer", body = Problem),
))]
pub(super) async fn show_loads(State(view): State<Option<Arc<View>>>) -> Answer<FleetReport> {
    Ok(Json(seen_by(view.as_deref())?.loads().await?))
}

fn seen_by(view: Option<&View>) -> Result<&View, Problem> {
    view.ok_or_else(|| {
        Problem::new(ProblemKind::Refused, "this host is in no cluster")
            .with_remedy("name a store in [store] of the configuration, and restart the daemon")
    })
}
