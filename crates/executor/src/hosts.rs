//! The hosts that are heard of.

use std::collections::BTreeSet;
use store::{Revision, Store, StoreError, everything, keys};

/// The hosts that are heard of, and when that was read.
///
/// # Errors
/// If the store does not answer.
pub(crate) async fn heard(store: &dyn Store) -> Result<(BTreeSet<String>, Revision), StoreError> {
    let hosts = everything(store, &keys::HOSTS.prefix()).await?;
    let names = hosts.entries.iter();
    let names = names.filter_map(|entry| entry.key.below(&keys::HOSTS.prefix()));
    Ok((names.map(str::to_owned).collect(), hosts.revision))
}
