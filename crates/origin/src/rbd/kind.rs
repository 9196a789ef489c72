//! Images of Ceph clusters among the kinds of origins.

use super::clients::{Former, Record};
use super::image::RbdOrigin;
use super::lock::{self, NoLock};
use crate::limits::SECTOR;
use crate::open::{Kind, Reached};
use crate::patience::within;
use crate::sessions::Session;
use crate::timed::Timed;
use crate::{Keeping, OpenError, Origin, RbdSpec};
use block_io::{BufPool, OriginGeometry};
use librbd::{Address, Image};
use ring::Ring;
use std::io;
use std::thread;
use units::Bytes;

/// An image that is open, and ours if it is to be written.
#[derive(Debug)]
struct OpenedImage {
    spec: RbdSpec,
    geometry: OriginGeometry,
    /// None when it has been started, or closed.
    image: Option<Image>,
    /// Of an image that is written.
    session: Option<Session>,
}

impl OpenedImage {
    /// Closes it here. Blocks for as long as the cluster takes.
    fn close(mut self) {
        self.image = None;
    }
}

impl Drop for OpenedImage {
    /// An image that nobody starts is closed on a thread of its own, because the cluster may take its time.
    fn drop(&mut self) {
        let Some(image) = self.image.take() else {
            return;
        };
        let session = self.session.take();
        let thread = thread::Builder::new().name("rbd-close".to_owned());
        // Without a thread it is closed here, when the closure is dropped.
        let _ = thread.spawn(move || {
            drop(image);
            drop(session);
        });
    }
}

impl RbdSpec {
    fn address(&self) -> Address<'_> {
        Address {
            conf: self.conf.as_deref(),
            user: self.user.as_deref(),
            pool: &self.pool,
            namespace: &self.namespace,
            image: &self.image,
            snapshot: self.snapshot.as_deref(),
        }
    }

    fn unreachable(&self, error: librbd::Error) -> OpenError {
        let source = match error {
            librbd::Error::Failed { what, source } => {
                io::Error::new(source.kind(), format!("{what}: {source}"))
            }
            other => io::Error::other(other),
        };
        OpenError::Unreachable {
            origin: self.to_string(),
            source,
        }
    }

    fn refused(&self, error: NoLock) -> OpenError {
        let origin = self.to_string();
        match error {
            NoLock::InUse(_) => OpenError::InUse {
                origin,
                by: error.to_string().into(),
            },
            NoLock::NoFeature => OpenError::Refused {
                origin,
                reason: error.to_string(),
            },
            NoLock::Failed(error) => self.unreachable(error),
        }
    }

    /// Opens the image. Blocks for as long as the cluster takes.
    fn open(&self, read_only: bool) -> Result<(Image, OriginGeometry), OpenError> {
        if self.snapshot.is_some() && !read_only {
            return Err(OpenError::ReadOnly {
                origin: self.to_string(),
            });
        }
        let opened = Image::open(&self.address(), read_only);
        let opened = opened.and_then(|image| image.size().map(|size| (image, size)));
        let (image, size) = opened.map_err(|error| self.unreachable(error))?;
        let (size, sector) = (Bytes::new(size), Bytes::new(SECTOR));
        if size.is_zero() || !size.is_multiple_of(SECTOR) {
            return Err(OpenError::Size {
                origin: self.to_string(),
                size,
                sector,
            });
        }
        let geometry = OriginGeometry {
            size,
            sector,
            read_only,
            can_discard: !read_only,
        };
        Ok((image, geometry))
    }

    /// Opens the image and takes its lock. Blocks for as long as the cluster takes.
    fn open_to_write(&self, record: Option<&Record>) -> Result<OpenedImage, OpenError> {
        let session = Session::alone(&self.name)?;
        let (image, geometry) = self.open(false)?;
        let failed = |record: &Record, source| OpenError::Record {
            origin: self.to_string(),
            path: record.path(),
            source,
        };
        let former = match record {
            Some(record) => record.load().map_err(|error| failed(record, error))?,
            None => Former::default(),
        };
        let client = image.client();
        if let Some(record) = record {
            let added = record.add(former.clone(), client);
            added.map_err(|error| failed(record, error))?;
        }
        lock::take(&image, &former).map_err(|error| self.refused(error))?;
        if let Some(record) = record {
            let stored = record.store_only(client);
            stored.map_err(|error| failed(record, error))?;
        }
        Ok(OpenedImage {
            spec: self.clone(),
            geometry,
            image: Some(image),
            session: Some(session),
        })
    }

    /// Does what opening takes, for no longer than it may.
    fn within<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, OpenError> + Send + 'static,
    ) -> Result<T, OpenError> {
        let silence = "its cluster does not answer: look at ceph status";
        within(self, self.connect_timeout, silence, work)
    }

    fn reach_to_read(&self) -> Result<OpenedImage, OpenError> {
        self.within(|spec| {
            let (image, geometry) = spec.open(true)?;
            Ok(OpenedImage {
                spec: spec.clone(),
                geometry,
                image: Some(image),
                session: None,
            })
        })
    }
}

impl Kind for RbdSpec {
    fn reach(
        &self,
        read_only: bool,
        keeping: Option<&Keeping>,
    ) -> Result<Box<dyn Reached>, OpenError> {
        if read_only {
            return Ok(Box::new(self.reach_to_read()?));
        }
        let record = keeping.map(|keeping| Record::of(keeping, &self.name));
        let opened = self.within(move |spec| spec.open_to_write(record.as_ref()))?;
        Ok(Box::new(opened))
    }

    fn reach_beside(&self) -> Result<Box<dyn Reached>, OpenError> {
        Ok(Box::new(self.reach_to_read()?))
    }

    fn measure(&self) -> Result<OriginGeometry, OpenError> {
        let opened = self.reach_to_read()?;
        let geometry = opened.geometry;
        opened.close();
        Ok(OriginGeometry {
            read_only: false,
            can_discard: true,
            ..geometry
        })
    }

    /// Waits until the image is closed, and so without a lock.
    fn settle(&self, _keeping: &Keeping, _is_leaving: bool) -> io::Result<()> {
        let still = "the image is still being closed: its lock is free when the cluster answers";
        Session::settle(&self.name, still)
    }

    fn expect_anything(&self, keeping: &Keeping) -> io::Result<()> {
        Record::of(keeping, &self.name).store_anybody()
    }
}

impl Reached for OpenedImage {
    fn geometry(&self) -> OriginGeometry {
        self.geometry
    }

    fn start(mut self: Box<Self>, ring: &Ring, pool: &BufPool) -> Box<dyn Origin> {
        let image = self.image.take();
        let running = image.expect("it is started once").start();
        let (name, limit) = (self.spec.name.clone(), self.spec.request_timeout);
        let session = self.session.take();
        let origin = RbdOrigin::new(name.clone(), self.geometry, running, session, ring);
        Box::new(Timed::new(origin, name, limit, pool))
    }
}
