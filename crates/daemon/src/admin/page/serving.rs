//! Connections to the page, which may come from anywhere when it has TLS.
//!
//! ```text
//!   accept ─► one of the places ─► one of its address's ─► TLS handshake, within HANDSHAKE_TIME_MAX ─► requests
//! ```
//!
//! A client that says nothing in the handshake, sends half a request or reads no answer loses its place after a while. One address
//! has a quarter of the places at most, so that it alone keeps nobody out; the loopback has all of them, since tunnels of
//! several operators end there.

use super::super::connections::{self, CONNECTIONS_MAX, told};
use super::visitor::Visitor;
use crate::page_tls::PageTls;
use axum::{Extension, Router};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

/// How long a TLS handshake may take.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// How long an answer may wait for a client that reads nothing, in milliseconds.
const UNREAD_MS_MAX: u32 = 20_000;
/// Connections of one address at a time: a browser has six, and one for events.
const OF_ADDRESS_MAX: usize = CONNECTIONS_MAX / 4;
/// The pause after an error of the system, too many open files for example.
const ERROR_PAUSE: Duration = Duration::from_secs(1);

/// How many connections each address has.
#[derive(Default)]
struct Addresses(Mutex<BTreeMap<IpAddr, usize>>);

impl Addresses {
    /// A place for one more connection of an address; none if it has its share already.
    fn enter(self: &Arc<Self>, address: IpAddr) -> Option<OfAddress> {
        let address = network(address);
        let mut counts = self.lock();
        let count = counts.entry(address).or_default();
        if *count >= OF_ADDRESS_MAX && !address.is_loopback() {
            return None;
        }
        *count += 1;
        let addresses = Arc::clone(self);
        Some(OfAddress { addresses, address })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        // A panic elsewhere leaves a count whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who has one IPv6 address has the 64 bits behind it as well.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) if !six.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() >> 64 << 64))
        }
        other => other,
    }
}

/// A connection's place among those of its address.
struct OfAddress {
    addresses: Arc<Addresses>,
    address: IpAddr,
}

impl Drop for OfAddress {
    fn drop(&mut self) {
        let mut counts = self.addresses.lock();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// What a connection holds while it lasts.
struct Places {
    _of_all: OwnedSemaphorePermit,
    _of_address: OfAddress,
}

/// Serves the page's clients until `ends` becomes true or its sender is gone, and then to the end of the requests that were begun.
pub(in super::super::super) async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<Arc<PageTls>>,
    mut ends: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let addresses = Arc::new(Addresses::default());
    let mut open = JoinSet::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        tokio::select! {
            () = told(&mut ends) => break,
            Some(_) = open.join_next() => {}
            (place, accepted) = next => match (place, accepted) {
                (Ok(place), Ok((stream, address))) => {
                    if let Some(of_address) = addresses.enter(address.ip()) {
                        let places = Places { _of_all: place, _of_address: of_address };
                        let (router, tls, ends) = (router.clone(), tls.clone(), ends.clone());
                        open.spawn(connection((stream, address), router, tls, ends, places));
                    }
                }
                (_, Err(error)) => {
                    tracing::debug!(%error, "a connection to the page could not be accepted");
                    tokio::time::sleep(ERROR_PAUSE).await;
                }
                // Places are never closed, so there always is one.
                (Err(_), _) => break,
            }
        }
    }
    drop(listener);
    while open.join_next().await.is_some() {}
}

async fn connection(
    (stream, address): (TcpStream, SocketAddr),
    router: Router,
    tls: Option<Arc<PageTls>>,
    ends: watch::Receiver<bool>,
    places: Places,
) {
    if let Err(errno) = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNREAD_MS_MAX) {
        tracing::debug!(%errno, "a connection to the page has no time limit of its answers");
    }
    let Some(tls) = tls else {
        let visitor = Visitor {
            address,
            certificate: Vec::new(),
            tls: None,
        };
        let router = router.layer(Extension(visitor));
        return connections::connection(stream, router, ends, places).await;
    };
    // It was ready before the page was listened on, and stays so.
    let Some(ready) = tls.ready() else { return };
    let shaken = tokio::time::timeout(HANDSHAKE_TIME_MAX, ready.accept(stream)).await;
    match shaken {
        Ok(Ok((stream, certificate))) => {
            let visitor = Visitor {
                address,
                certificate,
                tls: Some(ready),
            };
            let router = router.layer(Extension(visitor));
            connections::connection(stream, router, ends, places).await;
        }
        Ok(Err(error)) => {
            tracing::debug!(%address, %error, "a TLS handshake with the page failed");
        }
        Err(_) => tracing::debug!(%address, "a TLS handshake with the page took too long"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_part_of_the_places_and_the_loopback_all() {
        let addresses = Arc::new(Addresses::default());
        let of = |text: &str| addresses.enter(text.parse().unwrap());
        let mut held: Vec<_> = (0..OF_ADDRESS_MAX)
            .map(|_| of("192.0.2.7").unwrap())
            .collect();
        assert!(of("192.0.2.7").is_none());
        assert!(of("::ffff:192.0.2.7").is_none(), "the same address");
        held.push(of("192.0.2.8").unwrap());
        held.extend((0..OF_ADDRESS_MAX).map(|at| of(&format!("2001:db8::{at}")).unwrap()));
        assert!(of("2001:db8::ffff").is_none(), "one network");
        held.push(of("2001:db8:0:1::1").unwrap());
        for here in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            held.extend((0..=OF_ADDRESS_MAX).map(|_| of(here).unwrap()));
        }
        held.clear();
        assert!(addresses.lock().is_empty());
    }
}
