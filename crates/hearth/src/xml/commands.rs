//! Command lines of QEMU and Cloud Hypervisor: arguments for one disk.

use super::libvirt::{NBD_RECONNECT_SECONDS, VHOST_RECONNECT_SECONDS};
use super::{Attachment, Way};
use configuration::NbdUriAddress;
use std::fmt::Write as _;
use units::{BLOCK_BYTES, Bytes};

/// Queues that a disk offers (`vhost-user.md`).
const VHOST_QUEUES_MAX: u16 = 64;

/// QEMU's arguments.
pub(super) fn qemu(attachment: &Attachment<'_>) -> Vec<String> {
    let node = attachment.node();
    match &attachment.way {
        Way::VhostUser { socket } => {
            let (size, socket) = (mib(attachment.memory), value(&socket.display().to_string()));
            [
                "-m",
                &size,
                "-object",
                &format!("memory-backend-memfd,id=hearth-memory,size={size},share=on"),
                "-machine",
                "memory-backend=hearth-memory",
                "-chardev",
                &format!("socket,id={node},path={socket},reconnect={VHOST_RECONNECT_SECONDS}"),
                "-device",
                &format!("vhost-user-blk-pci,chardev={node}"),
            ]
            .map(str::to_owned)
            .to_vec()
        }
        Way::Nbd {
            address,
            export,
            tls,
        } => {
            let mut arguments = Vec::new();
            let mut blockdev = format!("driver=nbd,node-name={node},");
            match address {
                NbdUriAddress::Unix(path) => {
                    let path = value(&path.display().to_string());
                    let _ = write!(blockdev, "server.type=unix,server.path={path}");
                }
                NbdUriAddress::Tcp { host, port } => {
                    let host = value(host);
                    let _ = write!(
                        blockdev,
                        "server.type=inet,server.host={host},server.port={port}"
                    );
                }
            }
            let _ = write!(
                blockdev,
                ",export={},reconnect-delay={NBD_RECONNECT_SECONDS},discard=unmap",
                value(export)
            );
            if attachment.disk.read_only {
                blockdev += ",read-only=on";
            }
            if *tls {
                arguments.push("-object".to_owned());
                arguments.push(
                    "tls-creds-x509,id=hearth-tls,endpoint=client,dir=/etc/pki/qemu".to_owned(),
                );
                blockdev += ",tls-creds=hearth-tls";
            }
            let serial = value(&attachment.disk.vhost_user.serial);
            let sector = attachment.sector();
            let device = format!(
                "virtio-blk-pci,drive={node},serial={serial},logical_block_size={sector},\
                 physical_block_size={BLOCK_BYTES}"
            );
            arguments.extend([
                "-blockdev".to_owned(),
                blockdev,
                "-device".to_owned(),
                device,
            ]);
            arguments
        }
    }
}

/// Cloud Hypervisor's arguments; it speaks no NBD.
pub(super) fn cloud_hypervisor(attachment: &Attachment<'_>) -> Option<Vec<String>> {
    let Way::VhostUser { socket } = &attachment.way else {
        return None;
    };
    let (size, id) = (mib(attachment.memory), attachment.node());
    let socket = socket.display();
    let (cpus, queues) = (attachment.cpus, attachment.cpus.min(VHOST_QUEUES_MAX));
    Some(vec![
        // It refuses more queues than processors, of which it has one if it is not told.
        "--cpus".to_owned(),
        format!("boot={cpus}"),
        "--memory".to_owned(),
        format!("size={size},shared=on"),
        "--disk".to_owned(),
        format!("vhost_user=true,socket={socket},num_queues={queues},queue_size=128,id={id}"),
    ])
}

/// A size as both programs read it.
fn mib(size: Bytes) -> String {
    format!("{}M", size.get() >> 20)
}

/// A value among QEMU's, where a comma ends one unless it is written twice.
pub(super) fn value(text: &str) -> String {
    text.replace(',', ",,")
}
