use super::*;
use origin::FileSpec;

const OPEN: OwnerRecord = OwnerRecord {
    epoch: 3,
    cache: 7,
    open: true,
};
const CLOSED: OwnerRecord = OwnerRecord {
    open: false,
    ..OPEN
};

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("images")).unwrap();
        std::fs::write(folder.path().join("images/web"), "bytes").unwrap();
        Self { folder }
    }

    fn file(&self, disk: u128) -> OwnerFile {
        let origin = OriginSpec::File(FileSpec {
            direct: false,
            ..FileSpec::new(self.folder.path().join("images/web"))
        });
        OwnerFile::new(DiskId::from_u128(disk), &origin, &self.alone(), "main")
    }

    fn alone(&self) -> Folders {
        Folders::alone(self.folder.path())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn record(file: &OwnerFile) -> Option<OwnerRecord> {
    file.load().unwrap().map(|owner| owner.record)
}

#[test]
fn a_disk_that_roams_goes_to_who_may_follow_and_its_records_keep_saying_so() {
    let place = Place::new();
    let to = |host: &str, epoch| Holder {
        host: host.to_owned(),
        epoch,
    };
    let holder = || place.file(1).load().unwrap().unwrap().holder;
    let mut here = place.file(1);
    assert!(here.hand_to(to("a", 1), |before| before.is_none()).unwrap());
    here.store(OPEN, 0).unwrap();
    here.store(CLOSED, 1).unwrap();
    assert_eq!(holder(), Some(to("a", 1)));
    let mut there = place.file(1);
    assert!(
        !there
            .hand_to(to("b", 2), |before| before.is_none())
            .unwrap()
    );
    assert_eq!(holder(), Some(to("a", 1)));
    assert!(
        there
            .hand_to(to("b", 2), |before| before == Some(&to("a", 1)))
            .unwrap()
    );
    assert_eq!(holder(), Some(to("b", 2)));
    assert_eq!(
        record(&there),
        Some(CLOSED),
        "the cache's own record stands"
    );
    // Again, after a write of which it was not known whether it stands.
    assert!(there.hand_to(to("b", 2), |_| false).unwrap());
}

#[test]
fn a_record_is_beside_its_origin_and_read_as_it_was_written() {
    let place = Place::new();
    let file = place.file(1);
    assert_eq!(record(&file), None);
    file.store(OPEN, 0).unwrap();
    let owner = file.load().unwrap().unwrap();
    assert_eq!(owner.record, OPEN);
    assert_eq!(owner.cache_name, "main");
    assert_eq!(owner.path, place.path("images/web.hearth"));
    file.store(CLOSED, 1).unwrap();
    assert_eq!(record(&file), Some(CLOSED));
    assert!(!place.path("images/web.hearth.new").exists());
}

#[test]
fn an_origin_that_is_no_file_has_its_record_in_the_state_directory() {
    let place = Place::new();
    let device = OriginSpec::File(FileSpec {
        direct: false,
        ..FileSpec::new("/dev/null".into())
    });
    let file = OwnerFile::new(DiskId::from_u128(5), &device, &place.alone(), "main");
    file.store(OPEN, 0).unwrap();
    assert!(
        place
            .path(&format!("owners/{}.hearth", DiskId::from_u128(5)))
            .exists()
    );
    assert_eq!(record(&file), Some(OPEN));
    assert!(!file.is_seen_by_others() && place.file(1).is_seen_by_others());
    let shared = Folders {
        shared: Some(place.path("shared")),
        ..place.alone()
    };
    let file = OwnerFile::new(DiskId::from_u128(5), &device, &shared, "main");
    assert!(file.is_seen_by_others());
}

#[test]
fn a_damaged_record_is_an_error_and_never_none() {
    let place = Place::new();
    let file = place.file(1);
    file.store(OPEN, 0).unwrap();
    let path = place.path("images/web.hearth");
    let whole = std::fs::read_to_string(&path).unwrap();
    let closed = whole.replace("open", "closed");
    let later = whole.replace("\"epoch\": 3", "\"epoch\": 4");
    for damaged in [
        "",
        "{}",
        &whole[..whole.trim_end().len() / 2],
        &closed,
        &later,
    ] {
        std::fs::write(&path, damaged).unwrap();
        let error = file.load().unwrap_err();
        assert!(matches!(error, OwnerError::Damaged { .. }), "{damaged}");
    }
    std::fs::write(&path, vec![b' '; 5000]).unwrap();
    assert!(matches!(file.load(), Err(OwnerError::Damaged { .. })));
}

#[test]
fn an_error_of_the_system_has_the_path_and_the_number() {
    let place = Place::new();
    let path = place.path("images/web.hearth");
    std::fs::create_dir(&path).unwrap();
    let error = place.file(1).load().unwrap_err();
    let told = format!("{}: Is a directory (os error 21)", path.display());
    assert!(error.to_string().ends_with(&told), "{error}");
}

#[test]
fn an_origin_that_another_disk_has_open_is_refused_and_one_that_it_closed_is_not() {
    let place = Place::new();
    place.file(1).store(OPEN, 0).unwrap();
    let other = place.file(2);
    let error = other.load().unwrap_err();
    assert!(matches!(error, OwnerError::OtherDisk { .. }), "{error}");
    place.file(1).store(CLOSED, 0).unwrap();
    assert_eq!(record(&other), Some(CLOSED));
}

#[test]
fn an_earlier_record_that_comes_late_does_not_replace_a_later_one() {
    let place = Place::new();
    let file = place.file(1);
    file.store(CLOSED, 2).unwrap();
    assert!(matches!(
        file.clone().store(OPEN, 1),
        Err(OwnerError::Overtaken)
    ));
    assert_eq!(record(&file), Some(CLOSED));
}

#[test]
fn of_two_records_the_later_counts_and_of_equals_the_open_one() {
    let place = Place::new();
    let file = place.file(1);
    let kept = OwnerFile {
        beside: None,
        ..file.clone()
    };
    file.store(OPEN, 0).unwrap();
    kept.store(CLOSED, 1).unwrap();
    assert_eq!(record(&file), Some(OPEN));
    let later = OwnerRecord { epoch: 4, ..CLOSED };
    kept.store(later, 2).unwrap();
    assert_eq!(record(&file), Some(later));
    // Another host, which could write beside the origin, knew nothing of what we keep.
    let there = OwnerRecord { cache: 8, ..later };
    file.store(there, 3).unwrap();
    assert_eq!(record(&file), Some(there));
}

#[test]
fn a_closed_record_goes_to_the_state_directory_when_the_origins_folder_takes_nothing() {
    let place = Place::new();
    let file = place.file(1);
    // Whoever runs this, a folder in the way is no file to be replaced.
    std::fs::create_dir(place.path("images/web.hearth.new")).unwrap();
    assert!(file.store(OPEN, 0).is_err());
    file.store(CLOSED, 1).unwrap();
    assert!(!place.path("images/web.hearth").exists());
    assert_eq!(record(&file), Some(CLOSED));
}

#[test]
fn a_closed_record_of_another_file_is_nobodys_and_an_open_one_an_error() {
    let place = Place::new();
    let identity = |inode| Some(Identity { inode, born: None });
    let before = place.file(1).of_file(identity(7));
    let now = place.file(1).of_file(identity(8));
    before.store(CLOSED, 0).unwrap();
    assert_eq!(record(&before), Some(CLOSED));
    let nobodys = OwnerRecord { cache: 0, ..CLOSED };
    assert_eq!(record(&now), Some(nobodys));
    assert_eq!(record(&place.file(1)), Some(CLOSED), "nothing to compare");
    before.store(OPEN, 1).unwrap();
    let error = now.load().unwrap_err();
    assert!(matches!(error, OwnerError::OtherFile { .. }), "{error}");
    now.store(OPEN, 0).unwrap();
    assert_eq!(record(&now), Some(OPEN));
}

#[test]
fn a_lock_that_is_lost_is_noticed_and_nothing_is_written_then() {
    let place = Place::new();
    let [mut one, mut two] = [1, 2].map(|host| export(&place, host));
    one.lock(false).unwrap();
    one.store(OPEN, 0).unwrap();
    let watch = one.watch().unwrap();
    assert_eq!(watch.check(), Some(Ok(())));
    // As whoever tidies up the folder does.
    std::fs::remove_file(one.lock_path.as_ref().unwrap()).unwrap();
    two.lock(false).unwrap();
    let lost = |result| matches!(result, Err(OwnerError::LockLost { .. }));
    assert!(lost(watch.check().unwrap()));
    assert!(lost(one.store(OwnerRecord { epoch: 9, ..OPEN }, 1)));
    one.store(CLOSED, 2).unwrap();
    assert_eq!(record(&one), Some(OPEN), "it is not ours to close");
    drop(one);
    assert_eq!(watch.check(), None);
}

#[test]
fn a_record_only_rises() {
    let place = Place::new();
    let [here, there] = [1, 1].map(|disk| place.file(disk));
    let later = OwnerRecord {
        epoch: 4,
        cache: 8,
        ..OPEN
    };
    here.store(OPEN, 0).unwrap();
    there.store(later, 0).unwrap();
    let of_the_same_epoch = OwnerRecord { epoch: 4, ..OPEN };
    for (number, earlier) in (1..).zip([OPEN, of_the_same_epoch]) {
        let error = here.store(earlier, number).unwrap_err();
        assert!(matches!(error, OwnerError::Superseded { epoch: 4, .. }));
        assert_eq!(record(&here), Some(later));
    }
    here.store(CLOSED, 3).unwrap();
    assert_eq!(record(&here), Some(later), "it is not ours to close");
    let closed = OwnerRecord {
        open: false,
        ..later
    };
    there.store(closed, 1).unwrap();
    assert_eq!(record(&here), Some(closed));
}

#[test]
fn a_link_leads_to_the_record_of_the_file() {
    let place = Place::new();
    place.file(1).store(OPEN, 0).unwrap();
    let link = place.path("link");
    std::os::unix::fs::symlink(place.path("images/web"), &link).unwrap();
    let origin = OriginSpec::File(FileSpec {
        direct: false,
        ..FileSpec::new(link)
    });
    let file = OwnerFile::new(DiskId::from_u128(1), &origin, &place.alone(), "main");
    assert_eq!(record(&file), Some(OPEN));
}

#[test]
fn a_file_that_is_missing_for_a_moment_keeps_its_record() {
    let place = Place::new();
    place.file(1).store(OPEN, 0).unwrap();
    let link = place.path("link");
    std::os::unix::fs::symlink("images/web", &link).unwrap();
    std::fs::remove_file(place.path("images/web")).unwrap();
    let folders = Folders {
        shared: Some(place.folder.path().to_owned()),
        ..place.alone()
    };
    for path in [place.path("images/web"), link] {
        let origin = OriginSpec::File(FileSpec {
            direct: false,
            ..FileSpec::new(path)
        });
        let mut file = OwnerFile::new(DiskId::from_u128(1), &origin, &folders, "main");
        assert_eq!(record(&file), Some(OPEN));
        // The shared folder is for what is no file.
        file.lock(false).unwrap();
        assert!(file.watch().is_none());
    }
}

#[test]
fn a_device_that_is_missing_for_a_moment_keeps_its_record() {
    let place = Place::new();
    let device = place.path("device");
    std::os::unix::fs::symlink("/dev/null", &device).unwrap();
    let origin = OriginSpec::File(FileSpec {
        direct: false,
        ..FileSpec::new(device.clone())
    });
    let folders = Folders {
        shared: Some(place.folder.path().to_owned()),
        ..place.alone()
    };
    let file = || OwnerFile::new(DiskId::from_u128(1), &origin, &folders, "main");
    file().store(OPEN, 0).unwrap();
    std::fs::remove_file(&device).unwrap();
    assert_eq!(record(&file()), Some(OPEN));
}

/// As a host with this number sees an export, with a folder that all of them share.
fn export(place: &Place, host: u128) -> OwnerFile {
    let origin = OriginSpec::File(FileSpec {
        direct: false,
        ..FileSpec::new("/dev/null".into())
    });
    let folders = Folders {
        cluster: None,
        state: place.path(&format!("host-{host}")),
        shared: Some(place.folder.path().to_owned()),
    };
    OwnerFile::new(DiskId::from_u128(host), &origin, &folders, "main")
}

#[test]
fn hosts_that_share_a_folder_see_each_others_records_of_what_is_no_file() {
    let place = Place::new();
    let (one, two) = (export(&place, 1), export(&place, 2));
    one.store(OPEN, 0).unwrap();
    assert!(matches!(
        two.load().unwrap_err(),
        OwnerError::OtherDisk { .. }
    ));
    one.store(CLOSED, 1).unwrap();
    assert_eq!(record(&two), Some(CLOSED));
    assert!(!place.path("host-1").exists());
}

#[test]
fn what_is_no_file_has_one_writer_or_readers() {
    let place = Place::new();
    let [mut one, mut two, mut three] = [1, 2, 3].map(|host| export(&place, host));
    one.lock(false).unwrap();
    let copy = one.clone();
    drop(one);
    assert!(matches!(two.lock(true), Err(OwnerError::InUse { .. })));
    drop(copy);
    two.lock(true).unwrap();
    three.lock(true).unwrap();
    let mut four = export(&place, 4);
    assert!(matches!(four.lock(false), Err(OwnerError::InUse { .. })));
}

#[test]
fn a_shared_folder_that_is_away_is_an_error_and_never_none() {
    let place = Place::new();
    let mut one = export(&place, 1);
    one.lock_path = Some(place.path("away/record.hearth.lock"));
    assert!(matches!(one.lock(false), Err(OwnerError::Io { .. })));
}

#[test]
fn a_record_from_before_a_folder_was_shared_counts_until_there_is_a_later_one() {
    let place = Place::new();
    let shared = export(&place, 1);
    let before = OwnerFile {
        beside: None,
        ..shared.clone()
    };
    before.store(OPEN, 0).unwrap();
    assert_eq!(record(&shared), Some(OPEN));
    shared.store(CLOSED, 1).unwrap();
    assert_eq!(record(&shared), Some(CLOSED));
}
