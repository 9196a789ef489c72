use super::*;
use drives::DriveKind;

fn flash(device: &str, smart: Smart) -> FlashDrive {
    FlashDrive {
        drive: Drive {
            device: device.to_owned(),
            kind: DriveKind::Nvme,
            model: None,
            is_rotational: Some(false),
            has_volatile_cache: Some(false),
            smart,
        },
        concerns: Vec::new(),
        told_seconds_ago: None,
        written: None,
    }
}

fn unknown() -> Smart {
    Smart::Unknown {
        reason: "Permission denied".to_owned(),
        remedy: None,
    }
}

fn health(used_percent: u64, written_bytes: u64) -> Health {
    Health {
        used_percent: Some(used_percent),
        written_bytes: Some(written_bytes),
        ..Health::default()
    }
}

fn on(cache: &str, drives: Vec<FlashDrive>) -> CacheDrives {
    CacheDrives {
        cache: cache.parse().unwrap(),
        path: "/flash".to_owned(),
        no_drive: None,
        drives,
    }
}

fn watch() -> DriveWatch {
    DriveWatch {
        caches: Vec::new(),
        asker: Asker::new(Program::Off),
        state: Mutex::default(),
    }
}

#[test]
fn what_the_daemon_may_not_ask_is_told_and_judged() {
    let watch = watch();
    let look = || vec![on("fast", vec![flash("/dev/nvme0n1", unknown())])];
    watch.take(look(), &BTreeMap::new());
    assert_eq!(watch.shown().caches[0].drives[0].concerns, []);
    let told = ToldHealth {
        device: "/dev/nvme0n1".to_owned(),
        health: health(95, 0),
    };
    let shown = watch.told(vec![told]);
    let drive = &shown.caches[0].drives[0];
    assert_eq!(drive.concerns[0].code, ConcernCode::Worn);
    assert!(drive.told_seconds_ago.is_some());
    // The next look still may not ask, and what was told holds.
    watch.take(look(), &BTreeMap::new());
    let drive = &watch.shown().caches[0].drives[0];
    assert_eq!(drive.drive.smart.health().unwrap().used_percent, Some(95));
}

#[test]
fn what_the_daemon_hears_itself_holds_over_what_it_was_told() {
    let watch = watch();
    watch.told(vec![ToldHealth {
        device: "/dev/nvme0n1".to_owned(),
        health: health(95, 0),
    }]);
    let own = Smart::Known(health(3, 0));
    watch.take(
        vec![on("fast", vec![flash("/dev/nvme0n1", own)])],
        &BTreeMap::new(),
    );
    let drive = &watch.shown().caches[0].drives[0];
    assert_eq!(drive.drive.smart.health().unwrap().used_percent, Some(3));
    assert_eq!(drive.told_seconds_ago, None);
}

#[test]
fn caches_on_one_drive_have_written_together() {
    let watch = watch();
    let look = |written| {
        let drive = || flash("/dev/nvme0n1", Smart::Known(health(1, written)));
        vec![on("fast", vec![drive()]), on("slow", vec![drive()])]
    };
    watch.take(look(1000), &BTreeMap::from([("fast", 10), ("slow", 5)]));
    assert_eq!(watch.shown().caches[0].drives[0].written, None);
    watch.take(look(1900), &BTreeMap::from([("fast", 310), ("slow", 105)]));
    let written = watch.shown().caches[1].drives[0].written.unwrap();
    assert_eq!((written.drive_bytes, written.caches_bytes), (900, 400));
    // Another drive in its place begins anew.
    watch.take(look(5), &BTreeMap::from([("fast", 320), ("slow", 106)]));
    let written = watch.shown().caches[0].drives[0].written;
    assert!(written.is_none(), "{written:?}");
}

#[test]
fn a_concern_is_told_once_until_it_has_gone() {
    let watch = watch();
    let look = |used| {
        vec![on(
            "fast",
            vec![flash("/dev/nvme0n1", Smart::Known(health(used, 0)))],
        )]
    };
    let warned = |used| {
        watch.take(look(used), &BTreeMap::new());
        watch.lock().warned.len()
    };
    assert_eq!(
        [warned(10), warned(90), warned(91), warned(10)],
        [0, 1, 1, 0]
    );
}
