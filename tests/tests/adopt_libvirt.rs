//! `hearth adopt` beside a real libvirt: a VM's disk comes to Hearth, is there after a restart of the daemon, and goes back, and the
//! VM's definition is then byte for byte what it was. A VM that runs is refused, and a definition that libvirt refuses leaves nothing attached.

use anyhow::ensure;
use e2e::{Adoption, GUEST_TOOLS, Lab, Libvirt, is_root, scenario};

fn tools() -> Vec<&'static str> {
    [GUEST_TOOLS, Libvirt::TOOLS].concat()
}

fn comes_and_goes(lab: &Lab, via: &str) -> anyhow::Result<()> {
    let (host, hearth) = Adoption::new(lab)?;
    let before = host.definition()?;
    let shown = host.adopt(&["--via", via])?;
    ensure!(shown["is_done"] == false, "{shown}");
    ensure!(
        shown["disks"][0]["outcome"] == "adopted" && shown["disks"][1]["outcome"] == "refused",
        "{shown}"
    );
    ensure!(host.definition()? == before, "showing it changed the VM");
    // A VM that runs keeps its disk.
    let mut through = host.runs(0)?;
    let said = host.refused(&["--via", via, "--disk", "vda", "--yes"])?;
    ensure!(
        said.contains("running") && said.contains("virsh shutdown"),
        "{said}"
    );
    through = through.max(host.cut_off()?);

    let done = host.adopt(&["--via", via, "--yes"])?;
    ensure!(done["is_done"] == true, "{done}");
    let again = host.adopt(&["--via", via, "--yes"])?;
    ensure!(
        again["disks"][0]["outcome"] == "is-there" && again["is_done"] == false,
        "{again}"
    );
    let now = host.runs(through)?;
    let disk = hearth.json(&["disk", "show", Adoption::DISK])?;
    ensure!(
        disk["connections"].as_u64() > Some(0) && disk["vm"] == Libvirt::VM,
        "{disk}"
    );
    ensure!(
        disk["counters"]["guest_read_requests"].as_u64() != Some(0),
        "{disk}"
    );
    through = now.max(host.cut_off()?);

    // It is remembered.
    hearth.stop()?;
    let hearth = host.start_daemon(false)?;
    let now = host.runs(through)?;
    let said = host.refused(&["--undo", "--yes"])?;
    ensure!(said.contains("running"), "{said}");
    through = now.max(host.cut_off()?);

    let back = host.adopt(&["--undo", "--yes"])?;
    ensure!(back["disks"][0]["outcome"] == "given-back", "{back}");
    let after = host.definition()?;
    ensure!(after == before, "it was:\n{before}\nand is:\n{after}");
    hearth.refused_command(&["disk", "show", Adoption::DISK])?;
    hearth.stop()?;
    host.account(through)
}

#[test]
fn over_nbd() {
    if is_root("a libvirt of its own") {
        scenario(&tools(), |lab| comes_and_goes(lab, "nbd"));
    }
}

#[test]
fn over_vhost_user() {
    if is_root("a libvirt of its own") {
        scenario(&tools(), |lab| comes_and_goes(lab, "vhost-user"));
    }
}

#[test]
fn what_cannot_be_finished_is_taken_back() {
    if !is_root("a libvirt of its own") {
        return;
    }
    scenario(&tools(), |lab| {
        let (host, hearth) = Adoption::new(lab)?;
        let before = host.definition()?;
        let bin = lab.path("bin");
        std::fs::create_dir(&bin)?;
        let refusing = "#!/bin/sh\ncase \" $* \" in *' define '*) echo 'error: not today' >&2; exit 1;; esac\nexec /usr/bin/virsh \"$@\"\n";
        let virsh = lab.write("bin/virsh", refusing)?;
        std::fs::set_permissions(&virsh, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let path = bin.display().to_string();
        let failed = host.adopt_with(&["--yes"], &path)?;
        ensure!(
            failed.code == 1 && failed.stderr.contains("not today"),
            "{}",
            failed.stderr
        );
        hearth.refused_command(&["disk", "show", Adoption::DISK])?;
        ensure!(host.definition()? == before);

        host.adopt(&["--yes", "--write-policy", "back"])?;
        let failed = host.adopt_with(&["--undo", "--yes"], &path)?;
        ensure!(
            failed.code == 1 && failed.stderr.contains("not today"),
            "{}",
            failed.stderr
        );
        hearth.command(&["disk", "show", Adoption::DISK])?;
        // What the storage lacks keeps the disk here.
        hearth.command(&[
            "disk",
            "set",
            Adoption::DISK,
            "--age-max",
            "1000s",
            "--idle-after",
            "1000s",
        ])?;
        let through = host.runs(0)?;
        let through = through.max(host.cut_off()?);
        let said = host.refused(&["--undo", "--yes"])?;
        ensure!(said.contains("dirty"), "{said}");
        host.adopt(&["--undo", "--flush", "--yes"])?;
        ensure!(host.definition()? == before);
        hearth.stop()?;
        host.account(through)
    });
}
