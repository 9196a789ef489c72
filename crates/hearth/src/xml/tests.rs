use super::*;
use crate::cli::args::{Cli, Command};
use api::samples;
use clap::Parser as _;

fn args(more: &[&str]) -> Xml {
    let words = [&["hearth", "xml", "--disk", "web-1"], more].concat();
    match Cli::parse_from(words).command {
        Command::Xml(xml) => xml,
        other => panic!("{other:?}"),
    }
}

fn disk() -> DiskStatus {
    samples::disks().disks.remove(0)
}

fn listeners() -> Vec<Listener> {
    let tcp = Listener {
        address: "nbd://10.0.0.1:10809/".to_owned(),
        tls_required: true,
    };
    let mut listeners = samples::status().listeners;
    listeners.push(tcp);
    listeners
}

fn texts(more: &[&str], disk: &DiskStatus) -> Attachments {
    attachments(&args(more), disk, &listeners()).unwrap()
}

#[test]
fn a_disk_is_attached_as_agreed() {
    let args = args(&["--memory", "2GiB"]);
    let attachments = attachments(&args, &disk(), &listeners()).unwrap();
    assert_eq!(
        words::write(&args, &attachments),
        include_str!("snapshots/web-1.txt")
    );
}

#[test]
fn one_text_can_be_passed_on() {
    let words = [
        "--front-end",
        "vhost-user",
        "--only",
        "cloud-hypervisor",
        "--cpus",
        "2",
    ];
    let args = args(&words);
    let attachments = attachments(&args, &disk(), &listeners()).unwrap();
    assert_eq!(
        words::write(&args, &attachments),
        "--cpus boot=2 \\\n--memory size=4096M,shared=on \\\n--disk vhost_user=true,socket=/run/hearth/vhost/web-1.sock,\
         num_queues=2,queue_size=128,id=hearth-web-1\n"
    );
}

#[test]
fn an_image_is_attached_under_the_name_of_its_vm() {
    let mut image = disk();
    image.shared = true;
    image.vhost_user.sockets[0].path = "/run/hearth/vhost/web-1@db.sock".to_owned();
    image.vhost_user.sockets[0].vm = "db".parse().unwrap();
    let of_db = texts(&["--vm", "db"], &image);
    let addresses: Vec<&str> = of_db.ways.iter().map(|way| way.address.as_str()).collect();
    assert_eq!(
        addresses,
        [
            "/run/hearth/vhost/web-1@db.sock",
            "nbd+unix:///web-1%40db?socket=/run/hearth/nbd.sock",
            "nbd://10.0.0.1:10809/web-1%40db",
        ]
    );
    let error = attachments(&args(&[]), &image, &listeners()).unwrap_err();
    assert_eq!(error.exit, Exit::Usage);
    // It has no socket for a VM that may not read it.
    assert_eq!(texts(&["--vm", "other"], &image).ways.len(), 2);
}

#[test]
fn a_front_end_that_is_off_is_said_to_be() {
    let mut bare = disk();
    bare.vhost_user.sockets.clear();
    let error = attachments(&args(&["--front-end", "vhost-user"]), &bare, &listeners());
    let error = error.unwrap_err();
    assert_eq!(error.exit, Exit::Refused);
    assert!(error.remedy.unwrap().contains("vhost_user.directory"));
}

#[test]
fn a_way_that_does_not_lead_to_the_disk_is_not_told() {
    let mut closed = disk();
    closed.vhost_user.sockets[0].error = Some("somebody else listens there".to_owned());
    let error = attachments(&args(&[]), &closed, &listeners()).unwrap_err();
    assert_eq!(error.exit, Exit::Refused);
    assert!(error.message.contains("somebody else listens there"));
    assert_eq!(texts(&["--front-end", "nbd"], &closed).ways.len(), 2);
    // And Cloud Hypervisor has no line for NBD.
    let words = ["--front-end", "nbd", "--only", "cloud-hypervisor"];
    let error = attachments(&args(&words), &disk(), &listeners()).unwrap_err();
    assert_eq!(error.exit, Exit::Refused);
}

#[test]
fn an_image_is_told_to_vms_that_may_read_it() {
    let known = samples::vms();
    let reader = known.vms.iter().find(|vm| !vm.images.is_empty()).unwrap();
    let image = reader.images[0].image.clone();
    assert!(may_read(&reader.name, &image, &known).is_ok());
    let error = may_read(&"nobody".parse().unwrap(), &image, &known).unwrap_err();
    assert_eq!(error.exit, Exit::Refused);
    assert!(
        error
            .remedy
            .unwrap()
            .contains("hearth vm set nobody --new --image")
    );
}

#[test]
fn memory_is_whole_mib() {
    use clap::Parser as _;
    for wrong in ["4", "0MiB", "1.5MiB"] {
        let words = ["hearth", "xml", "--disk", "web-1", "--memory", wrong];
        assert!(Cli::try_parse_from(words).is_err(), "{wrong}");
    }
}

