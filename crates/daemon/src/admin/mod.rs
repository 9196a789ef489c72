//! The daemon's side of the admin API: paths, and what each asks of the control.
//!
//! The `OpenAPI` document is generated from the same functions; see [`document`].

mod attaching;
mod caches;
mod cluster;
mod commands;
mod connections;
mod drives;
mod event_log;
mod glance;
mod guests;
mod moves;
mod names;
mod page;
mod refusal;
mod reload;
mod resources;
mod roaming;
mod vms;
mod write_back;

pub use commands::verbs;
pub(super) use connections::{peer, serve, told};
use names::DiskName;
pub(super) use page::{router as page_router, serve as serve_page};
use refusal::Refusal;

use crate::Control;
use crate::assembly::Seen;
use crate::drive_watch::DriveWatch;
use crate::event_log::EventLog;
use crate::glance::{DiskOrder, VmOrder};
use crate::guest_sockets::GuestSockets;
use crate::history::History;
use crate::metrics::{self, Scrape};
use crate::own_process::OwnProcess;
use crate::page_access::PageAccess;
use crate::reload::Reloader;
use crate::traces::Counts;
use api::events::Missed;
use api::problem::ProblemKind;
use api::types::{DiskStatus, Disks, Problem, RecordRequest, Recording, Status};
use api::write_back::OfDirty;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use telemetry::{Parent, Tracer};
use utoipa::OpenApi;

/// The largest request body: what the resource monitor says of 512 processes and 512 VMs is below 256 KiB.
const BODY_BYTES_MAX: usize = 256 << 10;

type Shared = State<Arc<Control>>;
type Body = Result<Bytes, BytesRejection>;
type Answer<T> = Result<Json<T>, Refusal>;

/// What the API shows beside the control.
#[derive(Clone)]
pub(crate) struct Shown {
    /// The cluster that this host is in.
    pub(crate) seen: Option<Seen>,
    /// Whom guests speak with.
    pub(crate) guests: Arc<GuestSockets>,
    /// What has happened.
    pub(crate) events: Arc<EventLog>,
    /// What was before.
    pub(crate) history: Arc<History>,
    /// The daemon's own process.
    pub(crate) process: OwnProcess,
    /// The drives under the caches.
    pub(crate) drives: Arc<DriveWatch>,
    /// What reads the configuration again.
    pub(crate) reloader: Arc<Reloader>,
    /// Who may change something through the page.
    pub(crate) page: Arc<PageAccess>,
    /// What begins the spans of commands.
    pub(crate) tracer: Tracer,
    /// What has become of spans, if there are any.
    pub(crate) spans: Option<Counts>,
    /// Whether metrics tell of each disk in detail.
    pub(crate) disk_details: bool,
}

/// The whole API, for the admin socket.
pub(crate) fn router(control: Arc<Control>, shown: Shown) -> Router {
    let seen = shown.seen.clone();
    let tracer = shown.tracer.clone();
    let guests = Arc::clone(&shown.guests);
    let recording = get(show_recording)
        .post(start_recording)
        .delete(stop_recording);
    Router::new()
        .route("/v1/status", get(show_status))
        .route("/v1/disks", get(list_disks).post(attaching::attach_disk))
        .route("/v1/disks/{name}", get(show_disk))
        .route("/v1/disks/{name}/attach", post(attaching::attach_waiting))
        .route("/v1/disks/{name}/drop", post(drop_disk))
        .route("/v1/disks/{name}/resize", post(resize_disk))
        .route("/v1/recording", recording)
        .merge(write_back::routes())
        .merge(reload::routes(Arc::clone(&shown.reloader)))
        .merge(vms::routes())
        .merge(glance::routes(
            Arc::clone(&shown.history),
            seen.as_ref().map(|seen| Arc::clone(&seen.view)),
        ))
        .merge(guests::routes(guests))
        .merge(caches::routes())
        .merge(drives::routes(Arc::clone(&shown.drives)))
        .merge(roaming::routes())
        .merge(resources::routes())
        .merge(cluster::routes(
            seen.as_ref().map(|seen| Arc::clone(&seen.view)),
        ))
        .merge(moves::routes(seen.map(|seen| seen.moves)))
        .merge(event_log::routes(&control, Arc::clone(&shown.events)))
        .route("/v1/openapi.json", get(show_document))
        .route("/metrics", get(move |control| show_metrics(control, shown)))
        .fallback(nothing_here)
        .method_not_allowed_fallback(nothing_here)
        .layer(middleware::from_fn_with_state(tracer, commands::tell))
        .layer(middleware::from_fn(connections::whole_body))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(control)
}

