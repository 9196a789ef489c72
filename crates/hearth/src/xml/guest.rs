//! The channel of the agent in a VM's guest: a serial port of virtio.

use super::commands::value;
use super::libvirt::{VHOST_RECONNECT_SECONDS, text};
use api::guests::GuestStatus;
use serde::{Deserialize, Serialize};

/// The name of the port within the guest; agents look for it.
const PORT: &str = "org.hearth.guest.0";

/// The channel, as texts. A VM has it once, whatever disks it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestTexts {
    /// XML for libvirt, within `<devices>`.
    pub libvirt: String,
    /// Arguments for QEMU.
    pub qemu: Vec<String>,
}

/// The texts of a channel on which the daemon listens.
pub(super) fn texts(guest: &GuestStatus) -> Option<GuestTexts> {
    guest.error.is_none().then(|| GuestTexts {
        // Reconnecting, so that the VM starts while nobody listens.
        libvirt: format!(
            "<channel type='unix'>\n\
             \x20 <source mode='connect' path='{}'>\n\
             \x20   <reconnect enabled='yes' timeout='{VHOST_RECONNECT_SECONDS}'/>\n\
             \x20 </source>\n\
             \x20 <target type='virtio' name='{PORT}'/>\n\
             </channel>\n",
            text(&guest.socket)
        ),
        qemu: [
            "-device",
            "virtio-serial-pci",
            "-chardev",
            &format!(
                "socket,id=hearth-guest,path={},reconnect={VHOST_RECONNECT_SECONDS}",
                value(&guest.socket)
            ),
            "-device",
            &format!("virtserialport,chardev=hearth-guest,name={PORT}"),
        ]
        .map(str::to_owned)
        .to_vec(),
    })
}
