//! Which clients a disk takes over which front end. That vhost-user itself works is shown by its
//! own crate and, with guests, end to end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use shard::{ShardError, ShardHandle};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use support::{DISK, Lab, PATIENCE, ask, connect, status, stop, until};
use units::DiskId;
use vhost_user::MappingLimits;

fn connect_vhost(shard: &ShardHandle, disk: DiskId) -> Result<UnixStream, ShardError> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let client = vhost_user::Client {
        socket: theirs.into(),
        serial: "serial".to_owned(),
        sector: 4096,
        mapping: MappingLimits::default(),
    };
    ask(|reply| shard.connect(disk, Box::new(client), None, reply))?;
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    Ok(ours)
}

/// Asks for the configuration space: the disk's size in sectors of 512 bytes, and its block size.
fn ask_config(qemu: &mut UnixStream) -> (u64, u32) {
    let (code, version, space) = (24_u32, 1_u32, 60_u32);
    let mut message = Vec::new();
    for word in [code, version, 12 + space, 0, space, 0] {
        message.extend(word.to_le_bytes());
    }
    message.extend(vec![0; space as usize]);
    qemu.write_all(&message).unwrap();
    let mut reply = vec![0; 12 + 12 + space as usize];
    qemu.read_exact(&mut reply).unwrap();
    let at = |from: usize| u32::from_le_bytes(reply[from..from + 4].try_into().unwrap());
    (u64::from(at(24)) | u64::from(at(28)) << 32, at(24 + 20))
}

#[test]
fn a_vm_sees_the_disk_and_goes() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let (_, guest) = lab.attach(&shard);
    guest.disconnect();
    until(&shard, |status| status.disks[0].connections == 0);
    let mut qemu = connect_vhost(&shard, lab.spec().id).unwrap();
    assert_eq!(ask_config(&mut qemu), (DISK.get() / 512, 4096));
    let disk = &status(&shard).disks[0];
    assert_eq!(
        (
            disk.connections,
            disk.over(vhost_user::FRONT_END).connections
        ),
        (1, 1)
    );
    drop(qemu);
    until(&shard, |status| {
        status.disks[0].over(vhost_user::FRONT_END).connections == 0
    });
    stop(shard);
}

#[test]
fn one_front_end_is_in_use_at_a_time() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let id = lab.spec().id;
    let (_, guest) = lab.attach(&shard);
    let refused = connect_vhost(&shard, id).unwrap_err();
    assert_eq!(refused, ShardError::OtherFrontEnd(nbd_server::FRONT_END));
    guest.disconnect();
    until(&shard, |status| status.disks[0].connections == 0);
    let qemu = connect_vhost(&shard, id).unwrap();
    let refused = connect(&shard, id).unwrap_err();
    assert_eq!(refused, ShardError::OtherFrontEnd(vhost_user::FRONT_END));
    // Others may wait for the first one's end, but not any number of them.
    let waiting: Vec<_> = (0..3).map(|_| connect_vhost(&shard, id).unwrap()).collect();
    let refused = connect_vhost(&shard, id).unwrap_err();
    assert_eq!(refused, ShardError::TooManyConnections(4));
    drop((qemu, waiting));
    until(&shard, |status| status.disks[0].connections == 0);
    connect(&shard, id).unwrap();
    stop(shard);
}

#[test]
fn a_stop_closes_the_sockets_of_vms() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let (_, guest) = lab.attach(&shard);
    guest.disconnect();
    until(&shard, |status| status.disks[0].connections == 0);
    let mut qemu = connect_vhost(&shard, lab.spec().id).unwrap();
    ask_config(&mut qemu);
    stop(shard);
    assert_eq!(qemu.read(&mut [0]).unwrap(), 0);
}
