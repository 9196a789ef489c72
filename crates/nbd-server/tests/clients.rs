//! Other people's clients read and write the disk.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use support::tools::{has, has_nbdsh, nbdsh, run, try_run};
use support::{DISK_BYTES, Rig};

#[test]
fn nbdinfo_tells_size_and_abilities() {
    if !has("nbdinfo") {
        return;
    }
    let rig = Rig::new();
    assert_eq!(
        run("nbdinfo", &["--size", &rig.uri("disk")]).trim(),
        DISK_BYTES.to_string()
    );
    let info = run("nbdinfo", &["--json", &rig.uri("disk")]);
    for expected in [
        "\"protocol\": \"newstyle-fixed\"",
        "\"structured\": true",
        "\"description\": \"a disk in memory\"",
        "\"is_read_only\": false",
        "\"can_cache\": true",
        "\"can_df\": true",
        "\"can_fast_zero\": false",
        "\"can_flush\": true",
        "\"can_fua\": true",
        "\"can_multi_conn\": true",
        "\"can_trim\": true",
        "\"can_zero\": true",
        "\"block_size_minimum\": 512",
        "\"block_size_preferred\": 4096",
        "\"block_size_maximum\": 33554432",
        "base:allocation",
    ] {
        assert!(info.contains(expected), "{expected} is missing in {info}");
    }
    let fixed = run("nbdinfo", &["--json", &rig.uri("fixed")]);
    for expected in ["\"is_read_only\": true", "\"can_trim\": false"] {
        assert!(fixed.contains(expected), "{expected} is missing in {fixed}");
    }
}

#[test]
fn nbdinfo_lists_both_exports() {
    if !has("nbdinfo") {
        return;
    }
    let rig = Rig::new();
    let list = run("nbdinfo", &["--list", &rig.uri("")]);
    assert!(list.contains("export=\"disk\""), "{list}");
    assert!(list.contains("export=\"fixed\""), "{list}");
    assert!(!try_run("nbdinfo", &[&rig.uri("absent")]).status.success());
}

#[test]
fn nbdinfo_maps_the_whole_disk_as_data() {
    if !has("nbdinfo") {
        return;
    }
    let rig = Rig::new();
    let map = run("nbdinfo", &["--map", &rig.uri("disk")]);
    let fields: Vec<&str> = map.split_whitespace().collect();
    assert_eq!(fields, ["0", &DISK_BYTES.to_string(), "0", "data"]);
}

#[test]
fn nbdcopy_brings_an_image_in_and_out_over_several_connections() {
    if !has("nbdcopy") {
        return;
    }
    let rig = Rig::new();
    let image = rig.folder.path().join("image");
    let copy = rig.folder.path().join("copy");
    let length = usize::try_from(DISK_BYTES).unwrap();
    let mut bytes = vec![0; length];
    units::Prng::new(1).fill(&mut bytes);
    std::fs::write(&image, &bytes).unwrap();
    let (image, uri) = (image.to_str().unwrap(), rig.uri("disk"));
    run("nbdcopy", &["--flush", "--connections=4", image, &uri]);
    run(
        "nbdcopy",
        &["--connections=4", &uri, copy.to_str().unwrap()],
    );
    assert!(std::fs::read(&copy).unwrap() == bytes, "the copy differs");
    assert!(rig.log().iter().any(|line| line == "flush"));
}

#[test]
fn qemu_img_converts_and_compares() {
    if !has("qemu-img") {
        return;
    }
    let rig = Rig::new();
    let image = rig.folder.path().join("image");
    let mut bytes = vec![0; usize::try_from(DISK_BYTES).unwrap()];
    units::Prng::new(2).fill(&mut bytes[10 << 20..20 << 20]);
    std::fs::write(&image, &bytes).unwrap();
    let image = image.to_str().unwrap();
    let uri = rig.uri("disk");
    run(
        "qemu-img",
        &["convert", "-n", "-f", "raw", "-O", "raw", image, &uri],
    );
    run(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "raw", image, &uri],
    );
    let info = run("qemu-img", &["info", "-f", "raw", &uri]);
    assert!(info.contains("64 MiB"), "{info}");
}

#[test]
fn qemu_io_writes_zeroes_discards_and_verifies() {
    if !has("qemu-io") {
        return;
    }
    let rig = Rig::new();
    let uri = rig.uri("disk");
    let io = |command: &str| run("qemu-io", &["-f", "raw", "-c", command, &uri]);
    io("write -P 0xab 1M 3M");
    io("write -f -P 0xcd 1536 512");
    io("write -z 2M 1M");
    io("discard 8M 4M");
    io("flush");
    for (command, what) in [
        ("read -P 0xab 1M 1M", "written"),
        ("read -P 0xcd 1536 512", "written with FUA"),
        ("read -P 0 2M 1M", "zeroed"),
        ("read -P 0xab 3M 1M", "written behind"),
    ] {
        let output = io(command);
        assert!(
            !output.contains("Pattern verification failed"),
            "{what}: {output}"
        );
    }
    let log = rig.log();
    assert!(log.iter().any(|line| line.ends_with("fua=true")), "{log:?}");
    assert!(
        log.iter().any(|line| line.starts_with("zero @2097152")),
        "{log:?}"
    );
    assert!(
        log.iter().any(|line| line.starts_with("discard @8388608")),
        "{log:?}"
    );
}

