//! A value that is there for as long as somebody says it again and again.

use crate::{Committed, Key, Lease, Renewed, Store, StoreError, Write};
use std::time::Duration;

/// A key whose value lives by a lease of ours.
#[derive(Debug)]
pub struct Leased {
    key: Key,
    /// The lease, and what was put under it.
    said: Option<(Lease, Vec<u8>)>,
}

impl Leased {
    /// Nothing is there yet.
    pub fn new(key: Key) -> Self {
        Self { key, said: None }
    }

    /// Says a value: it stays for this time if nobody says anything more. A lease that has ended is followed by another
    /// one. Returns whether the value is there: not if its lease has ended meanwhile; then say it again.
    ///
    /// # Errors
    /// What the store says; then the next call begins with another lease.
    pub async fn say(
        &mut self,
        store: &dyn Store,
        value: Vec<u8>,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let standing = match self.said.take() {
            Some((lease, said)) if store.renew(lease).await? == Renewed::Stands => {
                if said == value {
                    self.said = Some((lease, said));
                    return Ok(true);
                }
                Some(lease)
            }
            _ => None,
        };
        let lease = match standing {
            Some(lease) => lease,
            None => store.lease(ttl).await?,
        };
        let write = Write::Put {
            key: self.key.clone(),
            value: value.clone(),
            lease: Some(lease),
        };
        let is_there = store.commit(&[], &[write]).await? != Committed::Refused;
        self.said = is_there.then_some((lease, value));
        Ok(is_there)
    }
}
