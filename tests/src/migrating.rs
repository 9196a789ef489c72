//! Guests that stock QEMUs move between the hosts of a [`RoamingPair`], by its front end.

use std::path::{Path, PathBuf};

use crate::{Guest, GuestKit, Lab, Qmp, RoamingPair, VhostUserSettings, wait_for_listener};

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
        wait_for_listener(&link)?;
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
        monitor.pause_before_switchover(pauses)?;
        monitor.begin_move(&self.link(name))
    }
}
