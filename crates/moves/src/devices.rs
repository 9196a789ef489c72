//! The devices of both hosts, and what an I/O passes on its way.
//!
//! ```text
//!   read, cached      flash of the host
//!   read, not         the host's way to the origin ─► origin
//!   write             flash of the host, or the host's way to the origin ─► origin
//!   loan              flash of the host that the disk left ─► link
//! ```

use crate::setup::Setup;
use simulator::device::{Device, Direction};
use units::{Bytes, Instant};

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// Which the VM leaves.
    Here,
    /// To which it comes.
    There,
}

impl Host {
    /// Its place in a pair.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// The way of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From a host's flash.
    FlashRead(Host),
    /// To a host's flash.
    FlashWrite(Host),
    /// From the origin to a host.
    OriginRead(Host),
    /// From a host to the origin.
    OriginWrite(Host),
    /// From the flash of the host that the VM leaves to the other one.
    Loan,
    /// From host to host, without a flash.
    Link,
}

/// All devices.
pub(crate) struct Devices {
    flash: [Device; 2],
    path: [Device; 2],
    origin: Device,
    link: Device,
}

impl Devices {
    /// Idle ones.
    pub(crate) fn new(setup: &Setup) -> Self {
        let pair =
            |settings, seed: u64| [Device::new(settings, seed), Device::new(settings, !seed)];
        Self {
            flash: pair(setup.flash, setup.seed ^ 1),
            path: pair(setup.path, setup.seed ^ 2),
            origin: Device::new(setup.origin, setup.seed ^ 3),
            link: Device::new(setup.link, setup.seed ^ 4),
        }
    }

    /// An I/O reaches a stage of its way now: when it has passed it. None: it has arrived.
    pub(crate) fn pass(
        &mut self,
        way: Way,
        stage: u8,
        bytes: Bytes,
        now: Instant,
    ) -> Option<Instant> {
        use Direction::{Read, Write};
        let (device, direction) = match (way, stage) {
            (Way::FlashRead(host), 0) => (&mut self.flash[host.index()], Read),
            (Way::FlashWrite(host), 0) => (&mut self.flash[host.index()], Write),
            (Way::OriginRead(host), 0) => (&mut self.path[host.index()], Read),
            (Way::OriginRead(_), 1) => (&mut self.origin, Read),
            (Way::OriginWrite(host), 0) => (&mut self.path[host.index()], Write),
            (Way::OriginWrite(_), 1) => (&mut self.origin, Write),
            (Way::Loan, 0) => (&mut self.flash[Host::Here.index()], Read),
            (Way::Loan, 1) | (Way::Link, 0) => (&mut self.link, Read),
            _ => return None,
        };
        let done = device.submit(now.since(Instant::ZERO).as_nanos(), direction, bytes);
        Some(Instant::from_nanos(done))
    }
}
