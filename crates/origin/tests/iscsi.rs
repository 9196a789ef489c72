//! Units of a real iSCSI target: the contract, the reservation, CHAP, a target that is killed, stands still or grows.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use block_io::{IoError, OriginVerb};
use origin::{Chap, IscsiSpec, Keeping, KeepsNone, OpenError, OriginSpec};
use rustix::process::Signal;
use std::path::Path;
use std::sync::Arc;
use support::tgt::Tgt;
use support::{Rig, SIZE, bodies};
use units::{Bytes, Duration};

fn rig(spec: &IscsiSpec) -> Rig {
    Rig::of(origin::open(&OriginSpec::Iscsi(spec.clone()), false).unwrap())
}

fn refused(spec: &IscsiSpec) -> OpenError {
    origin::open(&OriginSpec::Iscsi(spec.clone()), false).unwrap_err()
}

fn keeping(folder: &Path) -> Keeping {
    Keeping {
        runtime_dir: folder.to_owned(),
        state_dir: folder.to_owned(),
        sockets: Arc::new(KeepsNone),
    }
}

#[test]
fn a_unit_keeps_the_contract() {
    if !Tgt::is_here() {
        return;
    }
    let mut tgt = Tgt::start();
    for (name, body) in bodies::ALL {
        eprintln!("{name}");
        let spec = tgt.unit(SIZE.get());
        body(&mut rig(&spec));
    }
}

#[test]
fn one_host_writes_a_unit() {
    if !Tgt::is_here() {
        return;
    }
    let mut tgt = Tgt::start();
    let here = tgt.unit(SIZE.get());
    let there = IscsiSpec {
        initiator: "iqn.2026-01.org.example:host-2".to_owned(),
        name: format!("{}/there", here.name),
        ..here.clone()
    };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [of_here, of_there] = folders.each_ref().map(|folder| keeping(folder.path()));
    let [here, there] = [here, there].map(OriginSpec::Iscsi);
    let mut first = Rig::of(origin::open_keeping(&here, false, &of_here).unwrap());
    first.write(0, 1, 4096, false);
    assert_eq!(first.one().result, Ok(()));
    let error = origin::open_keeping(&there, false, &of_there).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("in use by the host with the reservation key"),
        "{error}"
    );
    Rig::of(origin::open_beside(&there).unwrap()).expect(0, 4096, 1);
    first.expect(0, 4096, 1);

    // By an operator's word that host is gone: it is fenced off.
    origin::expect_anything(&there, &of_there).unwrap();
    let mut second = Rig::of(origin::open_keeping(&there, false, &of_there).unwrap());
    second.write(0, 2, 4096, true);
    assert_eq!(second.one().result, Ok(()));
    first.write(0, 3, 4096, false);
    assert_eq!(first.one().result, Err(IoError::NotPermitted));
    second.expect(0, 4096, 2);
    drop(first);

    // An end leaves the unit to the next.
    drop(second);
    origin::settle(&there, &of_there, false).unwrap();
    let mut third = Rig::of(origin::open_keeping(&here, false, &of_here).unwrap());
    third.expect(0, 4096, 2);
}

/// The unit as a kill leaves it: reserved, and its session open. Only this process knows of it still, so it has another
/// name here, and the same key.
fn as_after_a_kill(spec: &OriginSpec, folder: &Path) -> (OriginSpec, tempfile::TempDir, Keeping) {
    let OriginSpec::Iscsi(mut other_name) = spec.clone() else {
        unreachable!()
    };
    other_name.name.push('/');
    let spec = OriginSpec::Iscsi(other_name);
    let from = std::fs::read_dir(folder.join("iscsi-keys")).unwrap();
    let from = from.flatten().next().unwrap().path();
    let other = tempfile::tempdir().unwrap();
    let keeping = keeping(other.path());
    origin::expect_anything(&spec, &keeping).unwrap();
    let to = std::fs::read_dir(other.path().join("iscsi-keys")).unwrap();
    std::fs::copy(from, to.flatten().next().unwrap().path()).unwrap();
    (spec, other, keeping)
}

