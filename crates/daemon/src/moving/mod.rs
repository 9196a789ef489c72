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

use crate::cluster::Cluster;
use crate::control::Control;
use configuration::{HypervisorConfig, MigrateWith};
use executor::{Drivers, Planner, PlannerSays, keep_part};
use here::Here;
use hypervisor::{Hook, Hypervisor, Qmp, Template, Virsh};
use placement::{Name, Short};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Takes part in moves for as long as the daemon runs.
pub(super) fn start(
    cluster: &Cluster,
    me: &Name,
    control: Arc<Control>,
    config: &HypervisorConfig,
) {
    let here = Here::new(control, hypervisor_of(config));
    let store = || cluster.store();
    let leads = Arc::new(AtomicBool::new(false));
    tokio::spawn(keep_part(store(), me.clone(), Arc::new(here)));
    tokio::spawn(Drivers::new(store(), me.clone(), Arc::clone(&leads)).keep());
    let says = Arc::new(Log { me: me.clone() });
    tokio::spawn(Planner::new(store(), me.clone(), leads, says).keep());
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

/// What the planner sees, in the log.
struct Log {
    me: Name,
}

impl PlannerSays for Log {
    fn leads(&self, leads: bool) {
        let host = &self.me;
        if leads {
            tracing::info!(%host, "this host plans for the cluster");
        } else {
            tracing::info!(%host, "this host plans for the cluster no more");
        }
    }

    fn is_short(&self, short: &Short) {
        tracing::warn!(
            host = %short.host,
            load = short.load,
            missing_bytes = short.missing.get(),
            share_of_need = short.scale,
            "a host has too little flash, and no VM of it can move"
        );
    }
}
