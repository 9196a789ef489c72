//! `hearth bench` over vhost-user: against QEMU's server, and against Hearth, where what was
//! written over vhost-user is then read over NBD.

use std::process::Command;

use anyhow::ensure;
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, Origin, OriginSettings, Process,
    SHORT, hearth, scenario, wait_for_listener, wait_until,
};

fn verified(target: &str, rest: &[&str]) -> anyhow::Result<serde_json::Value> {
    let mut words = vec!["--json", "bench", target, "--verify=crc32c", "--bs=4k"];
    words.extend(rest);
    let report = hearth(&words)?.json()?;
    let job = report["jobs"][0].clone();
    ensure!(job["verify"]["wrong"] == 0 && job["error"] == 0, "{job}");
    Ok(job)
}

fn qemu(lab: &Lab, image: &Image) -> anyhow::Result<(Process, String)> {
    let socket = lab.path("qemu.sock");
    let file = format!(
        "driver=file,node-name=f,filename={}",
        image.path().display()
    );
    let export = "type=vhost-user-blk,id=e,node-name=f,writable=on,num-queues=2,addr.type=unix";
    let mut command = Command::new("qemu-storage-daemon");
    command.args(["--blockdev", &file, "--export"]);
    command.arg(format!("{export},addr.path={}", socket.display()));
    let server = Process::start(lab, "qemu-storage-daemon", &mut command)?;
    // Not by connecting: it serves one client, and this would be it.
    wait_for_listener(&socket)?;
    Ok((server, format!("vhost-user:{}", socket.display())))
}

#[test]
fn qemu_s_server_is_loaded_over_two_queues() {
    scenario(&["qemu-storage-daemon"], |lab| {
        let image = Image::new(lab, "disk.raw", 16)?;
        let (_server, target) = qemu(lab, &image)?;
        let jobs = ["--numjobs=2", "--size=8m", "--offset_increment=8m"];
        let load = ["--rw=randwrite", "--iodepth=16", "--group_reporting"];
        let job = verified(&target, &[jobs, load].concat())?;
        ensure!(job["write"]["io_bytes"] == 16 << 20, "{job}");
        ensure!(job["verify"]["right"] == 4096, "{job}");
        // The bytes are on the image, and another run knows them.
        let path = image.path().display().to_string();
        let job = verified(&path, &["--rw=read", "--direct=0"])?;
        ensure!(job["verify"]["right"] == 4096, "{job}");
        Ok(())
    });
}

#[test]
fn what_was_written_to_hearth_over_vhost_user_is_read_over_nbd() {
    scenario(&["nbdkit"], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let flash = Flash::format(lab, "flash.img", 64)?;
        let socket = lab.path("disk-vhost.sock");
        let disk = DiskSettings::on_nbd("disk", &origin.uri()).vhost_user(&socket, "");
        let daemon = Hearth::start(lab, &HearthSettings::new(&flash).disk(&disk))?;
        let target = format!("vhost-user:{}", socket.display());
        wait_until("the disk's socket", SHORT, || Ok(socket.exists()))?;
        let job = verified(&target, &["--rw=randrw", "--iodepth=32", "--fdatasync=64"])?;
        let bytes = |side: &str| job[side]["io_bytes"].as_u64().unwrap_or(0);
        ensure!(bytes("read") + bytes("write") == 16 << 20, "{job}");
        verified(&target, &["--rw=write", "--iodepth=8"])?;
        let job = verified(&daemon.uri("disk"), &["--rw=randread", "--iodepth=8"])?;
        ensure!(job["verify"]["right"] == 4096, "{job}");
        daemon.stop()?;
        Ok(())
    });
}

#[test]
fn a_disk_that_is_in_use_over_nbd_is_refused_with_what_to_look_at() {
    scenario(&["nbdkit", "nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let flash = Flash::format(lab, "flash.img", 64)?;
        let socket = lab.path("disk-vhost.sock");
        let disk = DiskSettings::on_nbd("disk", &origin.uri()).vhost_user(&socket, "");
        let daemon = Hearth::start(lab, &HearthSettings::new(&flash).disk(&disk))?;
        wait_until("the disk's socket", SHORT, || Ok(socket.exists()))?;
        let mut client = Command::new("nbdsh");
        client.args([
            "--uri",
            &daemon.uri("disk"),
            "-c",
            "import time; time.sleep(600)",
        ]);
        let _client = Process::start(lab, "client", &mut client)?;
        wait_until("a client over NBD", SHORT, || {
            Ok(daemon.json(&["disk", "show", "disk"])?["connections"] == 1)
        })?;
        let target = format!("vhost-user:{}", socket.display());
        let answer = hearth(&["bench", &target, "--rw=read", "--bs=4k"])?;
        ensure!(
            answer.code == 4,
            "exit code {}: {}",
            answer.code,
            answer.stderr
        );
        for words in ["closed the connection", "NBD", "hearth disk show"] {
            ensure!(answer.stderr.contains(words), "{words}: {}", answer.stderr);
        }
        Ok(())
    });
}
