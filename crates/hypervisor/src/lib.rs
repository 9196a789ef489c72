//! Who migrates a VM: libvirt by its program `virsh`, QEMU by its monitor, or a program of the operator's.
//!
//! ```text
//!   Hypervisor ─┬─ Virsh   virsh migrate | domstate | domjobinfo | domjobabort | migrate-setspeed
//!               ├─ Qmp     migrate | query-status | query-migrate | migrate_cancel | migrate-set-parameters
//!               └─ Hook    PROGRAM start | state | cancel | pace
//! ```
//!
//! Each is asked anew what is so, and nothing is remembered that a restart would lose, but why a migration failed. There
//! is no binding to libvirt's library: its program is there where libvirt is.

#![forbid(unsafe_code)]

mod error;
mod hook;
mod migration;
mod program;
mod qmp;
mod template;
mod virsh;

pub use error::HypervisorError;
pub use hook::Hook;
pub use migration::{Left, Migration, State};
pub use qmp::Qmp;
pub use template::Template;
pub use virsh::Virsh;

use std::time::Duration;

/// How long a cancelled migration may take to end.
const CANCELLED_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Who migrates the VMs of this host.
#[derive(Debug)]
pub enum Hypervisor {
    /// libvirt.
    Virsh(Virsh),
    /// QEMU without libvirt.
    Qmp(Qmp),
    /// The operator's program.
    Hook(Hook),
}

impl Hypervisor {
    /// Begins to migrate a VM, unless it is on its way already. Returns once that is begun.
    ///
    /// # Errors
    /// If the hypervisor cannot be asked, or does not begin.
    pub async fn start(&self, migration: &Migration) -> Result<(), HypervisorError> {
        match self {
            Self::Virsh(virsh) => virsh.start(migration).await,
            Self::Qmp(qmp) => qmp.start(migration).await,
            Self::Hook(hook) => hook.start(migration).await,
        }
    }

    /// How the VM is here.
    ///
    /// # Errors
    /// If the hypervisor cannot be asked.
    pub async fn state(&self, vm: &str) -> Result<State, HypervisorError> {
        match self {
            Self::Virsh(virsh) => virsh.state(vm).await,
            Self::Qmp(qmp) => qmp.state(vm).await,
            Self::Hook(hook) => hook.state(vm).await,
        }
    }

    /// Cancels a migration from here, and waits until there is none. One that has ended meanwhile is left as it is.
    ///
    /// # Errors
    /// If the hypervisor cannot be asked, or the migration does not end.
    pub async fn cancel(&self, vm: &str) -> Result<(), HypervisorError> {
        let mut waited = Duration::ZERO;
        loop {
            match self {
                // Its program waits.
                Self::Hook(hook) => return hook.cancel(vm).await,
                _ if !self.state(vm).await?.migrates => return Ok(()),
                _ if waited >= CANCELLED_WITHIN => {
                    return Err(HypervisorError::GoesOn(vm.to_owned()));
                }
                Self::Virsh(virsh) => virsh.abort(vm).await,
                Self::Qmp(qmp) => qmp.abort(vm).await?,
            }
            tokio::time::sleep(LOOK_EVERY).await;
            waited += LOOK_EVERY;
        }
    }

    /// Lets a migration that is under way send so many bytes a second.
    ///
    /// # Errors
    /// If the hypervisor cannot be asked, or refuses.
    pub async fn pace(&self, vm: &str, bytes: u64) -> Result<(), HypervisorError> {
        match self {
            Self::Virsh(virsh) => virsh.pace(vm, bytes).await,
            Self::Qmp(qmp) => qmp.pace(vm, bytes).await,
            Self::Hook(hook) => hook.pace(vm, bytes).await,
        }
    }
}
