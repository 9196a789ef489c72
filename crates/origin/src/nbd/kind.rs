//! Exports of NBD servers among the kinds of origins.

use super::{Dialled, NbdOrigin, dial};
use crate::open::{Kind, Reached};
use crate::{Keeping, NbdSpec, OpenError, Origin};
use block_io::{BufPool, OriginGeometry};
use ring::Ring;
use std::io;

impl Kind for NbdSpec {
    fn reach(
        &self,
        read_only: bool,
        keeping: Option<&Keeping>,
    ) -> Result<Box<dyn Reached>, OpenError> {
        Ok(Box::new(dial(self, read_only, keeping)?))
    }

    /// A server may answer one connection from a cache of its own that does not have what another one wrote.
    fn reach_beside(&self) -> Result<Box<dyn Reached>, OpenError> {
        Err(OpenError::Refused {
            origin: self.to_string(),
            reason: "an NBD server is not read while another host writes to it".to_owned(),
        })
    }

    fn measure(&self) -> Result<OriginGeometry, OpenError> {
        Ok(dial(self, true, None)?.geometry())
    }

    fn settle(&self, keeping: &Keeping, is_leaving: bool) -> io::Result<()> {
        keeping.settle(self, is_leaving)
    }

    fn expect_anything(&self, keeping: &Keeping) -> io::Result<()> {
        keeping.expect_anything(self)
    }
}

impl Reached for Dialled {
    fn geometry(&self) -> OriginGeometry {
        self.geometry()
    }

    fn start(self: Box<Self>, ring: &Ring, pool: &BufPool) -> Box<dyn Origin> {
        Box::new(NbdOrigin::new(*self, ring, pool))
    }
}
