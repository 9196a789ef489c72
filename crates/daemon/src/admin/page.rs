//! The page for browsers, and the paths of the admin API that it reads. Nothing is changed over this listener: there is no
//! path that does.

use super::refusal::Refusal;
use super::{Shown, cluster, connections, event_log, glance, resources, vms};
use super::{nothing_here, show_disk, show_status};
use crate::Control;
use api::problem::ProblemKind;
use api::types::Problem;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST};
use axum::http::{HeaderName, HeaderValue, Method, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;
use web::{ANEW, HEADERS, Page, is_this_host};

/// The longest body of a request: a browser that only looks sends none.
const BODY_BYTES_MAX: usize = 1 << 10;

/// The page, for the address of `[web]`.
pub(crate) fn router(control: Arc<Control>, shown: Shown) -> Router {
    let page = Arc::new(Page::default());
    let view = shown.seen.map(|seen| seen.view);
    Router::new()
        .route("/v1/status", get(show_status))
        .route("/v1/disks/{name}", get(show_disk))
        .route("/v1/vms/{name}", get(vms::show_vm))
        .route("/v1/images", get(vms::list_images))
        .route("/v1/resources", get(resources::show_resources))
        .merge(glance::routes(shown.history, view.clone()))
        .merge(cluster::routes(view))
        .merge(event_log::routes(&control, shown.events))
        .fallback(move |method, uri| file(Arc::clone(&page), method, uri))
        .method_not_allowed_fallback(nothing_here)
        .layer(middleware::from_fn(connections::whole_body))
        .layer(middleware::from_fn(guarded))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(control)
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
async fn guarded(request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let mut response = if is_this_host(host) {
        next.run(request).await
    } else {
        let problem = Problem::new(
            ProblemKind::Refused,
            format!("'{host}' is not what this page is called"),
        );
        let remedy = "ask for localhost or 127.0.0.1, from elsewhere through ssh -L";
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
