//! A base image that several VMs read: cached once, each VM counted apart, never written.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cache::ViewStats;
use shard::{DiskSpec, ShardError, ShardHandle, Tap, TapEvent};
use std::sync::{Arc, mpsc};
use support::{DISK, Guest, Lab, ask, connect, connect_as, status, stop, until, verify};
use units::TenantSlot;

fn attach_image(lab: &Lab, shard: &ShardHandle) -> DiskSpec {
    let spec = DiskSpec {
        name: "base".to_owned(),
        tenant: "base".to_owned(),
        shared: true,
        ..lab.spec()
    };
    let opened = origin::open(&lab.origin(), false).unwrap();
    ask(|reply| shard.attach(spec.clone(), opened, reply)).unwrap();
    spec
}

fn join(shard: &ShardHandle, spec: &DiskSpec, vm: &str) -> Guest {
    connect_as(shard, spec.id, Some(vm)).unwrap()
}

fn slot(shard: &ShardHandle, vm: &str) -> TenantSlot {
    let status = status(shard);
    let found = status.tenants.iter().find(|tenant| tenant.name == vm);
    found.unwrap().slot
}

fn view(shard: &ShardHandle, vm: &str) -> ViewStats {
    let slot = slot(shard, vm);
    let status = status(shard);
    let found = status.disks[0].views.iter().find(|view| view.0 == slot);
    found.unwrap().1
}

#[test]
fn an_image_is_fetched_once_for_all_its_vms() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let spec = attach_image(&lab, &shard);
    let mut web = join(&shard, &spec, "web");
    let mut db = join(&shard, &spec, "db");
    verify(&mut web, &lab.expected);
    verify(&mut db, &lab.expected);
    let disk = &status(&shard).disks[0];
    assert_eq!(disk.stats.origin_read_bytes, DISK.get());
    assert!(disk.shared && disk.read_only);
    let blocks = DISK.get() / 4096;
    let (web, db) = (view(&shard, "web"), view(&shard, "db"));
    assert_eq!((web.read_block_misses, web.read_block_hits), (blocks, 0));
    assert_eq!((db.read_block_misses, db.read_block_hits), (0, blocks));
    assert_eq!((web.blocks_seen, web.blocks_found), (blocks, 0));
    assert_eq!((db.blocks_seen, db.blocks_found), (blocks, blocks));
    stop(shard);
}

#[test]
fn nobody_writes_an_image() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let spec = attach_image(&lab, &shard);
    let mut web = join(&shard, &spec, "web");
    assert_ne!(web.write(0, &[1; 4096], 0), 0);
    assert_ne!(web.trim(0, 4096, 0), 0);
    assert_ne!(web.zero(0, 4096), 0);
    assert_eq!(web.flush(), 0);
    verify(&mut web, &lab.expected);
    ask(|reply| shard.flush(spec.id, reply)).unwrap();
    stop(shard);
    assert!(std::fs::read(lab.origin_path()).unwrap() == lab.expected);
}

#[test]
fn a_client_of_an_image_is_some_vm_and_of_a_disk_none() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let spec = attach_image(&lab, &shard);
    assert_eq!(connect(&shard, spec.id).unwrap_err(), ShardError::WhichVm);
    for _ in 0..4 {
        std::mem::forget(join(&shard, &spec, "web"));
    }
    let fifth = connect_as(&shard, spec.id, Some("web")).unwrap_err();
    assert_eq!(fifth, ShardError::TooManyConnections(4));
    let mut db = join(&shard, &spec, "db");
    assert_eq!(db.read(4096, 4096), lab.expected[4096..8192]);
    stop(shard);
    let shard = lab.spawn();
    let opened = origin::open(&lab.origin(), false).unwrap();
    ask(|reply| shard.attach(lab.spec(), opened, reply)).unwrap();
    let named = connect_as(&shard, lab.spec().id, Some("web")).unwrap_err();
    assert_eq!(named, ShardError::NotShared);
    stop(shard);
}

