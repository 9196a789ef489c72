//! The admin API's paths of what is seen at a glance: the host, rows of VMs and disks, points of charts.

use super::write_back::query;
use super::{Answer, Shared};
use crate::Control;
use crate::cluster::View;
use crate::glance::{Asked, DiskOrder, VmOrder};
use crate::history::{History, SERIES};
use crate::observer::AtAGlance;
use api::history::{History as Points, Series};
use api::overview::Overview;
use api::problem::ProblemKind;
use api::rows::{DiskRows, VmRows};
use api::types::Problem;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use std::sync::Arc;

/// The paths.
pub(super) fn routes(history: Arc<History>, view: Option<Arc<View>>) -> Router<Arc<Control>> {
    let overview = get(move |control| show_overview(control, view));
    Router::new()
        .route("/v1/overview", overview)
        .route("/v1/host/vms", get(list_vm_rows))
        .route("/v1/host/disks", get(list_disk_rows))
        .merge(
            Router::new()
                .route("/v1/history", get(show_history))
                .with_state(history),
        )
}

/// Whether all is well, what to do if not, and what the cache is worth.
#[utoipa::path(get, path = "/v1/overview", responses((status = 200, description = "The host at a glance", body = Overview)))]
pub(super) async fn show_overview(
    State(control): Shared,
    view: Option<Arc<View>>,
) -> Json<Overview> {
    let cluster = view.map(|view| view.cluster().to_owned());
    Json(AtAGlance::of(control.observer()).overview(cluster).await)
}

/// Which VMs.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WhichVms {
    #[serde(default)]
    sort: VmOrder,
    search: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

/// VMs of this host, sorted, a page at a time.
#[utoipa::path(get, path = "/v1/host/vms", params(
    ("sort" = Option<VmOrder>, Query, description = "By what; `worst` unless given"),
    ("search" = Option<String>, Query, description = "Only those whose names have this text"),
    ("after" = Option<String>, Query, description = "Only those behind the VM of this name: an answer's `next`"),
    ("limit" = Option<usize>, Query, description = "At most so many, 1 to 1000; 100 unless given"),
), responses(
    (status = 200, description = "A row for each", body = VmRows),
    (status = 400, description = "Makes no sense", body = Problem),
))]
pub(super) async fn list_vm_rows(
    State(control): Shared,
    which: Result<Query<WhichVms>, QueryRejection>,
) -> Answer<VmRows> {
    let which = sensible(which)?;
    let asked = asked(which.search.as_deref(), which.after, which.limit)?;
    Ok(Json(
        AtAGlance::of(control.observer())
            .vm_rows(which.sort, &asked)
            .await,
    ))
}

/// Which disks.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WhichDisks {
    #[serde(default)]
    sort: DiskOrder,
    #[serde(default)]
    back: bool,
    search: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

/// Disks of this host and what their origins lack, sorted, a page at a time.
#[utoipa::path(get, path = "/v1/host/disks", params(
    ("sort" = Option<DiskOrder>, Query, description = "By what; `worst` unless given"),
    ("back" = Option<bool>, Query, description = "Only those that keep something from their origins, or may; all unless given"),
    ("search" = Option<String>, Query, description = "Only those whose names have this text"),
    ("after" = Option<String>, Query, description = "Only those behind the disk of this name: an answer's `next`"),
    ("limit" = Option<usize>, Query, description = "At most so many, 1 to 1000; 100 unless given"),
), responses(
    (status = 200, description = "A row for each", body = DiskRows),
    (status = 400, description = "Makes no sense", body = Problem),
))]
pub(super) async fn list_disk_rows(
    State(control): Shared,
    which: Result<Query<WhichDisks>, QueryRejection>,
) -> Answer<DiskRows> {
    let which = sensible(which)?;
    let asked = asked(which.search.as_deref(), which.after, which.limit)?;
    let observer = AtAGlance::of(control.observer());
    Ok(Json(
        observer.disk_rows(which.back, which.sort, &asked).await,
    ))
}

/// Which points.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WhichPoints {
    series: Option<String>,
    since: Option<f64>,
}

/// The last points of a host's charts, all caches together.
#[utoipa::path(get, path = "/v1/history", params(
    ("series" = Option<String>, Query, description = "Only these series, with commas between them; all unless given"),
    ("since" = Option<f64>, Query, description = "Only points after this time, in seconds since 1970"),
), responses(
    (status = 200, description = "The points, the oldest first: of the last 24 hours unless the configuration has another step", body = Points),
    (status = 400, description = "Makes no sense", body = Problem),
))]
pub(super) async fn show_history(
    State(history): State<Arc<History>>,
    which: Result<Query<WhichPoints>, QueryRejection>,
) -> Answer<Points> {
    let which = sensible(which)?;
    let names: Vec<&str> = match which.series.as_deref() {
        Some(names) => names.split(',').filter(|name| !name.is_empty()).collect(),
        None => SERIES.to_vec(),
    };
    let since = which.since.unwrap_or(0.0);
    let points = history.points();
    let series = names.into_iter().map(|name| {
        let values = points.series(name, since).ok_or_else(|| {
            let detail = format!("there is no series '{name}'");
            Problem::new(ProblemKind::Invalid, detail)
                .with_remedy(format!("the series are {}", SERIES.join(", ")))
        })?;
        Ok(Series {
            name: name.to_owned(),
            values,
        })
    });
    let series = series.collect::<Result<_, Problem>>()?;
    Ok(Json(Points {
        step_seconds: history.step().to_std().as_secs_f64(),
        at_seconds: points.times(since),
        series,
    }))
}

pub(super) fn asked(
    search: Option<&str>,
    after: Option<String>,
    limit: Option<usize>,
) -> Result<Asked, Problem> {
    Asked::new(search, after, limit).map_err(|detail| Problem::new(ProblemKind::Invalid, detail))
}

/// What is asked, if that makes sense.
pub(super) fn sensible<Q>(which: Result<Query<Q>, QueryRejection>) -> Result<Q, Problem> {
    let remedy = "GET /v1/openapi.json shows what may be asked";
    query(which).map_err(|problem| problem.with_remedy(remedy))
}
