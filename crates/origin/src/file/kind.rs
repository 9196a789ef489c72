//! Files and block devices among the kinds of origins.

use super::{FileOrigin, ImageFormat, LockWatch, OpenedFile, measure, open, open_beside};
use crate::open::{Kind, Reached};
use crate::patience::within;
use crate::timed::Timed;
use crate::{FileSpec, Identity, Keeping, OpenError, Origin};
use block_io::{BufPool, OriginGeometry};
use ring::Ring;

impl Kind for FileSpec {
    /// What was in flight when a process ended is over with it, so nothing is kept.
    fn reach(
        &self,
        read_only: bool,
        _keeping: Option<&Keeping>,
    ) -> Result<Box<dyn Reached>, OpenError> {
        Ok(Box::new(self.within(move |file| open(file, read_only))?))
    }

    fn reach_beside(&self) -> Result<Box<dyn Reached>, OpenError> {
        Ok(Box::new(self.within(open_beside)?))
    }

    fn measure(&self) -> Result<OriginGeometry, OpenError> {
        self.within(measure)
    }
}

impl FileSpec {
    /// Does what opening takes, for no longer than a request may.
    pub(crate) fn within<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, OpenError> + Send + 'static,
    ) -> Result<T, OpenError> {
        let silence =
            "its file system does not answer: look whether the server of the share is there";
        within(self, self.request_timeout, silence, work)
    }
}

impl Reached for OpenedFile {
    fn geometry(&self) -> OriginGeometry {
        self.geometry()
    }

    fn identity(&self) -> Option<Identity> {
        self.identity()
    }

    fn image_format(&self) -> Option<ImageFormat> {
        self.image_format()
    }

    fn lock_watch(&self) -> Option<LockWatch> {
        self.lock_watch()
    }

    fn start(self: Box<Self>, ring: &Ring, pool: &BufPool) -> Box<dyn Origin> {
        let (name, limit) = (self.name.clone(), self.request_timeout);
        Box::new(Timed::new(
            FileOrigin::new(*self, ring, pool),
            name,
            limit,
            pool,
        ))
    }
}