#[test]
fn qemu_io_is_refused_on_a_read_only_export() {
    if !has("qemu-io") {
        return;
    }
    let rig = Rig::new();
    let uri = rig.uri("fixed");
    let write = try_run("qemu-io", &["-f", "raw", "-c", "write 0 4096", &uri]);
    assert!(!write.status.success());
    run(
        "qemu-io",
        &["-r", "-f", "raw", "-c", "read -P 0 0 4096", &uri],
    );
}

#[test]
fn fio_verifies_what_it_wrote_at_depth() {
    if !has("fio") {
        return;
    }
    let rig = Rig::new();
    let uri = format!("--uri={}", rig.uri("disk"));
    let folder = rig.folder.path().to_str().unwrap().to_owned();
    let aux = format!("--aux-path={folder}");
    let output = run(
        "fio",
        &[
            "--name=verify",
            "--ioengine=nbd",
            &uri,
            &aux,
            "--rw=randwrite",
            "--bsrange=512-128k",
            "--bs_unaligned=0",
            "--blockalign=512",
            "--size=64m",
            "--io_size=96m",
            "--iodepth=32",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
            "--fsync=64",
            "--randseed=7",
        ],
    );
    assert!(output.contains("err= 0"), "{output}");
}

#[test]
fn nbdsh_meets_the_corners_of_the_protocol() {
    if !has_nbdsh() {
        return;
    }
    let rig = Rig::new();
    let script = format!(
        r#"
h.add_meta_context("base:allocation")
h.connect_uri("{}")
assert h.get_structured_replies_negotiated()
size = h.get_size()
h.set_strict_mode(0)

def fails(number, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == number, error
    else:
        assert False, "no error"

h.pwrite(b"x" * 512, 512, nbd.CMD_FLAG_FUA)
assert h.pread(1024, 0) == bytes(512) + b"x" * 512
assert h.pread(512, 512, nbd.CMD_FLAG_DF) == b"x" * 512
h.zero(512, 512, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA)
assert h.pread(512, 512) == bytes(512)
h.trim(4096, 0)
h.cache(1 << 20, 0)
h.flush()
extents = []
h.block_status(size, 0, lambda c, o, e, err: extents.append((c, o, list(e))))
assert extents == [("base:allocation", 0, [size, 0])], extents
fails(errno.EINVAL, lambda: h.pread(512, size))
fails(errno.EINVAL, lambda: h.pread(100, 0))
fails(errno.EINVAL, lambda: h.pread(512, 1))
fails(errno.ENOSPC, lambda: h.pwrite(b"y" * 512, size))
fails(errno.ENOSPC, lambda: h.zero(1024, size - 512))
fails(errno.EINVAL, lambda: h.trim(1024, size - 512))
fails(errno.EINVAL, lambda: h.zero(512, 0, nbd.CMD_FLAG_FAST_ZERO))
# The connection has survived all of that.
assert h.pread(512, size - 512) == bytes(512)
h.shutdown()
"#,
        rig.uri("disk")
    );
    nbdsh(&script);
}

#[test]
fn nbdsh_is_refused_writes_on_a_read_only_export() {
    if !has_nbdsh() {
        return;
    }
    let rig = Rig::new();
    let script = format!(
        r#"
h.set_request_structured_replies(False)
h.connect_uri("{}")
h.set_strict_mode(0)
for call in (lambda: h.pwrite(b"y" * 512, 0), lambda: h.trim(512, 0), lambda: h.zero(512, 0)):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == errno.EPERM, error
    else:
        assert False, "no error"
assert h.pread(512, 0) == bytes(512)
"#,
        rig.uri("fixed")
    );
    nbdsh(&script);
}

#[test]
fn an_old_client_attaches_by_export_name_over_tcp() {
    if !has_nbdsh() {
        return;
    }
    let rig = Rig::new();
    let script = format!(
        r#"
h.set_export_name("disk")
h.set_handshake_flags(0)
h.connect_tcp("127.0.0.1", "{}")
assert h.get_protocol() == "newstyle", h.get_protocol()
h.pwrite(b"z" * 4096, 8192)
assert h.pread(4096, 8192) == b"z" * 4096
"#,
        rig.tcp.port()
    );
    nbdsh(&script);
}
