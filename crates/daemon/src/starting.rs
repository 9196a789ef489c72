//! Starting a shard on flash that somebody may still have.

use super::error::{ServeError, ServeErrorKind};
use super::system;
use shard::{ShardConfig, ShardHandle, SpawnError};
use std::time::{Duration, Instant};

/// How long flash may still be locked by a daemon that was killed: the kernel closes its files
/// only when the last of its operations in flight have ended.
const FLASH_RELEASE_TIME_MAX: Duration = Duration::from_secs(10);
/// How often it is tried.
const FLASH_RELEASE_LOOK: Duration = Duration::from_millis(100);

/// Starts a shard. Flash that is in use may be let go in a moment: see
/// [`FLASH_RELEASE_TIME_MAX`].
pub(super) async fn start_shard(settings: ShardConfig) -> Result<ShardHandle, ServeError> {
    let deadline = Instant::now() + FLASH_RELEASE_TIME_MAX;
    let mut is_waiting = false;
    loop {
        match shard::Shard::spawn(settings.clone()) {
            Ok(handle) => return Ok(handle),
            Err(SpawnError::InUse(_)) if Instant::now() < deadline => {
                if !is_waiting {
                    is_waiting = true;
                    let holder = system::holder_of(&settings.flash);
                    tracing::warn!(cache = settings.name, flash = %settings.flash.display(), holder,
                        "the flash is in use: waiting up to {} s for it to be let go",
                        FLASH_RELEASE_TIME_MAX.as_secs());
                }
                tokio::time::sleep(FLASH_RELEASE_LOOK).await;
            }
            Err(error @ SpawnError::InUse(_)) => {
                let mut told = ServeError::of(ServeErrorKind::Refused, &error)
                    .with_remedy("stop what uses it, or give the cache a path of its own");
                if let Some(holder) = system::holder_of(&settings.flash) {
                    told.message = format!("{}: {holder}", told.message);
                }
                return Err(told);
            }
            Err(error) => return Err(ServeError::failed(&error)),
        }
    }
}