/// Only the metrics, for the address that Prometheus asks.
pub(crate) fn metrics_router(control: Arc<Control>, shown: Shown) -> Router {
    Router::new()
        .route("/metrics", get(move |control| show_metrics(control, shown)))
        .fallback(nothing_here)
        .method_not_allowed_fallback(nothing_here)
        .layer(middleware::from_fn(connections::whole_body))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(control)
}

/// The API's `OpenAPI` document.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Hearth admin API",
        description = "Served on the daemon's unix socket. Errors are problem objects (RFC 9457) with a remedy.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    paths(
        show_status,
        list_disks,
        attaching::attach_disk,
        attaching::attach_waiting,
        show_disk,
        drop_disk,
        resize_disk,
        write_back::detach_disk,
        write_back::change_disk,
        write_back::reset_disk,
        write_back::flush_disk,
        write_back::barrier,
        show_recording,
        start_recording,
        stop_recording,
        glance::show_overview,
        glance::list_vm_rows,
        glance::list_disk_rows,
        glance::show_history,
        vms::list_vms,
        vms::show_vm,
        vms::change_vm,
        vms::reset_vm,
        vms::list_images,
        vms::show_image,
        guests::show_peers,
        caches::change_policy,
        caches::reset_policy,
        caches::scrub,
        caches::stop_scrub,
        caches::show_advice,
        reload::reload,
        roaming::list_roaming,
        roaming::show_roaming,
        roaming::check_migration,
        roaming::prepare_move,
        roaming::abort_move,
        roaming::set_move,
        roaming::take_over,
        event_log::show_events,
        cluster::show_cluster,
        cluster::show_fleet,
        cluster::show_loads,
        moves::list_moves,
        moves::show_move,
        moves::start_move,
        moves::pace_move,
        moves::approve_move,
        moves::cancel_move,
        moves::clear_move,
        moves::show_settings,
        moves::change_settings,
        resources::show_resources,
        resources::take_reading,
        drives::show_drives,
        drives::take_health,
        page::show_operator,
        show_metrics,
        show_document
    ),
    components(schemas(OfDirty, Missed, VmOrder, DiskOrder))
)]
struct Document;

/// The `OpenAPI` document as JSON text.
///
/// # Panics
/// Never: the document is plain data.
pub fn document() -> String {
    let mut text = Document::openapi()
        .to_pretty_json()
        .expect("the document is plain data");
    text.push('\n');
    text
}

/// The daemon, its listeners and its caches.
#[utoipa::path(get, path = "/v1/status", responses((status = 200, description = "How the daemon and its caches are", body = Status)))]
async fn show_status(State(control): Shared) -> Json<Status> {
    Json(control.observer().status().await)
}

/// Every disk.
#[utoipa::path(get, path = "/v1/disks", responses((status = 200, description = "Every disk", body = Disks)))]
async fn list_disks(State(control): Shared) -> Json<Disks> {
    Json(control.observer().disks().await)
}

/// One disk.
#[utoipa::path(get, path = "/v1/disks/{name}", params(("name" = String, Path)), responses(
    (status = 200, description = "The disk as it is now", body = DiskStatus),
    (status = 404, description = "No such disk", body = Problem),
))]
async fn show_disk(State(control): Shared, DiskName(name): DiskName) -> Answer<DiskStatus> {
    Ok(Json(control.observer().disk(&name).await?))
}

/// Forgets a disk's cached blocks.
#[utoipa::path(post, path = "/v1/disks/{name}/drop", params(("name" = String, Path)), responses(
    (status = 200, description = "The disk as it is now", body = DiskStatus),
    (status = 404, description = "No such disk", body = Problem),
    (status = 409, description = "The disk is not attached yet", body = Problem),
))]
async fn drop_disk(State(control): Shared, DiskName(name): DiskName) -> Answer<DiskStatus> {
    to_the_end(async move { control.drop_blocks(&name).await })
        .await
        .map(Json)
}

