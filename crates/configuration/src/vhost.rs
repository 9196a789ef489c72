//! `[vhost_user]` and `[disk.vhost_user]`: the sockets that VMs connect to over vhost-user.
//!
//! A disk has one socket; a base image has one for each VM that may read it, since a socket is all
//! that says who connects.

use super::text::{Auto, Mode, SocketPath, Switch, Text};
use serde::{Deserialize, Serialize};
use units::Bytes;
use utoipa::ToSchema;

/// `[vhost_user]`: what holds for every disk's socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VhostUserConfig {
    /// Where each disk has a socket by its name.
    pub directory: Text<Switch<SocketPath>>,
    /// Permission bits of the sockets.
    pub socket_mode: Text<Mode>,
    /// The group that owns them.
    pub socket_group: Option<String>,
    /// The most memory that a VM may have.
    pub memory_per_vm_max: Text<Auto<Bytes>>,
    /// The most that all VMs together may have mapped.
    pub memory_max: Text<Auto<Bytes>>,
}

impl Default for VhostUserConfig {
    fn default() -> Self {
        Self {
            directory: Text(Switch::Off),
            socket_mode: Text(Mode::new(0o660)),
            socket_group: None,
            memory_per_vm_max: Text(Auto::Auto),
            memory_max: Text(Auto::Auto),
        }
    }
}

/// `[disk.vhost_user]`: how a VM sees the disk over vhost-user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiskVhostConfig {
    /// Its socket, if not the one by its name; `off` for none.
    #[schema(value_type = Option<String>, example = "/run/hearth/web-1.sock")]
    pub socket: Option<Text<Switch<SocketPath>>>,
    /// The smallest unit of address and length that the guest is offered: `512B` or `4KiB`.
    #[schema(value_type = String, example = "512B")]
    pub sector_size: Text<Bytes>,
    /// The serial number that the guest sees.
    #[schema(example = "web-1")]
    pub serial: Option<String>,
}

impl Default for DiskVhostConfig {
    fn default() -> Self {
        Self {
            socket: None,
            sector_size: Text(Bytes::new(512)),
            serial: None,
        }
    }
}

impl DiskVhostConfig {
    /// The sector in bytes.
    ///
    /// # Panics
    /// If it is neither 512 nor 4096, which the configuration's check refuses.
    pub fn sector(&self) -> u32 {
        match self.sector_size.0.get() {
            512 => 512,
            4096 => 4096,
            other => panic!("a sector of {other} bytes was refused"),
        }
    }
}
