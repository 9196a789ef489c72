//! Guests that stock QEMUs move between the hosts of a [`RoamingPair`], by its front end.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use serde_json::json;

use crate::{
    Guest, GuestKit, Lab, Qmp, RoamingPair, VhostUserSettings, limits, listens, wait_until,
};

/// What QEMUs of one guest have in common. It boots from the disk that roams.
pub struct Migrating<'a> {
    /// Where its files are.
    pub lab: &'a Lab,
    /// What it boots.
    pub kit: &'a GuestKit,
    /// What it does.
    pub steps: String,
}

impl Migrating<'_> {
    /// Where a QEMU hears of a guest that comes from another one.
    fn link(&self, name: &str) -> PathBuf {
        self.lab.path(&format!("{name}.move"))
    }

    /// Boots the guest at a host.
    ///
    /// # Errors
    ///
    /// When QEMU cannot be started.
    pub fn boot(&self, pair: &mut RoamingPair, at: usize, name: &str) -> anyhow::Result<Guest> {
        self.start(pair, at, name, None, &[])
    }

    /// A QEMU at a host that waits for the guest. `more` are arguments of it.
    ///
    /// # Errors
    ///
    /// When QEMU cannot be started, or does not listen in time.
    pub fn wait_at(
        &self,
        pair: &mut RoamingPair,
        at: usize,
        name: &str,
        more: &[&str],
    ) -> anyhow::Result<Guest> {
        let link = self.link(name);
        let guest = self.start(pair, at, name, Some(&link), more)?;
        wait_until("the other QEMU to listen", limits::SHORT, || listens(&link))?;
        Ok(guest)
    }

    fn start(
        &self,
        pair: &mut RoamingPair,
        at: usize,
        name: &str,
        incoming: Option<&Path>,
        more: &[&str],
    ) -> anyhow::Result<Guest> {
        if pair.is_vhost_user() {
            let socket = pair.vhost_socket(at);
            let settings = VhostUserSettings {
                disks: &[&socket],
                incoming,
                more,
                ..VhostUserSettings::default()
            };
            return Guest::boot_with(self.lab, self.kit, name, &self.steps, &settings);
        }
        let disk = format!(
            "driver=nbd,node-name=disk,server.type=unix,server.path={},export={},reconnect-delay=30",
            pair.host(at).nbd_socket().display(),
            RoamingPair::DISK
        );
        let mut arguments = vec!["-blockdev", &disk, "-device", "virtio-blk-pci,drive=disk"];
        let uri = incoming.map(|link| format!("unix:{}", link.display()));
        if let Some(uri) = &uri {
            arguments.extend(["-incoming", uri]);
        }
        arguments.extend(more);
        Guest::boot_as_told(self.lab, self.kit, name, &self.steps, &arguments)
    }

    /// Lets the guest begin to move to the QEMU called `name`. With `pauses` it stands still when it has stopped here.
    ///
    /// # Errors
    ///
    /// When QEMU refuses.
    pub fn begin_move(&self, monitor: &mut Qmp, name: &str, pauses: bool) -> anyhow::Result<()> {
        // In one pass: an emulated CPU loses pages of memory when there are several.
        let parameters = json!({ "max-bandwidth": 2_000_000_000_u64, "downtime-limit": 60_000 });
        monitor.ask("migrate-set-parameters", &parameters)?;
        let pauses = json!({ "capability": "pause-before-switchover", "state": pauses });
        let capabilities = json!({ "capabilities": [pauses] });
        monitor.ask("migrate-set-capabilities", &capabilities)?;
        let uri = format!("unix:{}", self.link(name).display());
        monitor.ask("migrate", &json!({ "uri": uri })).map(drop)
    }
}

/// Waits until a guest's move has come to a state.
///
/// # Errors
///
/// When it does not, or fails instead.
pub fn wait_for_move(monitor: &mut Qmp, status: &str) -> anyhow::Result<()> {
    wait_until("the guest to have moved", limits::LONG, || {
        let state = monitor.ask("query-migrate", &json!({}))?;
        ensure!(status == "failed" || state["status"] != "failed", "{state}");
        Ok(state["status"] == status)
    })
}