#[test]
fn the_last_vm_that_leaves_leaves_the_blocks() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let spec = attach_image(&lab, &shard);
    let mut web = join(&shard, &spec, "web");
    let mut db = join(&shard, &spec, "db");
    verify(&mut web, &lab.expected);
    web.disconnect();
    until(&shard, |s| s.disks[0].connections == 1);
    let views = |tenant: &cache::TenantStatus| tenant.views;
    let of = |name| move |tenant: &&cache::TenantStatus| tenant.name == name;
    let tenants = status(&shard).tenants;
    assert_eq!(tenants.iter().find(of("web")).map(views), Some(0));
    assert_eq!(tenants.iter().find(of("db")).map(views), Some(1));
    verify(&mut db, &lab.expected);
    db.disconnect();
    until(&shard, |s| s.disks[0].connections == 0);
    // The VM comes back, and what it asked before is still counted.
    let mut web = join(&shard, &spec, "web");
    verify(&mut web, &lab.expected);
    assert_eq!(status(&shard).disks[0].stats.origin_read_bytes, DISK.get());
    assert_eq!(view(&shard, "web").read_bytes, 2 * DISK.get());
    ask(|reply| shard.detach(spec.id, cache::OfDirty::Refuse, reply)).unwrap();
    attach_image(&lab, &shard);
    assert_eq!(status(&shard).disks[0].warm_blocks, DISK.get() / 4096);
    stop(shard);
}

#[test]
fn a_tap_tells_which_vm_asked() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let spec = attach_image(&lab, &shard);
    let (events, heard) = mpsc::sync_channel(16);
    let tap = Tap {
        disk: 3,
        events,
        lost: Arc::default(),
    };
    ask(|reply| shard.tap(spec.id, Some(tap), reply)).unwrap();
    let mut web = join(&shard, &spec, "web");
    let mut db = join(&shard, &spec, "db");
    web.read(0, 4096);
    db.read(8192, 512);
    let told: Vec<TapEvent> = heard.try_iter().collect();
    let vms: Vec<TenantSlot> = told.iter().map(|event| event.vm).collect();
    assert_eq!(vms, [slot(&shard, "web"), slot(&shard, "db")]);
    assert!(told.iter().all(|event| event.disk == 3));
    stop(shard);
}

#[test]
fn what_holds_for_vms_changes_while_they_are_served() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let (_, mut guest) = lab.attach(&shard);
    assert!(status(&shard).host.is_none(), "there are no tenants yet");
    let settings = tenancy::Settings {
        admission: "larc".parse().unwrap(),
        staging: units::Bytes::mib(4),
        ..tenancy::Settings::default()
    };
    ask(|reply| shard.set_tenancy(Some(settings), reply)).unwrap();
    verify(&mut guest, &lab.expected);
    let blocks = DISK.get() / 4096;
    let after = status(&shard);
    let first_touch = policy::admission::Reason::FirstTouch;
    assert_eq!(after.reports[0].counts.refused.of(first_touch), blocks);
    assert_eq!(after.stats.not_admitted.refused.of(first_touch), blocks);
    assert_eq!(after.disks[0].stats.cached_blocks, 0);
    // More than there is cannot be promised.
    let greedy = tenancy::TenantSettings {
        floor: units::Bytes::gib(1),
        ..tenancy::TenantSettings::default()
    };
    let refused = ask(|reply| shard.set_tenant("vm1".to_owned(), greedy.clone(), reply));
    let ShardError::Settings(why) = refused.unwrap_err() else {
        panic!("the settings are at fault");
    };
    assert!(why.to_string().contains("segment"), "{why}");
    // Nor to one that is not there yet: it is served, and nothing of it enters.
    ask(|reply| shard.set_tenant("late".to_owned(), greedy, reply)).unwrap();
    ask(|reply| shard.detach(lab.spec().id, cache::OfDirty::Refuse, reply)).unwrap();
    let spec = DiskSpec {
        tenant: "late".to_owned(),
        ..lab.spec()
    };
    let opened = origin::open(&lab.origin(), false).unwrap();
    ask(|reply| shard.attach(spec.clone(), opened, reply)).unwrap();
    let mut guest = connect(&shard, spec.id).unwrap();
    verify(&mut guest, &lab.expected);
    let closed = status(&shard);
    assert_eq!(closed.stats.not_admitted.settings, blocks);
    let late = closed.tenants.iter().find(|tenant| tenant.name == "late");
    assert!(late.unwrap().error.is_some());
    // Switched off again, everything enters.
    ask(|reply| shard.set_tenancy(None, reply)).unwrap();
    verify(&mut guest, &lab.expected);
    assert_eq!(status(&shard).disks[0].stats.cached_blocks, blocks);
    stop(shard);
}
