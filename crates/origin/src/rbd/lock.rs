//! Taking an image for writing.
//!
//! ```text
//!   owner of the lock     it watches the image     it was this host          so
//!   nobody                –                        –                         take the lock
//!   a client              no: it is dead           –                         the library breaks the lock
//!   a client              yes                      yes: it was killed        break the lock: it is fenced
//!   a client              yes                      no                        refuse: in use
//!   nobody, but another client watches the image   no                        refuse: it would write when it likes
//! ```
//!
//! A client that the cluster has not heard of for 30 seconds watches no more. Breaking a lock has the cluster refuse what
//! its owner may still send, so nothing of a former session can land any more.

use super::clients::Former;
use librbd::{Error, Image, Watcher};

/// Why an image is not ours.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoLock {
    /// The image cannot be locked.
    #[error("the image has no exclusive lock: rbd feature enable POOL/IMAGE exclusive-lock")]
    NoFeature,
    /// Another client has it.
    #[error("client.{} at {}", .0.client, .0.address)]
    InUse(Watcher),
    /// The library refuses.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// Takes the exclusive lock, from a former client of this host too.
pub(super) fn take(image: &Image, former: &Former) -> Result<(), NoLock> {
    if !image.can_be_locked()? {
        return Err(NoLock::NoFeature);
    }
    let own = image.client();
    let mut others = image.watchers()?;
    others.retain(|watcher| watcher.client != own);
    if let Some(living) = others.iter().find(|watcher| !former.has(watcher.client)) {
        return Err(NoLock::InUse(living.clone()));
    }
    if let Some(owner) = image.lock_owner()?
        && others.iter().any(|watcher| watcher.address == owner)
    {
        image.break_lock(&owner)?;
    }
    Ok(image.lock()?)
}
