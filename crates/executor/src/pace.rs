//! What a VM's migration may send in a second: `pace/VM`, which goes a minute after it was said last.

use crate::error::MoveError;
use std::time::Duration;
use store::{Store, Write, keys};

/// For how long a pace holds that nobody repeats. A migration keeps the last one that it was given.
const HOLDS: Duration = Duration::from_mins(1);

/// Lets a VM's migration, which is under way or about to begin, send so many bytes a second.
///
/// # Errors
/// If the store does not answer.
pub async fn set_pace(store: &dyn Store, vm: &str, bytes: u64) -> Result<(), MoveError> {
    let key = keys::pace(vm)?;
    let lease = store.lease(HOLDS).await?;
    let put = Write::Put {
        key,
        value: bytes.to_string().into_bytes(),
        lease: Some(lease),
    };
    store.commit(&[], &[put]).await?;
    Ok(())
}

/// What is said of a VM, if somebody does.
pub(crate) async fn pace_of(store: &dyn Store, vm: &str) -> Result<Option<u64>, MoveError> {
    let found = store.get(&keys::pace(vm)?).await?;
    Ok(found.and_then(|found| std::str::from_utf8(&found.value).ok()?.parse().ok()))
}
