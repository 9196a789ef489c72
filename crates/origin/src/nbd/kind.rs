//! Exports of NBD servers among the kinds of origins.

use super::{Dialled, NbdOrigin, dial};
use crate::open::{Kind, Reached};
use crate::{Keeping, NbdSpec, OpenError, Origin};
use block_io::{BufPool, OriginGeometry};
use ring::Ring;
use units::Bytes;

impl Kind for NbdSpec {
    fn reach(
        &self,
        read_only: bool,
        keeping: Option<&Keeping>,
    ) -> Result<Box<dyn Reached>, OpenError> {
        Ok(Box::new(dial(self, read_only, keeping)?))
    }

    fn measure(&self) -> Result<Bytes, OpenError> {
        Ok(dial(self, true, None)?.geometry().size)
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
