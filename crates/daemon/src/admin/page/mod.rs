//! The page for browsers, the paths of the admin API that it reads, and those by which its operators change something.

mod gate;
mod open;
mod serving;
mod visitor;

pub(super) use gate::{__path_show_operator, show_operator};
pub(in super::super) use serving::serve;

use super::refusal::Refusal;
use super::{
    Shown, caches, cluster, commands, connections, drives, event_log, glance, resources, vms,
    write_back,
};
use super::{drop_disk, nothing_here, resize_disk, show_disk, show_status};
use crate::Control;
use crate::page_access::PageAccess;
use api::problem::ProblemKind;
use api::types::Problem;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST};
use axum::http::{HeaderName, HeaderValue, Method, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, patch, post};
use axum::{Extension, Router};
use std::sync::Arc;
use visitor::Visitor;
use web::{ANEW, HEADERS, Page};

/// The longest body of a request: a change of settings is below a kilobyte.
const BODY_BYTES_MAX: usize = 16 << 10;

/// The page, for the address of `[web]`.
pub(crate) fn router(control: Arc<Control>, shown: Shown) -> Router {
    let page = Arc::new(Page::default());
    let view = shown.seen.map(|seen| seen.view);
    let access = shown.page;
    Router::new()
        .route("/v1/status", get(show_status))
        .route("/v1/images", get(vms::list_images))
        .route("/v1/resources", get(resources::show_resources))
        .merge(drives::looks(shown.drives))
        .merge(glance::routes(shown.history, view.clone()))
        .merge(cluster::routes(view))
        .merge(event_log::routes(&control, shown.events))
        .merge(changes())
        .merge(operator(&access))
        .fallback(move |method, uri| file(Arc::clone(&page), method, uri))
        .method_not_allowed_fallback(nothing_here)
        .layer(middleware::from_fn_with_state(shown.tracer, commands::tell))
        .layer(middleware::from_fn(connections::whole_body))
        .layer(middleware::from_fn_with_state(access, gate::gate))
        .layer(middleware::from_fn(guarded))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(control)
}

/// What [`open`] says is open, and what is read at the same paths.
fn changes() -> Router<Arc<Control>> {
    Router::new()
        .route(
            "/v1/disks/{name}",
            get(show_disk).patch(write_back::change_disk),
        )
        .route("/v1/disks/{name}/settings", delete(write_back::reset_disk))
        .route("/v1/disks/{name}/flush", post(write_back::flush_disk))
        .route("/v1/disks/{name}/barrier", post(write_back::barrier))
        .route("/v1/disks/{name}/resize", post(resize_disk))
        .route("/v1/disks/{name}/drop", post(drop_disk))
        .route("/v1/vms/{name}", get(vms::show_vm).patch(vms::change_vm))
        .route("/v1/vms/{name}/settings", delete(vms::reset_vm))
        .route("/v1/caches/{name}/policy", patch(caches::change_policy))
        .route("/v1/caches/{name}/settings", delete(caches::reset_policy))
        .route(
            "/v1/caches/{name}/scrub",
            post(caches::scrub).delete(caches::stop_scrub),
        )
}

fn operator(access: &Arc<PageAccess>) -> Router<Arc<Control>> {
    Router::new()
        .route("/v1/operator", get(show_operator))
        .with_state(Arc::clone(access))
}

async fn file(page: Arc<Page>, method: Method, uri: Uri) -> Response {
    match page.at(uri.path()) {
        Some(asset) if method == Method::GET || method == Method::HEAD => {
            let headers = [(CONTENT_TYPE, asset.kind), (CACHE_CONTROL, asset.caching)];
            (headers, asset.bytes).into_response()
        }
        _ => nothing_here(method, uri).await.into_response(),
    }
}

/// Answers only who names this host, and adds what every answer says.
async fn guarded(Extension(visitor): Extension<Visitor>, request: Request, next: Next) -> Response {
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next().filter(|_| hosts.next().is_none());
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let mut response = if visitor.means_this_host(host) {
        next.run(request).await
    } else {
        let problem = Problem::new(
            ProblemKind::Refused,
            format!("'{host}' is not what this page is called"),
        );
        let remedy = "ask for localhost or 127.0.0.1, from elsewhere through ssh -L; with TLS, for a name in the page's certificate";
        Refusal::from(problem.with_remedy(remedy)).into_response()
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    let anew = HeaderValue::from_static(ANEW);
    headers.entry(CACHE_CONTROL).or_insert(anew);
    response
}
