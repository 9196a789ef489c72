//! Who is at the other end of a connection to the page.

use crate::page_tls::Ready;
use std::net::SocketAddr;
use std::sync::Arc;
use web::{is_this_host, name_of_host};

/// Who is at the other end of a connection, as far as the connection says.
#[derive(Clone)]
pub(in super::super) struct Visitor {
    /// From where.
    pub(super) address: SocketAddr,
    /// The names in the certificate that was shown; none if none was.
    pub(super) certificate: Vec<String>,
    /// The page's TLS, if the connection is encrypted.
    pub(super) tls: Option<Arc<Ready>>,
}

impl Visitor {
    /// Whether the header `Host` names this page: by the loopback, or over TLS as its certificate does.
    pub(super) fn means_this_host(&self, host: &str) -> bool {
        let is_certified = |name| self.tls.as_ref().is_some_and(|tls| tls.is_called(name));
        is_this_host(host) || name_of_host(host).is_some_and(is_certified)
    }
}
