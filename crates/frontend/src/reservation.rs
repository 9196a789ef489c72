//! The reservation of a disk: at most one connection's queues run at a time.
//!
//! ```text
//!  first connection   queues run ────────► all stopped, or finished
//!                                            │ the reservation is free
//!  second connection  talks ─► waits ────────┴─► queues start
//! ```
//!
//! Two connections to one disk are usual: a VM that migrates within a host, whose destination
//! connects long before its source stops; and a QEMU that connects again while what its former
//! connection has at the disk is not done. Each may say what it likes, but queues run on one at a
//! time: what the earlier one still has at the disk could otherwise happen after what the later
//! one takes up anew.
//!
//! The reservation of a disk that another host has is closed: queues wait until it is opened.

use std::cell::Cell;
use std::rc::Rc;

/// The reservation of a disk, shared by the connections to it.
#[derive(Clone, Debug, Default)]
pub struct Reservation {
    cells: Rc<Cells>,
}

#[derive(Debug, Default)]
struct Cells {
    is_taken: Cell<bool>,
    was_released: Cell<bool>,
    is_closed: Cell<bool>,
    is_wanted: Cell<bool>,
}

impl Reservation {
    /// Nobody gets it from now on. A connection that has it keeps it.
    pub fn close(&self) {
        self.cells.is_closed.set(true);
    }

    /// Whoever asks gets it again, if it is free.
    pub fn open(&self) {
        self.cells.is_closed.set(false);
        self.cells.was_released.set(true);
    }

    /// Whether a connection has it.
    pub fn is_taken(&self) -> bool {
        self.cells.is_taken.get()
    }

    /// Whether a connection was told to wait since this was asked last because it is closed.
    pub fn take_wanted(&self) -> bool {
        self.cells.is_wanted.replace(false)
    }

    /// Whether it was released since this was asked last: connections that wait for it are to be
    /// polled.
    pub fn take_released(&self) -> bool {
        self.cells.was_released.replace(false)
    }
}

/// A connection that reserves the disk from time to time. Dropping it releases.
#[derive(Debug, Default)]
pub struct Reserving {
    reservation: Reservation,
    is_ours: bool,
}

impl Reserving {
    /// One that shares this reservation with others.
    pub fn new(reservation: Reservation) -> Self {
        Self {
            reservation,
            is_ours: false,
        }
    }

    /// Reserves the disk. True if it is reserved for this connection now.
    pub fn reserve(&mut self) -> bool {
        let cells = &self.reservation.cells;
        if !self.is_ours {
            let is_closed = cells.is_closed.get();
            cells.is_wanted.set(cells.is_wanted.get() || is_closed);
            self.is_ours = !is_closed && !cells.is_taken.replace(true);
        }
        self.is_ours
    }

    /// Releases the disk, if it is reserved for this connection.
    pub fn release(&mut self) {
        if std::mem::take(&mut self.is_ours) {
            self.reservation.cells.is_taken.set(false);
            self.reservation.cells.was_released.set(true);
        }
    }
}

impl Drop for Reserving {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_reserved_for_one_connection_until_it_releases_or_is_gone() {
        let reservation = Reservation::default();
        let mut first = Reserving::new(reservation.clone());
        let mut second = Reserving::new(reservation.clone());
        assert!(first.reserve());
        assert!(first.reserve());
        assert!(!second.reserve());
        second.release();
        assert!(!reservation.take_released());
        assert!(!second.reserve());
        first.release();
        assert!(reservation.take_released() && !reservation.take_released());
        assert!(second.reserve());
        drop(second);
        assert!(reservation.take_released());
        assert!(first.reserve());
    }

    #[test]
    fn a_reservation_that_is_closed_is_wanted_until_it_is_opened() {
        let reservation = Reservation::default();
        let mut first = Reserving::new(reservation.clone());
        let mut second = Reserving::new(reservation.clone());
        assert!(first.reserve());
        reservation.close();
        // Who has it keeps it.
        assert!(first.reserve() && reservation.is_taken() && !reservation.take_wanted());
        first.release();
        assert!(!reservation.is_taken() && reservation.take_released());
        assert!(!second.reserve());
        assert!(reservation.take_wanted() && !reservation.take_wanted());
        reservation.open();
        assert!(reservation.take_released());
        assert!(second.reserve() && !first.reserve());
        assert!(!reservation.take_wanted());
    }
}
