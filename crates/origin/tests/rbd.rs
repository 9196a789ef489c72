//! Images of a real Ceph cluster: the contract, the lock, a cluster that stands still, and what a client that was killed
//! leaves. One test, because a cluster takes seconds to start.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use block_io::{IoError, OriginVerb};
use origin::{Keeping, KeepsNone, OpenError, OriginSpec, RbdSpec};
use rustix::process::Signal;
use std::sync::Arc;
use support::ceph::Ceph;
use support::{Rig, SIZE, bodies};
use units::{Bytes, Duration, Offset};

#[test]
fn an_image_of_ceph_is_an_origin() {
    if !Ceph::is_here() {
        return;
    }
    let ceph = Ceph::start();
    for (name, body) in bodies::ALL {
        eprintln!("{name}");
        let spec = ceph.image(name, SIZE.get());
        body(&mut rig(&spec, false));
    }
    one_client_writes(&ceph);
    a_snapshot_is_a_base_image(&ceph);
    an_image_grows(&ceph);
    a_cluster_that_stands_still_holds_nobody(&ceph);
    what_is_no_image_is_told(&ceph);
}

fn rig(spec: &RbdSpec, read_only: bool) -> Rig {
    Rig::of(origin::open(&OriginSpec::Rbd(spec.clone()), read_only).unwrap())
}

fn refused(spec: &RbdSpec) -> OpenError {
    origin::open(&OriginSpec::Rbd(spec.clone()), false).unwrap_err()
}

/// Hearth and others that have an image open, and a session of this host that ended without a word.
fn one_client_writes(ceph: &Ceph) {
    let folder = tempfile::tempdir().unwrap();
    let keeping = Keeping {
        runtime_dir: folder.path().to_owned(),
        state_dir: folder.path().to_owned(),
        sockets: Arc::new(KeepsNone),
    };
    let spec = ceph.image("alone", SIZE.get());
    let named = OriginSpec::Rbd(spec.clone());
    let first = origin::open_keeping(&named, false, &keeping).unwrap();
    let mut first = Rig::of(first);
    first.write(0, 1, 4096, false);
    assert_eq!(first.one().result, Ok(()));
    // Another host: the lock, and who has it, are the cluster's. It has another name for the image.
    let elsewhere = RbdSpec {
        name: spec.name.replace("?conf=/", "?conf=//"),
        ..spec.clone()
    };
    let error = refused(&elsewhere).to_string();
    assert!(error.contains("in use by client."), "{error}");
    let mut beside = Rig::of(origin::open_beside(&named).unwrap());
    beside.expect(0, 4096, 1);
    drop(beside);

    // By an operator's word that host is gone: its lock is broken, and what it still sends does not land.
    let other = tempfile::tempdir().unwrap();
    let of_other = Keeping {
        state_dir: other.path().to_owned(),
        ..keeping.clone()
    };
    let elsewhere = OriginSpec::Rbd(elsewhere);
    origin::expect_anything(&elsewhere, &of_other).unwrap();
    let mut second = Rig::of(origin::open_keeping(&elsewhere, false, &of_other).unwrap());
    second.write(0, 2, 4096, true);
    assert_eq!(second.one().result, Ok(()));
    first.write(0, 3, 4096, false);
    assert!(
        first.one().result.is_err(),
        "a client that was fenced off writes nothing"
    );
    second.expect(0, 4096, 2);
    drop(first);

    // An end leaves the lock to the next, as soon as the image is closed.
    drop(second);
    origin::settle(&elsewhere, &of_other, false).unwrap();
    let mut third = Rig::of(origin::open_keeping(&named, false, &keeping).unwrap());
    third.expect(0, 4096, 2);
}

fn a_snapshot_is_a_base_image(ceph: &Ceph) {
    let spec = ceph.image("base", SIZE.get());
    let mut writer = rig(&spec, false);
    writer.write(0, 5, 4096, true);
    assert_eq!(writer.one().result, Ok(()));
    ceph.run(&["rbd", "snap", "create", "--no-progress", "rbd/base@golden"]);
    writer.write(0, 6, 4096, true);
    assert_eq!(writer.one().result, Ok(()));
    let golden = RbdSpec {
        name: format!("{}@golden", spec.name),
        snapshot: Some("golden".to_owned()),
        ..spec
    };
    rig(&golden, true).expect(0, 4096, 5);
    assert!(matches!(refused(&golden), OpenError::ReadOnly { .. }));
}

fn an_image_grows(ceph: &Ceph) {
    let spec = ceph.image("grows", 1 << 20);
    let mut rig = rig(&spec, false);
    assert_eq!(rig.origin.grow(Bytes::mib(2)), Err(IoError::Invalid));
    ceph.run(&[
        "rbd",
        "resize",
        "--no-progress",
        "--size",
        "2M",
        "rbd/grows",
    ]);
    let measured = origin::measure(&OriginSpec::Rbd(spec)).unwrap();
    assert_eq!(measured.size, Bytes::mib(2));
    rig.until_ok(|rig| rig.origin.grow(Bytes::mib(2)));
    rig.write(2 << 19, 7, 4096, true);
    assert_eq!(rig.one().result, Ok(()));
    rig.expect(2 << 19, 4096, 7);
}

fn a_cluster_that_stands_still_holds_nobody(ceph: &Ceph) {
    let spec = RbdSpec {
        request_timeout: Duration::from_millis(500),
        ..ceph.image("still", SIZE.get())
    };
    let mut rig = rig(&spec, false);
    rig.write(0, 1, 4096, true);
    assert_eq!(rig.one().result, Ok(()));
    ceph.signal("osd", Signal::STOP);
    rig.write(0, 2, 4096, false);
    assert_eq!(rig.one().result, Err(IoError::TimedOut));
    rig.read(8192, 4096);
    let done = rig.one();
    assert_eq!(done.result, Err(IoError::TimedOut));
    assert!(done.buf.is_some());
    rig.read(0, 4096);
    assert_eq!(
        rig.one().result,
        Err(IoError::TimedOut),
        "it would bring older bytes"
    );
    assert_eq!(rig.origin.condition().late, Bytes::new(4096));
    ceph.signal("osd", Signal::CONT);
    rig.run_until(|rig| rig.origin.condition().connected);
    rig.read(0, 4096);
    let seen = rig.one();
    assert_eq!(
        (seen.result, seen.buf.unwrap()[0], seen.volatile),
        (Ok(()), 2, true)
    );
    rig.submit(OriginVerb::Flush);
    assert_eq!(rig.one().result, Ok(()));
    rig.read(0, 4096);
    assert!(!rig.one().volatile, "the flush vouches for it");
    rig.submit(OriginVerb::Discard {
        offset: Offset::ZERO,
        length: Bytes::new(4096),
    });
    assert_eq!(rig.one().result, Ok(()));
}

fn what_is_no_image_is_told(ceph: &Ceph) {
    let error = refused(&ceph.spec("nowhere"));
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
    ceph.run(&[
        "rbd",
        "create",
        "--size",
        "1M",
        "--image-feature",
        "layering",
        "rbd/plain",
    ]);
    let error = refused(&ceph.spec("plain")).to_string();
    assert!(error.contains("rbd feature enable"), "{error}");
    let stranger = RbdSpec {
        user: Some("stranger".to_owned()),
        ..ceph.spec("plain")
    };
    let error = refused(&stranger);
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
    let silent = RbdSpec {
        connect_timeout: Duration::from_millis(300),
        ..ceph.spec("plain")
    };
    ceph.signal("mon", Signal::STOP);
    let error = refused(&silent);
    ceph.signal("mon", Signal::CONT);
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
}
