//! The admin API's paths of the cluster.

use super::Answer;
use super::glance::{asked, sensible};
use crate::Control;
use crate::cluster::View;
use crate::glance::Asked;
use api::cluster::ClusterStatus;
use api::problem::ProblemKind;
use api::rows::{FleetHost, FleetRows};
use api::types::Problem;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use placement::FleetReport;
use serde::Deserialize;
use std::sync::Arc;

/// The paths, of a host that sees its cluster there, if it is in one.
pub(super) fn routes(view: Option<Arc<View>>) -> Router<Arc<Control>> {
    Router::new()
        .route("/v1/cluster", get(show_cluster))
        .route("/v1/cluster/loads", get(show_loads))
        .route("/v1/fleet", get(show_fleet))
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

/// Which disks of the cluster.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WhichDisks {
    search: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

/// The hosts of the cluster and its disks, a page at a time, as this host sees them in the store.
#[utoipa::path(get, path = "/v1/fleet", params(
    ("search" = Option<String>, Query, description = "Only disks whose name, VM or host has this text"),
    ("after" = Option<String>, Query, description = "Only those behind the disk of this identity: an answer's `next`"),
    ("limit" = Option<usize>, Query, description = "At most so many, 1 to 1000; 100 unless given"),
), responses(
    (status = 200, description = "The cluster; where the store is away, as it was seen last", body = FleetRows),
    (status = 400, description = "Makes no sense", body = Problem),
    (status = 409, description = "This host is in no cluster", body = Problem),
))]
pub(super) async fn show_fleet(
    State(view): State<Option<Arc<View>>>,
    which: Result<Query<WhichDisks>, QueryRejection>,
) -> Answer<FleetRows> {
    let which = sensible(which)?;
    let asked = asked(which.search.as_deref(), which.after, which.limit)?;
    let all = seen_by(view.as_deref())?.look().await;
    Ok(Json(fleet(all, &asked)))
}

/// The page that is asked for.
fn fleet(all: ClusterStatus, asked: &Asked) -> FleetRows {
    let mut disks = all.disks;
    disks.retain(|disk| {
        let host = disk.host.as_deref().unwrap_or_default();
        [&disk.name, &disk.vm, host]
            .into_iter()
            .any(|text| asked.finds(text))
    });
    disks.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
    let page = asked.page(disks, |disk| disk.id.as_str());
    let hosts = all.hosts.into_iter().map(|host| FleetHost {
        name: host.name,
        version: host.says.version,
        flash_bytes: host.says.flash_bytes,
        disks: host.says.disks.len() as u64,
    });
    FleetRows {
        cluster: all.cluster,
        here: all.here,
        store: all.store,
        hosts: hosts.collect(),
        total: page.total,
        next: page.last_before_more().map(|disk| disk.id.clone()),
        rows: page.rows,
    }
}

fn seen_by(view: Option<&View>) -> Result<&View, Problem> {
    view.ok_or_else(|| {
        Problem::new(ProblemKind::Refused, "this host is in no cluster")
            .with_remedy("name a store in [store] of the configuration, and restart the daemon")
    })
}