#[test]
fn over_nbd_the_vm_is_told_what_the_daemon_says_over_vhost_user() {
    let mut disk = disk();
    disk.read_only = true;
    disk.vhost_user.sector_bytes = 4096;
    disk.vhost_user.serial = "a,b<c>".to_owned();
    let texts = texts(&["--front-end", "nbd"], &disk);
    let (qemu, xml) = (texts.ways[0].qemu.join(" "), &texts.ways[0].libvirt.disk);
    for part in [
        "read-only=on",
        "serial=a,,b<c>",
        "logical_block_size=4096,physical_block_size=4096",
    ] {
        assert!(qemu.contains(part), "{part}: {qemu}");
    }
    for part in ["<readonly/>", "a,b&lt;c&gt;", "logical_block_size='4096'"] {
        assert!(xml.contains(part), "{part}: {xml}");
    }
}

#[test]
fn a_listener_on_every_address_is_reached_within_the_host() {
    let at = |address: &str| {
        let listener = Listener {
            address: address.to_owned(),
            tls_required: false,
        };
        let args = args(&["--front-end", "nbd"]);
        let attachments = attachments(&args, &disk(), &[listener]).unwrap();
        attachments.ways[0].address.clone()
    };
    assert_eq!(at("nbd://0.0.0.0:10809/"), "nbd://127.0.0.1:10809/web-1");
    assert_eq!(at("nbd://[::]:10810/"), "nbd://[::1]:10810/web-1");
    assert_eq!(at("nbd://10.0.0.1:10809/"), "nbd://10.0.0.1:10809/web-1");
}

#[test]
fn a_long_name_is_cut_to_what_qemu_takes() {
    let mut disk = disk();
    disk.name = "a-name-that-is-longer-than-a-node-may-be".parse().unwrap();
    let texts = texts(&["--front-end", "nbd"], &disk);
    assert!(texts.ways[0].qemu[1].contains("node-name=hearth-0011223344556677,"));
}

/// Of the libvirt that is installed, major and minor.
fn version() -> (u32, u32) {
    let output = std::process::Command::new("virsh")
        .arg("--version")
        .output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let mut numbers = text.split('.').map(|number| number.trim().parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// libvirt's validator, where it is installed.
fn validator() -> Option<&'static std::path::Path> {
    let validator = std::path::Path::new("/usr/bin/virt-xml-validate");
    if validator.exists() {
        return Some(validator);
    }
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "virt-xml-validate is not installed; run `make setup`"
    );
    None
}

fn domain(parts: &str, disk: &str) -> String {
    format!(
        "<domain type='kvm'><name>web</name><memory unit='GiB'>4</memory>\
         <os><type arch='x86_64' machine='q35'>hvm</type></os>{parts}<devices>{disk}</devices></domain>"
    )
}

fn assert_valid(validator: &std::path::Path, domain: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), domain).unwrap();
    let output = std::process::Command::new(validator)
        .arg(file.path())
        .arg("domain")
        .output()
        .unwrap();
    assert!(output.status.success(), "{domain}\n{output:?}");
}

/// A reader copies it, whichever libvirt he has.
#[test]
fn libvirt_takes_the_xml_of_the_readme_and_of_the_book() {
    let Some(validator) = validator() else { return };
    for text in [
        include_str!("../../../../README.md"),
        include_str!("../../../../book/src/attach.md"),
    ] {
        let mut blocks = text.split("```xml\n").skip(1).peekable();
        assert!(blocks.peek().is_some(), "it has none any more");
        for block in blocks {
            let (disk, _) = block.split_once("```").unwrap();
            assert_valid(validator, &domain("", disk));
        }
    }
}

/// Whatever is printed is of libvirt's schema, wherever its validator is installed.
#[test]
fn libvirt_takes_the_xml() {
    let Some(validator) = validator() else { return };
    let mut plain = disk();
    for large in [false, true] {
        if large {
            plain.vhost_user.sector_bytes = 4096;
            plain.read_only = true;
        }
        for way in texts(&[], &plain).ways {
            // Only what is newer than the libvirt that is installed here is left away.
            let is_new = way.libvirt.needs.is_some() && version() < (9, 1);
            let reconnect = "    <reconnect delay='60'/>\n";
            if is_new {
                assert!(way.libvirt.disk.contains(reconnect));
            }
            let disk = way
                .libvirt
                .disk
                .replace(if is_new { reconnect } else { "\0" }, "");
            let parts = way.libvirt.domain.unwrap_or_default();
            assert_valid(validator, &domain(&parts, &disk));
        }
    }
}

#[test]
fn a_vm_with_a_channel_is_told_once() {
    let vms = samples::vms();
    let web = "web".parse().unwrap();
    let guest = guest_of(&web, &vms).unwrap();
    assert_eq!(
        guest.qemu.join(" "),
        "-device virtio-serial-pci -chardev socket,id=hearth-guest,path=/run/hearth/guest/web.sock,reconnect=1 \
         -device virtserialport,chardev=hearth-guest,name=org.hearth.guest.0"
    );
    let args = args(&[]);
    let mut attachments = attachments(&args, &disk(), &listeners()).unwrap();
    let without = words::write(&args, &attachments);
    attachments.guest = Some(guest);
    let text = words::write(&args, &attachments);
    let behind = text.strip_prefix(&without).unwrap();
    assert_eq!(behind.matches("<channel type='unix'>").count(), 1);
    assert!(behind.contains("<reconnect enabled='yes' timeout='1'/>"));
}

#[test]
fn a_channel_that_is_not_open_is_told_to_nobody() {
    let mut vms = samples::vms();
    let web = "web".parse().unwrap();
    vms.vms[0].guest.as_mut().unwrap().error = Some("in use".to_owned());
    assert_eq!(guest_of(&web, &vms), None);
}