#[test]
fn a_unit_that_is_opened_and_not_used_stays_whose_it_was() {
    if !Tgt::is_here() {
        return;
    }
    let mut tgt = Tgt::start();
    let here = tgt.unit(SIZE.get());
    let there = IscsiSpec {
        initiator: "iqn.2026-01.org.example:host-2".to_owned(),
        name: format!("{}/there", here.name),
        ..here.clone()
    };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [of_here, of_there] = folders.each_ref().map(|folder| keeping(folder.path()));
    let [here, there] = [here, there].map(OriginSpec::Iscsi);
    // Nobody's: a disk that turns out not to fit does not keep it from another host.
    drop(origin::open_keeping(&here, false, &of_here).unwrap());
    origin::settle(&here, &of_here, false).unwrap();
    drop(Rig::of(
        origin::open_keeping(&there, false, &of_there).unwrap(),
    ));
    origin::settle(&there, &of_there, false).unwrap();

    // This host's since before a kill: its flash may have what the unit lacks.
    let mut first = Rig::of(origin::open_keeping(&here, false, &of_here).unwrap());
    first.expect(0, 4096, 0);
    let (after, _folder, of_after) = as_after_a_kill(&here, folders[0].path());
    drop(origin::open_keeping(&after, false, &of_after).unwrap());
    origin::settle(&after, &of_after, false).unwrap();
    let error = origin::open_keeping(&there, false, &of_there).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
}

#[test]
fn a_killed_daemons_unit_is_its_own_again() {
    if !Tgt::is_here() {
        return;
    }
    let mut tgt = Tgt::start();
    let spec = OriginSpec::Iscsi(tgt.unit(SIZE.get()));
    let folder = tempfile::tempdir().unwrap();
    let keeping = keeping(folder.path());
    let mut first = Rig::of(origin::open_keeping(&spec, false, &keeping).unwrap());
    first.write(0, 1, 4096, false);
    assert_eq!(first.one().result, Ok(()));
    let (spec, _other, keeping) = as_after_a_kill(&spec, folder.path());
    let mut second = Rig::of(origin::open_keeping(&spec, false, &keeping).unwrap());
    second.write(0, 2, 4096, true);
    assert_eq!(second.one().result, Ok(()));
    second.expect(0, 4096, 2);
}

#[test]
fn a_target_that_dies_is_logged_in_to_again_and_nothing_is_lost() {
    if !Tgt::is_here() {
        return;
    }
    let mut tgt = Tgt::start();
    let spec = tgt.unit(SIZE.get());
    let mut rig = rig(&spec);
    for block in 0..64 {
        rig.write(block * 4096, 5, 4096, false);
    }
    tgt.kill();
    for block in 64..128 {
        rig.write(block * 4096, 6, 4096, false);
    }
    tgt.start_again();
    assert!(rig.finish(128).values().all(|one| one.result == Ok(())));
    rig.submit(OriginVerb::Flush);
    assert_eq!(rig.one().result, Ok(()));
    rig.expect(0, 64 * 4096, 5);
    rig.expect(64 * 4096, 64 * 4096, 6);
    let bytes = std::fs::read(tgt.file(&spec)).unwrap();
    assert!(bytes[..64 * 4096].iter().all(|byte| *byte == 5));
}

#[test]
fn a_unit_that_another_initiator_resets_is_written_over_a_new_session() {
    if !Tgt::is_here() {
        return;
    }
    let mut tgt = Tgt::start();
    let spec = tgt.unit(SIZE.get());
    let mut rig = rig(&spec);
    rig.write(0, 1, 4096, false);
    assert_eq!(rig.one().result, Ok(()));
    let before = tgt.sessions();
    let mut other = libiscsi::Session::login(&libiscsi::Target {
        portal: &spec.portal,
        name: &spec.target,
        unit: spec.unit,
        initiator: "iqn.2026-01.org.example:host-2",
        session: 7,
        credentials: None,
        of_target: None,
        seconds: 20,
    })
    .unwrap();
    other.reset().unwrap();
    other.logout();
    rig.write(4096, 2, 4096, false);
    assert_eq!(rig.one().result, Ok(()));
    rig.submit(OriginVerb::Flush);
    assert_eq!(rig.one().result, Ok(()));
    rig.expect(0, 4096, 1);
    rig.expect(4096, 4096, 2);
    let after = tgt.sessions();
    assert_eq!((before.len(), after.len()), (1, 1), "{before:?}, {after:?}");
    assert_ne!(
        before, after,
        "what the unit may have forgotten was not told again"
    );
}