/// Gives a disk all of its origin, which has become longer. What is cached of it stays.
#[utoipa::path(post, path = "/v1/disks/{name}/resize", params(("name" = String, Path)), responses(
    (status = 200, description = "The disk as it is now", body = DiskStatus),
    (status = 404, description = "No such disk", body = Problem),
    (status = 409, description = "The disk is not attached yet, is shared, or would become shorter", body = Problem),
    (status = 502, description = "The origin cannot be asked", body = Problem),
))]
async fn resize_disk(State(control): Shared, DiskName(name): DiskName) -> Answer<DiskStatus> {
    to_the_end(async move { control.resize(&name).await })
        .await
        .map(Json)
}

/// The recording that is under way, or the last one.
#[utoipa::path(get, path = "/v1/recording", responses(
    (status = 200, description = "The recording", body = Recording),
    (status = 409, description = "Nothing was recorded since the start", body = Problem),
))]
async fn show_recording(State(control): Shared) -> Answer<Recording> {
    Ok(Json(control.recordings().last()?))
}

/// Begins to record what guests ask. Nothing waits for the recorder: what it cannot keep up with is
/// lost and counted.
#[utoipa::path(post, path = "/v1/recording", request_body = RecordRequest, responses(
    (status = 201, description = "Under way", body = Recording),
    (status = 400, description = "Makes no sense", body = Problem),
    (status = 404, description = "No such disk", body = Problem),
    (status = 409, description = "Another one is under way, or the file exists", body = Problem),
    (status = 500, description = "The file cannot be written", body = Problem),
))]
async fn start_recording(State(control): Shared, body: Body) -> Result<Response, Refusal> {
    let request: RecordRequest = parse(body)?;
    let recording = to_the_end(async move { control.record(request).await }).await?;
    Ok((StatusCode::CREATED, Json(recording)).into_response())
}

/// Ends the recording; answers when its file is whole.
#[utoipa::path(delete, path = "/v1/recording", responses(
    (status = 200, description = "The file is whole", body = Recording),
    (status = 409, description = "Nothing is being recorded", body = Problem),
))]
async fn stop_recording(State(control): Shared) -> Answer<Recording> {
    let recordings = Arc::clone(control.recordings());
    to_the_end(recordings.stop()).await.map(Json)
}

/// Metrics in the `OpenMetrics` text format.
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, description = "Every metric", content_type = "application/openmetrics-text", body = String),
))]
async fn show_metrics(State(control): Shared, shown: Shown) -> Response {
    let (status, disks, vms, roaming) = control.observer().snapshot().await;
    let text = metrics::render(Scrape {
        status,
        disks,
        vms,
        roaming,
        resources: control.disk_sockets().resources().shown(1),
        events: shown.events.counts(),
        process: shown.process.figures(),
        drives: shown.drives.shown(),
        reload: shown.reloader.figures(),
        page_denied: shown.page.denied(),
        cluster: shown.seen.map(|seen| seen.observed.numbers()),
        spans: shown.spans.map(|spans| spans.now()),
        disk_details: shown.disk_details,
    });
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", responses((status = 200, description = "This document", body = Object)))]
async fn show_document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document()).into_response()
}

/// Does something to its end even if the client goes away meanwhile: a dropped request must not
/// leave a disk half attached. It is below the span of what runs here.
async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::spawn(Parent::here().within(work)).await {
        Ok(done) => Ok(done?),
        Err(error) => Err(Problem::new(ProblemKind::Failed, error.to_string()).into()),
    }
}

async fn nothing_here(method: axum::http::Method, uri: axum::http::Uri) -> Refusal {
    Problem::new(
        ProblemKind::NoSuchPath,
        format!("there is no {method} {}", uri.path()),
    )
    .with_remedy("GET /v1/openapi.json lists what there is")
    .into()
}

fn parse<T: DeserializeOwned>(body: Body) -> Result<T, Refusal> {
    let body = body.map_err(|error| Problem::new(ProblemKind::Invalid, error.body_text()))?;
    serde_json::from_slice(&body).map_err(|error| {
        Problem::new(ProblemKind::Invalid, error.to_string())
            .with_remedy("GET /v1/openapi.json shows what belongs into the body")
            .into()
    })
}
