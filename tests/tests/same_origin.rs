//! Two disks of one daemon do not use one origin if either writes it, and no disk has the daemon's own
//! export as its origin, however the addresses are spelled.

use anyhow::ensure;
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, Origin, OriginSettings, check_config,
    free_port, nbdsh, scenario,
};

/// Another path to a socket.
fn by_link(lab: &Lab, name: &str, socket: &std::path::Path) -> anyhow::Result<String> {
    let link = lab.path(name);
    std::os::unix::fs::symlink(socket, &link)?;
    Ok(format!("nbd+unix:///disk?socket={}", link.display()))
}

#[test]
fn a_second_disk_on_an_export_is_refused_unless_both_only_read() {
    scenario(&["nbdkit", "nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let flash = Flash::format(lab, "flash.img", 64)?;
        let settings =
            HearthSettings::new(&flash).disk(&DiskSettings::on_nbd("one", &origin.uri()));
        let hearth = Hearth::start(lab, &settings)?;
        let other = by_link(lab, "other.sock", origin.socket())?;
        let attach = |name: &'static str| {
            let other = other.clone();
            move |more: &[&'static str]| {
                let mut words = vec!["disk".to_owned(), "attach".to_owned(), name.to_owned()];
                words.extend(["--origin".to_owned(), other.clone()]);
                words.extend(more.iter().map(|word| (*word).to_owned()));
                words
            }
        };
        let refused = |words: Vec<String>, why: &str| -> anyhow::Result<()> {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let output = hearth.refused_command(&words)?;
            ensure!(output.stderr.contains(why), "{}", output.stderr);
            Ok(())
        };
        let accepted = |words: Vec<String>| {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            hearth.command(&words)
        };
        refused(attach("two")(&[]), "the disk 'one' uses the origin")?;
        refused(attach("two")(&["--read-only"]), "the disk 'one' uses")?;
        hearth.command(&["disk", "detach", "one"])?;
        accepted(attach("two")(&["--read-only"]))?;
        accepted(attach("three")(&["--read-only"]))?;
        refused(attach("four")(&[]), "uses the origin of 'four' already")?;
        hearth.command(&["disk", "detach", "two"])?;
        hearth.command(&["disk", "detach", "three"])?;
        accepted(attach("four")(&[]))?;

        // What is served here is no origin either.
        let own = by_link(lab, "own.sock", hearth.nbd_socket())?;
        let words = ["disk", "attach", "five", "--origin", &own];
        let output = hearth.refused_command(&words)?;
        ensure!(
            output.stderr.contains("export of this daemon"),
            "{}",
            output.stderr
        );
        nbdsh(Some(&hearth.uri("four")), "h.pread(4096, 0)")?;
        hearth.stop().map(|_| ())
    });
}

#[test]
fn a_configuration_with_one_origin_twice_is_not_sound() {
    scenario(&[], |lab| {
        let flash = Flash::format(lab, "flash.img", 64)?;
        let port = free_port()?;
        let disks = |one: &str, two: &str, more: &str| {
            let [one, two] = [("one", one), ("two", two)].map(|(name, host)| {
                let disk = DiskSettings::on_nbd(name, &format!("nbd://{host}:{port}/x"));
                disk.key(more)
            });
            HearthSettings::new(&flash).disk(&one).disk(&two)
        };
        for (one, two) in [("localhost", "127.0.0.1"), ("[::1]", "LOCALHOST")] {
            let answer = check_config(&disks(one, two, "").write(lab)?)?;
            ensure!(
                answer.code == 2
                    && answer
                        .stderr
                        .contains("is the origin of disk[0], 'one', too"),
                "{one} {two}: {}",
                answer.stderr
            );
        }
        let readers =
            check_config(&disks("localhost", "127.0.0.1", "read_only = true").write(lab)?)?;
        // No server is there, which is all that is found.
        ensure!(
            readers.stderr.contains("cannot reach origin")
                && !readers.stderr.contains("is the origin of"),
            "{}",
            readers.stderr
        );
        let own = disks("localhost", "127.0.0.2", "")
            .nbd_key(&format!("tcp_address = '127.0.0.1:{port}'"));
        let answer = check_config(&own.write(lab)?)?;
        ensure!(
            answer.code == 2 && answer.stderr.contains("is an export of this daemon"),
            "{}",
            answer.stderr
        );
        Ok(())
    });
}
