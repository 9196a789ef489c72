//! How many connections there are, in all and of each export.
//!
//! A place is taken when a connection is accepted and given back when its [`Admission`] is
//! dropped, wherever that is: after a failed handshake here, or on a shard's thread.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OwnedSemaphorePermit;

/// A place among the connections that a server allows; dropping it frees the place.
#[derive(Default)]
pub struct Admission {
    _permit: Option<OwnedSemaphorePermit>,
    _seat: Option<Seat>,
}

impl Admission {
    /// A place that is counted nowhere.
    pub fn uncounted() -> Self {
        Self::default()
    }

    pub(crate) fn counted(permit: OwnedSemaphorePermit, seat: Seat) -> Self {
        Self {
            _permit: Some(permit),
            _seat: Some(seat),
        }
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Admission")
    }
}

/// Connections of each export. Taken for an instant at a handshake's end and a connection's;
/// no request passes here, so a lock serves.
#[derive(Clone, Default)]
pub(crate) struct Census {
    seats: Arc<Mutex<HashMap<String, usize>>>,
}

/// One connection's place at its export.
pub(crate) struct Seat {
    census: Census,
    export: String,
}

impl Census {
    /// A place at `export`, unless it has `limit` connections already.
    pub(crate) fn sit(&self, export: &str, limit: usize) -> Option<Seat> {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = seats.entry(export.to_owned()).or_insert(0);
        if *taken >= limit {
            return None;
        }
        *taken += 1;
        Some(Seat {
            census: self.clone(),
            export: export.to_owned(),
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let seats = &self.census.seats;
        let mut seats = seats.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = seats.get_mut(&self.export) {
            *taken -= 1;
            if *taken == 0 {
                seats.remove(&self.export);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_given_back_can_be_taken_again() {
        let census = Census::default();
        let first = census.sit("a", 2).unwrap();
        let _second = census.sit("a", 2).unwrap();
        assert!(census.sit("a", 2).is_none());
        assert!(census.sit("b", 2).is_some());
        drop(first);
        assert!(census.sit("a", 2).is_some());
    }

    #[test]
    fn exports_without_connections_leave_nothing_behind() {
        let census = Census::default();
        drop(census.sit("a", 1));
        assert!(census.seats.lock().unwrap().is_empty());
    }
}
