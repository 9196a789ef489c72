//! This host in moves of the cluster: its part in those from it and to it, the moves that it drives, and, if it is the one
//! that does, planning.
//!
//! ```text
//!   executor::keep_part ─► Here ─┬─► disks: check, prepare, abort, how far they are
//!                                └─► hypervisor::Hypervisor: migrate, cancel, how far it is
//!   executor::Drivers, executor::Planner ─► the store
//! ```

mod disks;
mod here;

use crate::cluster::{Cluster, Observed};
use crate::control::Control;
use configuration::{HypervisorConfig, MigrateWith};
use executor::{Drivers, Planner, keep_part};
use here::Here;
use hypervisor::{Hook, Hypervisor, Qmp, Template, Virsh};
use placement::Name;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use telemetry::Tracer;

/// Takes part in moves for as long as the daemon runs.
pub(super) fn start(
    cluster: &Cluster,
    me: &Name,
    (control, tracer): (Arc<Control>, Tracer),
    config: &HypervisorConfig,
    observed: &Arc<Observed>,
) {
    let here = Here::new((control, tracer), hypervisor_of(config));
    let store = || cluster.store();
    let leads = Arc::new(AtomicBool::new(false));
    tokio::spawn(keep_part(store(), me.clone(), Arc::new(here)));
    let says = || Arc::clone(observed);
    let drivers = Drivers::new(store(), me.clone(), Arc::clone(&leads), says());
    tokio::spawn(drivers.keep());
    tokio::spawn(Planner::new(store(), me.clone(), leads, says()).keep());
}

fn hypervisor_of(config: &HypervisorConfig) -> Option<Hypervisor> {
    let template = |text: &String| Template::new(text);
    match config.migrate_with {
        MigrateWith::Off => None,
        MigrateWith::Virsh => {
            let options = config.options.iter().map(template).collect();
            let destination = template(&config.destination);
            Some(Hypervisor::Virsh(Virsh::new(
                &config.connect,
                destination,
                options,
            )))
        }
        MigrateWith::Qmp => {
            let qmp = Qmp::new(template(&config.socket), template(&config.incoming));
            Some(Hypervisor::Qmp(qmp))
        }
        MigrateWith::Hook => {
            let hook = config.hook.as_ref()?;
            Some(Hypervisor::Hook(Hook::new(hook)))
        }
    }
}
