//! Units of iSCSI targets among the kinds of origins.

use super::key::{Key, Record};
use super::remote::{IscsiRemote, NoSession, Writer};
use crate::nbd::Dialled;
use crate::open::{Kind, Reached};
use crate::patience::within;
use crate::sessions::Session;
use crate::{IscsiSpec, Keeping, OpenError};
use block_io::OriginGeometry;
use std::io;
use std::sync::Arc;

impl IscsiSpec {
    fn failed(&self, error: NoSession) -> OpenError {
        let origin = self.to_string();
        match error {
            NoSession::InUse(by) => OpenError::InUse {
                origin,
                by: by.to_string().into(),
            },
            error => OpenError::Unreachable {
                origin,
                source: io::Error::other(error),
            },
        }
    }

    fn dial(&self, writer: Option<Writer>) -> Result<Dialled, OpenError> {
        let read_only = writer.is_none();
        let remote = IscsiRemote {
            spec: self.clone(),
            writer,
        };
        let connected = remote.log_in_first().map_err(|error| self.failed(error))?;
        // Later logins take nothing from anybody.
        let writer = remote.writer.map(Writer::who_takes_nothing);
        let remote = IscsiRemote { writer, ..remote };
        Dialled::new(Arc::new(remote), vec![connected], None, read_only)
    }

    fn dial_to_write(&self, record: Option<&Record>) -> Result<Dialled, OpenError> {
        let session = Session::alone(&self.name)?;
        let failed = |record: &Record, source| OpenError::Record {
            origin: self.to_string(),
            path: record.path(),
            source,
        };
        let key = match record {
            Some(record) => record.load().map_err(|error| failed(record, error))?,
            None => Key::passing(),
        };
        let writer = Writer::new(key, session);
        let dialled = self.dial(Some(writer))?;
        if let (Some(record), true) = (record, key.takes_from_anybody) {
            let key = Key {
                takes_from_anybody: false,
                ..key
            };
            record.store(key).map_err(|error| failed(record, error))?;
        }
        Ok(dialled)
    }

    /// Does what opening takes, for no longer than it may.
    fn within<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, OpenError> + Send + 'static,
    ) -> Result<T, OpenError> {
        let silence = "the target does not answer: look whether it listens at the portal";
        within(self, self.connect_timeout, silence, work)
    }
}

impl Kind for IscsiSpec {
    fn reach(
        &self,
        read_only: bool,
        keeping: Option<&Keeping>,
    ) -> Result<Box<dyn Reached>, OpenError> {
        if read_only {
            return self.reach_beside();
        }
        let record = keeping.map(|keeping| Record::of(keeping, &self.name));
        let dialled = self.within(move |spec| spec.dial_to_write(record.as_ref()))?;
        Ok(Box::new(dialled))
    }

    fn reach_beside(&self) -> Result<Box<dyn Reached>, OpenError> {
        Ok(Box::new(self.within(|spec| spec.dial(None))?))
    }

    fn measure(&self) -> Result<OriginGeometry, OpenError> {
        let geometry = self.within(|spec| spec.dial(None))?.geometry();
        Ok(OriginGeometry {
            read_only: false,
            ..geometry
        })
    }

    /// Waits until the session is over, and so the reservation.
    fn settle(&self, _keeping: &Keeping, _is_leaving: bool) -> io::Result<()> {
        let still = "the unit is still being given back: it is free when the target answers";
        Session::settle(&self.name, still)
    }

    fn expect_anything(&self, keeping: &Keeping) -> io::Result<()> {
        let record = Record::of(keeping, &self.name);
        record.store(Key {
            takes_from_anybody: true,
            ..record.load()?
        })
    }
}