#[test]
fn a_target_that_stands_still_holds_nobody() {
    if !Tgt::is_here() {
        return;
    }
    let mut tgt = Tgt::start();
    let spec = IscsiSpec {
        request_timeout: Duration::from_millis(500),
        ..tgt.unit(SIZE.get())
    };
    let mut rig = rig(&spec);
    tgt.signal(Signal::STOP);
    rig.write(0, 2, 4096, false);
    assert_eq!(rig.one().result, Err(IoError::TimedOut));
    assert_eq!(rig.origin.condition().late, Bytes::new(4096));
    tgt.signal(Signal::CONT);
    rig.run_until(|rig| rig.origin.condition().late.is_zero());
    rig.until_ok(|rig| {
        rig.write(0, 3, 4096, true);
        rig.one().result
    });
    rig.expect(0, 4096, 3);
}

/// Both prove who they are (mutual CHAP): a target whose secret is another one is not trusted with a byte.
fn the_target_proves_who_it_is(tgt: &mut Tgt, one_way: &IscsiSpec, folder: &Path) {
    let account = ["--mode", "account", "--user", "store-1"];
    tgt.control(
        &[
            &["--op", "new"],
            &account[..],
            &["--password", "halfasecret3"],
        ]
        .concat(),
    );
    let bind = ["--op", "bind", "--tid", "1", "--outgoing"];
    tgt.control(&[&bind[..], &account].concat());
    let secret_file = folder.join("target-secret");
    let mutual = |user: &str, secret: &str| {
        std::fs::write(&secret_file, secret).unwrap();
        let (user, secret_file) = (user.to_owned(), secret_file.clone());
        IscsiSpec {
            target_chap: Some(Chap { user, secret_file }),
            ..one_way.clone()
        }
    };
    rig(&mutual("store-1", "halfasecret3")).expect(0, 4096, 0);
    for (user, secret) in [("store-1", "another12345"), ("store-2", "halfasecret3")] {
        let error = refused(&mutual(user, secret));
        assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
    }
}

#[test]
fn secrets_are_asked_and_what_is_no_unit_is_told() {
    if !Tgt::is_here() {
        return;
    }
    let mut tgt = Tgt::start();
    let spec = tgt.unit(SIZE.get());
    let (account, both) = (["--user", "host-1"], ["--mode", "account"]);
    tgt.control(
        &[
            &["--op", "new"],
            &both[..],
            &account,
            &["--password", "opensesame12"],
        ]
        .concat(),
    );
    tgt.control(&[&["--op", "bind"], &both[..], &["--tid", "1"], &account].concat());
    let folder = tempfile::tempdir().unwrap();
    let secret_file = folder.path().join("secret");
    let with = |secret: &str| {
        std::fs::write(&secret_file, format!("{secret}\n")).unwrap();
        let (user, secret_file) = ("host-1".to_owned(), secret_file.clone());
        IscsiSpec {
            chap: Some(Chap { user, secret_file }),
            ..spec.clone()
        }
    };
    let error = refused(&spec);
    assert!(matches!(error, OpenError::Unreachable { .. }));
    // A target lets hosts in by their names, and an operator has to know which one it was told.
    let said = units::errors::chain(&error);
    assert!(said.contains(&spec.initiator), "{said}");
    assert!(matches!(
        refused(&with("wrong")),
        OpenError::Unreachable { .. }
    ));
    let right = with("opensesame12");
    rig(&right).expect(0, 4096, 0);
    the_target_proves_who_it_is(&mut tgt, &right, folder.path());
    let nothing = IscsiSpec {
        unit: 9,
        ..right.clone()
    };
    assert!(matches!(refused(&nothing), OpenError::Unreachable { .. }));
    std::fs::remove_file(&secret_file).unwrap();
    let error = refused(&right);
    assert!(format!("{error:?}").contains("secret"), "{error:?}");
    tgt.kill();
    assert!(matches!(refused(&spec), OpenError::Unreachable { .. }));
}
