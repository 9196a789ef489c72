//! What a cache has of flash.

use crate::api::{Config, ControlError};
use crate::limits::PATIENCE_TIMEOUTS;
use crate::ports::Ports;
use crate::purpose::FlushMark;
use block_store::{DirtyDisk, Store, WriteCount};
use units::{Bytes, DiskSlot, Duration};

/// What a cache has of flash.
pub(crate) enum FlashUse {
    /// What is cached lies on it.
    InUse(Box<Store>),
    /// It was given up, and is written no more.
    GivenUp {
        reason: &'static str,
        /// It, as long as it has bytes that an origin lacks: those are read from it.
        failed: Option<Box<Store>>,
    },
    /// The cache was opened without.
    Absent { reason: String },
}

impl FlashUse {
    /// The flash that is in use.
    #[inline]
    pub(crate) fn as_ref(&self) -> Option<&Store> {
        match self {
            Self::InUse(flash) => Some(flash),
            Self::GivenUp { .. } | Self::Absent { .. } => None,
        }
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn as_mut(&mut self) -> Option<&mut Store> {
        match self {
            Self::InUse(flash) => Some(flash),
            Self::GivenUp { .. } | Self::Absent { .. } => None,
        }
    }

    #[inline]
    pub(crate) fn is_in_use(&self) -> bool {
        matches!(self, Self::InUse(_))
    }

    /// Flash that was given up with bytes that an origin lacks.
    pub(crate) fn failed(&self) -> Option<&Store> {
        match self {
            Self::GivenUp { failed, .. } => failed.as_deref(),
            Self::InUse(_) | Self::Absent { .. } => None,
        }
    }

    /// The same, to change it.
    pub(crate) fn failed_mut(&mut self) -> Option<&mut Store> {
        match self {
            Self::GivenUp { failed, .. } => failed.as_deref_mut(),
            Self::InUse(_) | Self::Absent { .. } => None,
        }
    }

    /// What has the dirty logs: the flash that is in use, or that has failed with them.
    pub(crate) fn with_logs(&self) -> Option<&Store> {
        self.as_ref().or_else(|| self.failed())
    }

    /// The same, to change it.
    pub(crate) fn with_logs_mut(&mut self) -> Option<&mut Store> {
        match self {
            Self::InUse(flash) => Some(flash),
            Self::GivenUp { failed, .. } => failed.as_deref_mut(),
            Self::Absent { .. } => None,
        }
    }

    /// A disk's dirty log, on what has it.
    pub(crate) fn log_of(&self, disk: DiskSlot) -> Option<&DirtyDisk> {
        self.with_logs()?.dirty_logs().get(disk)
    }

    /// Whether the origin of a disk lacks something.
    #[inline]
    pub(crate) fn has_dirty(&self, disk: DiskSlot) -> bool {
        self.with_logs()
            .is_some_and(|flash| flash.dirty_logs().has(disk))
    }

    /// Bytes that a disk's origin lacks, erased ones included; a block for each record.
    pub(crate) fn dirty_bytes(&self, disk: DiskSlot) -> Bytes {
        let dirty = self.log_of(disk);
        dirty.map_or(Bytes::ZERO, |dirty| dirty.log().logged())
    }

    /// What is so when a flush of a disk's origin is asked for now.
    pub(crate) fn flush_mark(&self, ports: &Ports, disk: DiskSlot) -> FlushMark {
        let flash = self.as_ref();
        let writes = flash.map_or_else(WriteCount::default, |flash| {
            flash.origins().write_count(disk)
        });
        ports.flush_mark(disk, writes)
    }

    /// Whether the origin of a disk has everything.
    ///
    /// # Errors
    /// If it does not, or nobody knows.
    pub(crate) fn check_clean(&self, disk: DiskSlot) -> Result<(), ControlError> {
        let bytes = self.dirty_bytes(disk);
        match self.log_of(disk).and_then(DirtyDisk::locked) {
            _ if !bytes.is_zero() => Err(ControlError::Dirty { bytes }),
            // Its segments are not given up, whatever is left in them.
            Some(reason) => Err(ControlError::Locked(reason)),
            None => Ok(()),
        }
    }

    /// Gives a disk a log if it has none.
    pub(crate) fn give_log(&mut self, disk: DiskSlot) {
        if let Some(flash) = self.as_mut() {
            flash.write_back().give_log(disk);
        }
    }

    /// The same, to change it.
    pub(crate) fn log_of_mut(&mut self, disk: DiskSlot) -> Option<&mut DirtyDisk> {
        self.with_logs_mut()?.write_back().log_mut(disk)
    }

    /// What a block is read from: the flash that is in use, or else what has failed, for a block that
    /// nobody else has.
    #[inline]
    pub(crate) fn source_mut(&mut self, is_dirty: bool) -> Option<&mut Store> {
        if is_dirty {
            self.with_logs_mut()
        } else {
            self.as_mut()
        }
    }

    /// Why there is none in use.
    pub(crate) fn why_bypassed(&self) -> Option<&str> {
        match self {
            Self::InUse(_) => None,
            Self::GivenUp { reason, .. } => Some(reason),
            Self::Absent { reason } => Some(reason),
        }
    }

    /// It cannot be relied on any more. Returns its incarnation; none if it was not in use.
    pub(crate) fn give_up(&mut self, reason: &'static str) -> Option<u64> {
        let incarnation = self.as_ref()?.facts().incarnation();
        let given_up = Self::GivenUp {
            reason,
            failed: None,
        };
        if let Self::InUse(flash) = std::mem::replace(self, given_up) {
            let failed = flash.dirty_logs().has_any().then_some(flash);
            *self = Self::GivenUp { reason, failed };
        }
        Some(incarnation)
    }

    /// Lets go of flash that has failed when no origin lacks anything of it.
    pub(crate) fn release_failed(&mut self) {
        if let Self::GivenUp { failed, .. } = self {
            failed.take_if(|flash| !flash.dirty_logs().has_any());
        }
    }
}

/// How long what no guest waits for may take.
pub(crate) fn patience(config: &Config) -> Duration {
    let timeout = config.flash_timeout.as_nanos();
    Duration::from_nanos(timeout.saturating_mul(PATIENCE_TIMEOUTS))
}
