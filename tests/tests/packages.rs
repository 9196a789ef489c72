//! The packages on an empty Debian that runs under systemd: installed, configured, upgraded under a guest that reads
//! and writes, kept from removal while flash holds what origins lack, removed; Debian's and RPM's have the same files, and RPM's ask
//! for nothing that its distributions lack.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use e2e::{
    DEBIAN_TOOLS, Debian, GUEST_TOOLS, Guest, GuestKit, LONG, Packages, is_root, run, scenario,
    wait_until,
};

const ALL: [&str; 3] = ["hearth", "hearth-monitor", "hearth-dashboards"];
const FILES: u64 = 6000;

const CONFIGURATION: &str = "\
[[cache]]
name = 'main'
path = '/var/cache/hearth/main.flash'
[[disk]]
name = 'disk'
origin = { file = '/srv/images/disk.raw' }
write_policy = 'back'
write_back = { age_max = '1000s', idle_after = '1000s' }
";

/// The files of a package without its folders, by their paths.
fn files(listing: &str) -> BTreeSet<String> {
    let paths = listing.lines().map(|path| path.trim_start_matches('.'));
    let files = paths.filter(|path| !path.ends_with('/'));
    files.map(str::to_owned).collect()
}

/// Where the rpm of this name has what the deb has there; nowhere if only the deb has it.
fn in_rpm(path: &str, name: &str) -> Option<String> {
    // Proxmox is Debian, and rpm would ask for the modules that its plugin uses.
    if path.starts_with("/usr/share/hearth/proxmox/") {
        return None;
    }
    let license = format!("/usr/share/licenses/{name}/LICENSE");
    let path = path.replace(&format!("/usr/share/doc/{name}/copyright"), &license);
    Some(path.replace("/zsh/vendor-completions/", "/zsh/site-functions/"))
}

/// What an rpm says of itself.
fn query(rpm: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new("rpm");
    command.args(["-q", "-p"]).args(arguments).arg(rpm);
    Ok(run(&mut command)?.stdout)
}

/// An rpm asks for nothing that its distributions lack, and its files are root's and nobody else's to write.
fn check_rpm(name: &str, rpm: &Path) -> anyhow::Result<()> {
    let needs = query(rpm, &["--requires"])?;
    let known = |need: &str| {
        let need = need.split(' ').next().unwrap_or_default();
        ["/bin/sh", "systemd", "hearth", "rtld(GNU_HASH)"].contains(&need)
            || ["rpmlib(", "config(hearth)", "user(hearth", "group("]
                .iter()
                .any(|start| need.starts_with(start))
            || need.contains(".so.")
    };
    let strange: Vec<&str> = needs.lines().filter(|need| !known(need)).collect();
    ensure!(strange.is_empty(), "{name} asks for {strange:?}");
    let format =
        "[%{FILEMODES:perms} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILEFLAGS:fflags} %{FILENAMES}\n]";
    for line in query(rpm, &["--queryformat", format])?.lines() {
        let sound = line == "-rw-r----- root:root cn /etc/hearth/hearth.toml"
            || line.starts_with("-rw-r--r-- root:root ")
            || line.starts_with("-rwxr-xr-x root:root ")
            || line.starts_with("drwxr-xr-x root:root ");
        ensure!(sound, "{line}");
    }
    let scripts = query(rpm, &["--scripts"])?;
    let steps: &[&str] = match name {
        "hearth" => &["prepare hearth\n", "upgraded hearth.socket", "may-remove"],
        "hearth-monitor" => &["installed hearth-monitor", "remove hearth-monitor"],
        "hearth-guest" => &["prepare hearth-guest\n", "remove hearth-guest"],
        _ => &[],
    };
    for step in steps {
        ensure!(scripts.contains(step), "no {step} in {scripts}");
    }
    Ok(())
}

