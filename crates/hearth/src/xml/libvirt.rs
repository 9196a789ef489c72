//! libvirt's XML.

use super::{Attachment, LibvirtXml, Way};
use configuration::NbdUriAddress;
use units::BLOCK_BYTES;

/// How long QEMU waits for a daemon that is being started anew before it fails the guest's
/// requests, in seconds: longer than recovery of a large cache.
pub(super) const NBD_RECONNECT_SECONDS: u32 = 60;
/// How often QEMU tries to connect again over vhost-user, in seconds; requests wait meanwhile.
pub(super) const VHOST_RECONNECT_SECONDS: u32 = 1;

/// The first libvirt that can be told so; an older one refuses the element, and without it a guest
/// gets errors while the daemon is being started anew.
const NBD_RECONNECT_SINCE: &str = "9.1.0";

/// What vhost-user asks of the domain: memory that the daemon can map.
const SHARED_MEMORY: &str = "\
<memoryBacking>
  <source type='memfd'/>
  <access mode='shared'/>
</memoryBacking>
";

pub(super) fn xml(attachment: &Attachment<'_>) -> LibvirtXml {
    match &attachment.way {
        Way::VhostUser { socket } => LibvirtXml {
            domain: Some(SHARED_MEMORY.to_owned()),
            // Serial number, sectors and whether it is read-only come from the daemon.
            disk: format!(
                "<disk type='vhostuser' device='disk'>\n\
                 \x20 <driver name='qemu' type='raw'/>\n\
                 \x20 <source type='unix' path='{}'>\n\
                 \x20   <reconnect enabled='yes' timeout='{VHOST_RECONNECT_SECONDS}'/>\n\
                 \x20 </source>\n\
                 \x20 <target dev='{}' bus='virtio'/>\n\
                 </disk>\n",
                text(&socket.display().to_string()),
                attachment.target,
            ),
            needs: None,
        },
        Way::Nbd {
            address,
            export,
            tls,
        } => LibvirtXml {
            domain: None,
            disk: nbd(attachment, address, export, *tls),
            needs: Some(NBD_RECONNECT_SINCE.to_owned()),
        },
    }
}

fn nbd(attachment: &Attachment<'_>, address: &NbdUriAddress, export: &str, tls: bool) -> String {
    let host = match address {
        NbdUriAddress::Unix(path) => {
            let path = path.display().to_string();
            format!("<host transport='unix' socket='{}'/>", text(&path))
        }
        NbdUriAddress::Tcp { host, port } => {
            format!("<host name='{}' port='{port}'/>", text(host))
        }
    };
    let mut more = format!(
        "  <blockio logical_block_size='{}' physical_block_size='{BLOCK_BYTES}'/>\n",
        attachment.sector()
    );
    if attachment.disk.read_only {
        more += "  <readonly/>\n";
    }
    format!(
        "<disk type='network' device='disk'>\n\
         \x20 <driver name='qemu' type='raw' cache='none' discard='unmap'/>\n\
         \x20 <source protocol='nbd' name='{}'{}>\n\
         \x20   {host}\n\
         \x20   <reconnect delay='{NBD_RECONNECT_SECONDS}'/>\n\
         \x20 </source>\n\
         \x20 <target dev='{}' bus='virtio'/>\n\
         \x20 <serial>{}</serial>\n\
         {more}</disk>\n",
        text(export),
        if tls { " tls='yes'" } else { "" },
        attachment.target,
        text(&attachment.disk.vhost_user.serial),
    )
}

/// A text within an attribute or an element.
pub(super) fn text(plain: &str) -> String {
    let mut escaped = String::with_capacity(plain.len());
    for c in plain.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\'' => escaped.push_str("&apos;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}
