//! Who connects to a disk's socket for vhost-user goes to the disk's shard.

use crate::resources::HostResources;
use crate::shards::Shards;
use configuration::Name;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use units::DiskId;
use vhost_user::MappingLimits;

/// Pause after the system had no descriptor or memory for a connection: to try at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Who comes through a socket, and as what.
pub(super) struct Guests {
    pub(super) id: DiskId,
    pub(super) cache: Name,
    pub(super) disk: Name,
    pub(super) reader: Option<Name>,
    pub(super) serial: String,
    pub(super) sector: u32,
    pub(super) mapping: MappingLimits,
    /// Whose VM it is.
    pub(super) vm: Name,
    pub(super) resources: Arc<HostResources>,
}

/// Hands over who connects, one after the other.
pub(super) async fn accept(listener: UnixListener, shards: Arc<Shards>, guests: Guests) {
    let Guests {
        id,
        cache,
        disk,
        reader,
        serial,
        sector,
        mapping,
        vm,
        resources,
    } = guests;
    let Some(shard) = shards.get(&cache) else {
        return;
    };
    // A QEMU that is turned away comes again every second: told once for each reason.
    let mut told = None;
    loop {
        let socket = match listener.accept().await {
            Ok((socket, _)) => {
                let peer = socket.peer_cred();
                resources.came(vm.clone(), peer.ok().and_then(|peer| peer.pid()));
                socket.into_std().map(OwnedFd::from)
            }
            Err(error) => Err(error),
        };
        let socket = match socket {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%disk, %error, "a VM could not be let in");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let client = vhost_user::Client {
            socket,
            serial: serial.clone(),
            sector,
            mapping: mapping.clone(),
        };
        let reader = reader.as_ref().map(ToString::to_string);
        let outcome = shard
            .ask(|handle, reply| handle.connect(id, Box::new(client), reader, reply))
            .await;
        if let Err(error) = &outcome
            && told.as_ref() != Some(error)
        {
            tracing::warn!(%disk, %error, "VM turned away");
        }
        told = outcome.err();
    }
}
