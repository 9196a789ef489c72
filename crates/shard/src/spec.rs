//! What a shard and its disks are. The program's configuration maps onto these.

use crate::error::ShardError;
use crate::owners::OwnerFile;
use at_rest::{DataKey, XtsCipher};
use block_io::{BlockCipher, OriginGeometry};
use cache::{OwnerRecord, Tenure, WriteBack, WritePolicy};
use frontend::limits::ConnectionLimits;
use std::path::PathBuf;
use std::sync::Arc;
use throttle::Limits;
use units::{Bytes, DiskId, Duration};

/// A shard: one cache and the thread that drives it.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// What the cache is called: fit for a file name, and the same at every start.
    pub name: String,
    /// Its flash: a file or a block device, formatted before.
    pub flash: PathBuf,
    /// Where the host remembers what must survive without the flash. Exists and is writable.
    pub state_dir: PathBuf,
    /// Where retained memory is kept: best a file system in memory. Exists and is writable.
    pub runtime_dir: PathBuf,
    /// How the cache behaves.
    pub cache: cache::Config,
    /// What each client may have in flight.
    pub connection: ConnectionLimits,
    /// Memory that all clients together can have allocated.
    pub request_memory: Bytes,
    /// Clients that one disk may have at a time over a front end without a limit of its own.
    pub connections_per_disk_max: usize,
    /// How long a read of a disk that roams waits for the host that lends its blocks, before the origin answers it.
    pub lend_timeout: Duration,
}

impl ShardConfig {
    /// Whether its name is fit for a file name.
    pub(crate) fn has_file_name(&self) -> bool {
        let (name, fit) = (&self.name, |c: char| {
            c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
        });
        !name.is_empty() && name.len() <= 64 && !name.starts_with('.') && name.chars().all(fit)
    }
}

/// A disk that a shard serves.
#[derive(Clone, Debug)]
pub struct DiskSpec {
    /// What people call it.
    pub name: String,
    /// Who it is, for as long as it lives.
    pub id: DiskId,
    /// The size that its origin has to have, if it is known.
    pub size: Option<Bytes>,
    /// What writes do.
    pub policy: WritePolicy,
    /// How writes reach the origin under [`WritePolicy::Back`].
    pub write_back: WriteBack,
    /// What its guests may ask in a second.
    pub limits: Limits,
    /// Where it is recorded who has the disk.
    pub owner: OwnerFile,
    /// What is recorded there now; read after the origin was locked.
    pub owned_by: Option<OwnerRecord>,
    /// Refuse writes.
    pub read_only: bool,
    /// Whose share of the flash it takes: the name of a VM, which may have several disks, or of
    /// a base image.
    pub tenant: String,
    /// A base image: refuses writes, and is read by as many VMs as like to, each under its name.
    pub shared: bool,
    /// By which its blocks are encrypted on flash.
    pub key: Option<Arc<DataKey>>,
    /// Whose it is.
    pub tenure: Tenure,
}

impl DiskSpec {
    /// Whether a disk with this origin takes no writes.
    pub(crate) fn is_read_only(&self, origin: &OriginGeometry) -> bool {
        origin.read_only || self.read_only || self.shared
    }

    /// The cipher of its key, if it has one.
    pub(crate) fn cipher(&self) -> Result<Option<Box<dyn BlockCipher>>, ShardError> {
        let Some(key) = &self.key else {
            return Ok(None);
        };
        match XtsCipher::new(key) {
            Ok(cipher) => Ok(Some(Box::new(cipher))),
            Err(error) => {
                tracing::error!(disk = self.name, %error, "there is no cipher for the disk");
                Err(ShardError::NoCipher)
            }
        }
    }
}
