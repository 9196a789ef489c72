//! A VM that [`moves`](crate::moves()): a client that does what QEMU does, over either front end.
//!
//! | | NBD | vhost-user |
//! |---|---|---|
//! | it waits for a guest from elsewhere | it is connected, and reads a little | it is connected |
//! | the guest is about to leave | | the device keeps a log |
//! | the guest stops | it flushes | its ring is stopped |
//! | the guest goes on there | it writes | its ring is started |

use std::time::Duration;

use anyhow::Context as _;

use crate::session::{Outcome, Refused};
use crate::{RingGuest, RoamingPair, Session};

/// A VM at a host.
pub(crate) enum Vm {
    Nbd(Session),
    Rings(Box<RingGuest>),
}

impl Vm {
    /// A QEMU at a host, which waits for a guest from elsewhere.
    pub(crate) fn waits(pair: &mut RoamingPair, at: usize) -> anyhow::Result<Self> {
        if pair.is_vhost_user() {
            let guest = RingGuest::connect(&pair.vhost_socket(at));
            let guest = guest.with_context(|| format!("a guest of host {at}"))?;
            return Ok(Self::Rings(Box::new(guest)));
        }
        pair.client(at).map(Self::Nbd)
    }

    /// A guest boots there instead.
    pub(crate) fn boot(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Nbd(_) => Ok(()),
            Self::Rings(guest) => guest.boot(),
        }
    }

    /// Whether it can read before its guest runs there.
    pub(crate) fn reads_early(&self) -> bool {
        matches!(self, Self::Nbd(_))
    }

    /// The guest's kernel begins anew.
    pub(crate) fn reset(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Nbd(_) => Ok(()),
            Self::Rings(guest) => {
                guest.stop()?;
                guest.boot()
            }
        }
    }

    /// QEMU begins to send the guest elsewhere.
    pub(crate) fn begin_move(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Nbd(_) => Ok(()),
            Self::Rings(guest) => guest.begin_move(),
        }
    }

    /// The guest stops. True: what it wrote was flushed.
    pub(crate) fn stop(&mut self) -> anyhow::Result<bool> {
        match self {
            Self::Nbd(session) => session.flush().map(|()| true),
            Self::Rings(guest) => guest.stop().map(|()| false),
        }
    }

    /// The guest goes on where it was stopped.
    pub(crate) fn resume(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Nbd(_) => Ok(()),
            Self::Rings(guest) => guest.resume(),
        }
    }

    /// A guest that was stopped elsewhere goes on here.
    pub(crate) fn goes_on_from(&mut self, source: &Self) -> anyhow::Result<()> {
        match (self, source) {
            (Self::Rings(guest), Self::Rings(source)) => guest.goes_on_from(source),
            _ => Ok(()),
        }
    }

    /// Its QEMU ends without having run the guest.
    pub(crate) fn quits_unused(self) -> anyhow::Result<()> {
        match self {
            Self::Nbd(mut session) => {
                // It flushes when it quits.
                session.flush()?;
                session.close()
            }
            Self::Rings(guest) => {
                drop(guest);
                Ok(())
            }
        }
    }

    pub(crate) fn set_patience(&mut self, patience: Duration) -> anyhow::Result<()> {
        match self {
            Self::Nbd(session) => session.set_patience(patience),
            Self::Rings(guest) => {
                guest.set_patience(patience);
                Ok(())
            }
        }
    }

    pub(crate) fn try_write(&mut self, offset: u64, data: &[u8]) -> anyhow::Result<Outcome<()>> {
        match self {
            Self::Nbd(session) => session.try_write(offset, data),
            Self::Rings(guest) => guest.try_write(offset, data),
        }
    }

    pub(crate) fn read(&mut self, offset: u64, length: u64) -> anyhow::Result<Vec<u8>> {
        let read = match self {
            Self::Nbd(session) => session.try_read(offset, length)?,
            Self::Rings(guest) => guest.try_read(offset, length)?,
        };
        read.map_err(|Refused(error)| anyhow::anyhow!("a read at {offset} failed with {error}"))
    }

    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        let flushed = match self {
            Self::Nbd(session) => session.try_flush()?,
            Self::Rings(guest) => guest.try_flush()?,
        };
        flushed.map_err(|Refused(error)| anyhow::anyhow!("a flush failed with {error}"))
    }
}
