//! An export of an NBD server as an origin.

use crate::{NbdSpec, OpenError, Origin, OriginSpec, Sources};
use block_io::{BufPool, OriginDone, OriginGeometry, OriginOp};
use ring::Ring;
use std::io;
use units::Instant;

/// Connections that are through with their handshakes; it can move to its shard's thread.
#[derive(Debug)]
pub struct Dialled {
    geometry: OriginGeometry,
}

impl Dialled {
    /// Size, sector and abilities.
    pub fn geometry(&self) -> OriginGeometry {
        self.geometry
    }
}

/// Connects and negotiates. Blocks up to the specification's time limit.
///
/// # Errors
/// [`OpenError`], each variant naming the origin.
pub fn dial(spec: &NbdSpec, _read_only: bool) -> Result<Dialled, OpenError> {
    Err(OpenError::Unreachable {
        origin: OriginSpec::Nbd(spec.clone()).to_string(),
        source: io::ErrorKind::Unsupported.into(),
    })
}

/// An export of an NBD server as an origin.
#[derive(Debug)]
pub struct NbdOrigin {
    geometry: OriginGeometry,
}

impl NbdOrigin {
    /// Puts the connections on a shard's ring.
    pub fn new(dialled: Dialled, _ring: &Ring, _pool: &BufPool) -> Self {
        Self {
            geometry: dialled.geometry,
        }
    }
}

impl Origin for NbdOrigin {
    fn geometry(&self) -> OriginGeometry {
        self.geometry
    }
    fn submit(&mut self, _op: OriginOp, _now: Instant) {}
    fn poll(&mut self, _now: Instant, _done: &mut Vec<OriginDone>) {}
    fn next_deadline(&self) -> Option<Instant> {
        None
    }
    fn sources(&self) -> Sources {
        Sources::new()
    }
    fn fingerprint(&self) -> Option<u128> {
        None
    }
}
