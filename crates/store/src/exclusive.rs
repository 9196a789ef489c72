//! A key that one host has at a time, for as long as it is heard of.

use crate::{Committed, Compare, Key, Lease, Renewed, Revision, Store, StoreError, Write};
use std::time::Duration;

/// This host's try to have a key alone.
#[derive(Debug)]
pub struct Exclusive {
    key: Key,
    value: Vec<u8>,
    ttl: Duration,
    held: Option<(Lease, Revision)>,
}

impl Exclusive {
    /// The key is not had yet. Whoever has it puts this value there, and has it for this time after each
    /// [`Exclusive::hold`].
    pub fn new(key: Key, value: Vec<u8>, ttl: Duration) -> Self {
        Self {
            key,
            value,
            ttl,
            held: None,
        }
    }

    /// Takes the key if nobody has it, or goes on having it. Returns what a commit compares to be done only while it
    /// is had: another host may have it before this one knows. `None` if another one has it.
    ///
    /// # Errors
    /// What the store says. It may be had all the same; call this again.
    pub async fn hold(&mut self, store: &dyn Store) -> Result<Option<Compare>, StoreError> {
        if let Some((lease, revision)) = self.held.take()
            && store.renew(lease).await? == Renewed::Stands
        {
            self.held = Some((lease, revision));
            return Ok(Some(Compare::Unchanged(self.key.clone(), revision)));
        }
        if store.get(&self.key).await?.is_some() {
            return Ok(None);
        }
        let lease = store.lease(self.ttl).await?;
        let put = Write::Put {
            key: self.key.clone(),
            value: self.value.clone(),
            lease: Some(lease),
        };
        match store
            .commit(&[Compare::Absent(self.key.clone())], &[put])
            .await
        {
            Ok(Committed::Done(revision)) => {
                self.held = Some((lease, revision));
                Ok(Some(Compare::Unchanged(self.key.clone(), revision)))
            }
            Ok(Committed::Refused) => {
                store.revoke(lease).await?;
                Ok(None)
            }
            // What was put, if it was, goes with this lease.
            Err(error) => {
                store.revoke(lease).await?;
                Err(error)
            }
        }
    }

    /// Lets it go, if it is had.
    ///
    /// # Errors
    /// What the store says; then it goes after its time.
    pub async fn release(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        match self.held.take() {
            Some((lease, _)) => store.revoke(lease).await,
            None => Ok(()),
        }
    }
}
