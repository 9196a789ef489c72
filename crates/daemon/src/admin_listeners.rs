//! What operators and Prometheus ask at: the admin socket, the metrics' address, the page.

use super::admin::{self, Shown};
use super::control::Control;
use super::listen::{self, ListenError};
use super::page_tls::PageTls;
use super::sockets::Sockets;
use axum::Router;
use configuration::{Address, Config, Switch};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Begins to serve the admin socket, the metrics' address and the page, until `ends`.
///
/// # Errors
/// If the admin socket cannot be listened on. Addresses that cannot are tried again.
pub(super) fn serve_admin(
    config: &Config,
    sockets: &Arc<Sockets>,
    (control, shown): (&Arc<Control>, Shown),
    ends: watch::Receiver<bool>,
) -> Result<JoinSet<()>, ListenError> {
    let mut tasks = JoinSet::new();
    let (listener, place) = listen::admin(&config.daemon, sockets)?;
    let router = admin::router(Arc::clone(control), shown.clone());
    let serving = admin::serve(listener, router, admin::peer, ends.clone());
    tasks.spawn(async move {
        let _place = place;
        serving.await;
    });
    if let Switch::On(Address(address)) = config.daemon.metrics_address.0 {
        let router = admin::metrics_router(Arc::clone(control), shown.clone());
        let serving = serve_tcp("the metrics' address", address, router, ends.clone());
        tasks.spawn(serving);
    }
    if let Switch::On(Address(address)) = config.web.address.0 {
        let tls = shown.reloader.page();
        let router = admin::page_router(Arc::clone(control), shown);
        tasks.spawn(serve_page(address, router, tls, ends));
    }
    Ok(tasks)
}

/// Serves a TCP address as soon as it can be had, until `ends`.
async fn serve_tcp(
    what: &'static str,
    address: SocketAddr,
    router: Router,
    mut ends: watch::Receiver<bool>,
) {
    let listener = tokio::select! {
        listener = listen::tcp(what, address) => listener,
        () = admin::told(&mut ends) => return,
    };
    admin::serve(listener, router, |_| None, ends).await;
}

/// Serves the page as soon as its address and its certificate can be had, until `ends`.
async fn serve_page(
    address: SocketAddr,
    router: Router,
    tls: Option<Arc<PageTls>>,
    mut ends: watch::Receiver<bool>,
) {
    let listening = async {
        if let Some(tls) = &tls {
            tls.wait().await;
        }
        listen::tcp("the page's address", address).await
    };
    let listener = tokio::select! {
        listener = listening => listener,
        () = admin::told(&mut ends) => return,
    };
    admin::serve_page(listener, router, tls, ends).await;
}