#[test]
fn debian_and_rpm_packages_have_the_files_that_make_install_puts_in_place() {
    scenario(DEBIAN_TOOLS, |lab| {
        let packages = Packages::make(lab, "0.1.0", "both")?;
        for name in [
            "hearth",
            "hearth-monitor",
            "hearth-dashboards",
            "hearth-guest",
        ] {
            let deb = packages.file(name, "deb")?;
            let list = "dpkg-deb --fsys-tarfile \"$0\" | tar -t";
            let of_deb = run(Command::new("sh").args(["-c", list]).arg(deb))?.stdout;
            let of_deb = files(&of_deb);
            let of_deb: BTreeSet<_> = of_deb.iter().filter_map(|it| in_rpm(it, name)).collect();
            let rpm = packages.file(name, "rpm")?;
            let of_rpm = query(
                &rpm,
                &["--queryformat", "[%{FILEMODES:perms} %{FILENAMES}\n]"],
            )?;
            let of_rpm: BTreeSet<_> = of_rpm
                .lines()
                .filter(|line| !line.starts_with('d'))
                .filter_map(|line| Some(line.split_once(' ')?.1.to_owned()))
                .collect();
            ensure!(of_deb == of_rpm, "{of_deb:#?}\n{of_rpm:#?}");
            check_rpm(name, &rpm)?;
            run(Command::new("rpm")
                .args(["--checksig", "--nosignature"])
                .arg(rpm))?;
        }
        let deb = packages.file("hearth", "deb")?;
        let conffiles = run(Command::new("dpkg-deb")
            .arg("--info")
            .arg(&deb)
            .arg("conffiles"))?;
        ensure!(
            conffiles.stdout == "/etc/hearth/hearth.toml\n",
            "{}",
            conffiles.stdout
        );
        let bill = "dpkg-deb --fsys-tarfile \"$0\" | tar -xO ./usr/share/hearth/sbom.cdx.json";
        let bill = run(Command::new("sh").args(["-c", bill]).arg(deb))?.stdout;
        let bill: serde_json::Value = serde_json::from_str(&bill)?;
        let parts = bill["components"].as_array().map_or(0, Vec::len);
        ensure!(
            bill["bomFormat"] == "CycloneDX" && parts > 100,
            "{parts} parts"
        );
        Ok(())
    });
}

/// A cache, a disk under write-back whose image lies outside of the service's folders, and the drop-in that opens that.
fn configure(debian: &Debian, image: &Path) -> anyhow::Result<()> {
    let images = debian.path("/srv/images");
    fs::create_dir_all(&images)?;
    run(Command::new("cp")
        .arg("--sparse=always")
        .arg(image)
        .arg(images.join("disk.raw")))?;
    debian.run(&["chown", "-R", "hearth:hearth", "/srv/images"])?;
    let user = ["--reuid=hearth", "--regid=hearth", "--init-groups"];
    let format = [
        "hearth",
        "cache",
        "format",
        "/var/cache/hearth/main.flash",
        "--size",
        "512MiB",
    ];
    debian.run(&[&["setpriv"][..], &user, &format].concat())?;
    let drop_ins = debian.path("/etc/systemd/system/hearth.service.d");
    fs::create_dir_all(&drop_ins)?;
    let example = debian.path("/usr/share/doc/hearth/examples/storage.conf");
    fs::copy(example, drop_ins.join("storage.conf"))?;
    // Not another file, whose owner would be another.
    fs::write(debian.path("/etc/hearth/hearth.toml"), CONFIGURATION)?;
    debian.run(&["systemctl", "daemon-reload"])?;
    debian.run(&["systemctl", "restart", "hearth"])?;
    Ok(())
}

fn dirty_bytes(debian: &Debian) -> anyhow::Result<u64> {
    let shown = debian.hearth(&["disk", "show", "disk"])?;
    Ok(shown["write_back"]["dirty_bytes"]
        .as_u64()
        .unwrap_or_default())
}

/// Waits until the guest has written and synced so many files more.
fn write_on(guest: &Guest, more: u64) -> anyhow::Result<()> {
    let before = guest.files_synced();
    wait_until("the guest to write", LONG, || {
        Ok(guest.files_synced() >= before + more)
    })?;
    ensure!(guest.files_synced() < FILES, "the guest was done too early");
    Ok(())
}

