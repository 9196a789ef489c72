//! A VM maps no more than it may, however long the files are that it sends.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use rustix::fs::MemfdFlags;
use std::os::fd::{AsFd, OwnedFd};
use support::front::whole;
use support::{Rig, disk};
use units::Bytes;
use vhost_protocol::{Features, Request};
use vhost_user::MappingLimits;

const TIB: u64 = 1 << 40;

/// A file in memory that is this long and has not a page.
fn hollow(bytes: u64) -> OwnedFd {
    let file = rustix::fs::memfd_create("hollow", MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, bytes).unwrap();
    file
}

fn give(rig: &mut Rig, bytes: u64) -> u64 {
    let table = Request::SetMemoryTable(vec![whole(usize::try_from(bytes).unwrap())]);
    rig.acknowledged(&table, &[hollow(bytes).as_fd()])
}

#[test]
fn a_vm_with_more_memory_than_allowed_is_refused_and_others_are_served() {
    let limits = MappingLimits::new(Bytes::new(TIB), Bytes::new(3 * TIB));
    let vm = || {
        let mut rig = Rig::new(&disk());
        let connection = rig.connection.take().unwrap();
        rig.connection = Some(connection.mapping_within(&limits));
        rig.negotiate(Features::NONE);
        rig
    };
    let mut greedy = vm();
    assert_ne!(give(&mut greedy, 2 * TIB), 0, "more than one VM may have");
    assert_eq!(limits.mapped(), Bytes::ZERO);
    assert_eq!(give(&mut greedy, TIB), 0);
    assert_eq!(
        give(&mut greedy, TIB),
        0,
        "a table takes another one's place"
    );
    assert_eq!(limits.mapped(), Bytes::new(TIB));

    let (mut second, mut third) = (vm(), vm());
    assert_eq!(give(&mut second, TIB), 0);
    assert_eq!(give(&mut third, TIB), 0);
    let mut fourth = vm();
    assert_ne!(give(&mut fourth, TIB), 0, "more than all may have");
    drop((greedy, second));
    assert_eq!(give(&mut fourth, TIB), 0);
    drop((third, fourth));
    assert_eq!(limits.mapped(), Bytes::ZERO);
}