#[test]
#[allow(
    clippy::too_many_lines,
    reason = "a host's whole life: an empty one takes seconds to make"
)]
fn an_empty_debian_is_installed_upgraded_under_a_guest_and_cleared() {
    if !is_root("a host of its own") {
        return;
    }
    scenario(&[DEBIAN_TOOLS, GUEST_TOOLS].concat(), |lab| {
        let kit = GuestKit::build()?;
        let older = Packages::make(lab, "0.1.0", "deb")?;
        let newer = Packages::make(lab, "0.1.1", "deb")?;
        let debian = Debian::boot(lab)?;
        debian.install(&older, &ALL)?;
        for unit in ["hearth.service", "hearth.socket", "hearth-monitor.service"] {
            debian.run(&["systemctl", "is-active", unit])?;
            debian.run(&["systemctl", "is-enabled", unit])?;
        }
        ensure!(debian.hearth(&["status"])?["disks"] == 0);
        let owner = debian.run(&["stat", "-c", "%U:%G %a", "/etc/hearth/hearth.toml"])?;
        ensure!(owner.stdout.trim() == "root:hearth 640", "{}", owner.stdout);

        configure(&debian, kit.disk(lab)?.path())?;
        let socket = debian.live("/run/hearth/nbd.sock");
        let steps = format!(
            "write,dir=/var/probe,from=1,files={FILES},kib=4+read,dir=/srv/files+verify,dir=/var/probe,through={FILES}"
        );
        let guest = Guest::boot(lab, &kit, &socket, "disk", "guest", &steps)?;
        write_on(&guest, 5)?;

        // The new program takes over in place: the same process, and no request fails.
        let process = debian.property("hearth.service", "MainPID")?;
        let log = [
            "journalctl",
            "--unit",
            "hearth",
            "--grep",
            "listening for NBD",
            "--output",
            "cat",
        ];
        let starts = |debian: &Debian| anyhow::Ok(debian.run(&log)?.stdout.lines().count());
        let before = starts(&debian)?;
        debian.install(&newer, &ALL)?;
        wait_until("the new program to serve", LONG, || {
            Ok(starts(&debian)? > before)
        })?;
        ensure!(debian.property("hearth.service", "MainPID")? == process);
        write_on(&guest, 5)?;

        // An operator's mistake in the configuration does not end the program that serves.
        let wrong = format!("{CONFIGURATION}chache = 'typo'\n");
        fs::write(debian.path("/etc/hearth/hearth.toml"), wrong)?;
        let said = debian.install(&newer, &["hearth"])?.stderr;
        ensure!(
            said.contains("chache") && said.contains("the old one serves on"),
            "{said}"
        );
        fs::write(debian.path("/etc/hearth/hearth.toml"), CONFIGURATION)?;
        write_on(&guest, 5)?;

        // What origins lack keeps Hearth from being removed.
        ensure!(dirty_bytes(&debian)? > 0, "the guest writes");
        let said = debian
            .fails(&["dpkg", "--remove", ALL[0], ALL[1], ALL[2]])?
            .stderr;
        ensure!(said.contains("hearth disk flush DISK --wait"), "{said}");
        debian.run(&["systemctl", "is-active", "hearth.service"])?;
        guest.finish()?;
        debian.run(&["hearth", "disk", "flush", "disk", "--wait"])?;
        debian.run(&["dpkg", "--remove", ALL[0], ALL[1], ALL[2]])?;
        ensure!(debian.property("hearth.service", "ActiveState")? == "inactive");
        ensure!(!debian.path("/usr/bin/hearth").exists());
        run(Command::new("e2fsck")
            .args(["-f", "-y"])
            .arg(debian.path("/srv/images/disk.raw")))?;

        // Even a purge leaves the flash, and an installation after it finds what is there.
        let said = debian.run(&["dpkg", "--purge", "hearth"])?.stderr;
        ensure!(said.contains("/var/cache/hearth"), "{said}");
        ensure!(debian.path("/var/cache/hearth/main.flash").exists());
        debian.install(&newer, &["hearth"])?;
        fs::write(debian.path("/etc/hearth/hearth.toml"), CONFIGURATION)?;
        debian.run(&["systemctl", "restart", "hearth"])?;
        let disk = debian.hearth(&["disk", "show", "disk"])?;
        ensure!(disk["state"] == "attached", "{disk}");
        let held = debian.hearth(&["status"])?["caches"][0]["recovered_blocks"].clone();
        ensure!(held.as_u64() > Some(0), "{held} blocks were still cached");
        Ok(())
    });
}
