//! A disk with a key: nothing of its guest lies plainly on the flash, it is warm after a kill, its key
//! is needed, and a detach with `--erase` makes the flash unreadable for ever.

use std::path::Path;

use anyhow::{Context, ensure};
use e2e::{DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, nbdsh, scenario};

const DISK: &str = "disk";
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const PLAIN: &[u8] = b"these bytes are for the guest and for nobody else;";

fn disk(image: &Image, key: &Path) -> DiskSettings {
    DiskSettings::on_file(DISK, image.path())
        .key("write_policy = 'back'")
        .key("write_back = { dirty_max = '64MiB' }")
        .key("[disk.encryption]")
        .key(&format!("key_file = '{}'", key.display()))
}

fn holds_plain(flash: &Flash) -> anyhow::Result<bool> {
    let content = flash.content()?;
    Ok(content.chunks(4096).any(|page| page.starts_with(PLAIN)))
}

fn write(hearth: &Hearth) -> anyhow::Result<()> {
    let text = String::from_utf8(PLAIN.to_vec())?;
    let script = format!(
        "page = (b'{text}' * 100)[:4096]\nfor b in range(64):\n    h.pwrite(page, b * 4096)\nh.flush()\n"
    );
    nbdsh(Some(&hearth.uri(DISK)), &script).map(drop)
}

fn check(hearth: &Hearth) -> anyhow::Result<()> {
    let text = String::from_utf8(PLAIN.to_vec())?;
    let script = format!(
        "page = (b'{text}' * 100)[:4096]\nfor b in range(64):\n    assert h.pread(4096, b * 4096) == page, b\n"
    );
    nbdsh(Some(&hearth.uri(DISK)), &script).map(drop)
}

fn lab(lab: &Lab) -> anyhow::Result<(Image, Flash, HearthSettings)> {
    let key = lab.write("key", KEY)?;
    let image = Image::new(lab, "origin.raw", 64)?;
    let flash = Flash::format(lab, "flash.img", 256)?;
    let settings = HearthSettings::new(&flash).disk(&disk(&image, &key));
    Ok((image, flash, settings))
}

#[test]
fn a_key_hides_the_guests_bytes_on_flash() {
    scenario(&["nbdsh"], |place| {
        let (_image, flash, settings) = lab(place)?;
        let hearth = Hearth::start(place, &settings)?;
        write(&hearth)?;
        ensure!(
            !holds_plain(&flash)?,
            "the guest's bytes lie plainly on flash"
        );
        hearth.kill()?;
        // Another key does not open it, and nothing is lost by trying.
        place.write("key", &KEY.replace('f', "e"))?;
        let hearth = Hearth::start(place, &settings.clone().in_trouble(DISK))?;
        let shown = hearth.json(&["disk", "show", DISK])?.to_string();
        ensure!(shown.contains("does not open the data key"), "{shown}");
        hearth.stop()?;
        place.write("key", KEY)?;
        let hearth = Hearth::start(place, &settings)?;
        check(&hearth)?;
        hearth.stop()?;
        ensure!(
            !holds_plain(&flash)?,
            "the guest's bytes lie plainly on flash"
        );
        Ok(())
    });
}

#[test]
fn an_erased_key_leaves_nothing_to_read() {
    scenario(&["nbdsh"], |place| {
        let (image, _flash, settings) = lab(place)?;
        let hearth = Hearth::start(place, &settings)?;
        write(&hearth)?;
        hearth.refused_command(&["disk", "detach", DISK, "--keep", "--erase"])?;
        hearth.command(&["disk", "detach", DISK, "--flush", "--erase"])?;
        let keys = place.path("state").join("keys");
        let left = std::fs::read_dir(&keys).with_context(|| keys.display().to_string())?;
        ensure!(left.count() == 0, "the data key is still there");
        hearth.stop()?;
        ensure!(
            image.read(0, PLAIN.len())? == PLAIN,
            "the origin has it all"
        );
        // The next attach begins with a key of its own, and finds nothing that it could read.
        let hearth = Hearth::start(place, &settings)?;
        let shown = hearth.json(&["disk", "show", DISK])?;
        ensure!(shown["cached_blocks"] == 0, "{shown}");
        check(&hearth)?;
        hearth.stop()?;
        Ok(())
    });
}

/// A killed daemon's flash and memory have the disk's bytes, encrypted; the origin has none of them.
#[test]
fn recover_needs_the_key_to_show_what_waits_and_none_to_check_it() {
    scenario(&["nbdsh"], |place| {
        let (image, flash, settings) = lab(place)?;
        let hearth = Hearth::start(place, &settings)?;
        write(&hearth)?;
        // Not flushed: in the memory that a killed daemon leaves.
        let last = "h.pwrite((b'and these came last' * 256)[:4096], 64 * 4096)";
        nbdsh(Some(&hearth.uri(DISK)), last)?;
        hearth.kill()?;
        let config = place.path("hearth.toml").display().to_string();
        let flash = flash.path().display().to_string();
        let recover = |words: &[&str]| {
            let first = ["recover", words[0], &flash, "--config", &config];
            e2e::hearth(&[&first[..], &words[1..]].concat())
        };
        let listed = recover(&["list", "--json"])?.json()?;
        ensure!(listed["disks"][0]["encrypted"] == true, "{listed}");
        ensure!(listed["disks"][0]["dirty_bytes"] == 65 * 4096, "{listed}");
        recover(&["verify", "--json"])?.json()?;

        let out = place.path("out.raw").display().to_string();
        let export = ["export", "--disk", DISK, "--to", &out];
        let refused = |words: &[&str], why: &str| -> anyhow::Result<()> {
            let answer = recover(words)?;
            ensure!(answer.code == 4, "{}: {}", answer.code, answer.stderr);
            ensure!(answer.stderr.contains(why), "{}", answer.stderr);
            Ok(())
        };
        let other = place.write("other", &KEY.replace('f', "e"))?;
        let other = other.display().to_string();
        refused(
            &[&export[..], &["--key-file", &other]].concat(),
            "does not open the data key",
        )?;
        let nowhere = place.path("nowhere").display().to_string();
        refused(
            &[&export[..], &["--state-dir", &nowhere]].concat(),
            "is not in the state folder",
        )?;
        ensure!(
            !Path::new(&out).exists(),
            "an export was begun without the key"
        );

        let script = place.write("tell-key", &format!("echo {KEY}\n"))?;
        let script = script.display().to_string();
        let told = ["--key-command", "/bin/sh", &script];
        let answer = recover(&[&export[..], &told].concat())?;
        ensure!(answer.code == 0, "{}", answer.stderr);
        let exported = std::fs::read(&out)?;
        ensure!(
            exported.starts_with(PLAIN),
            "the export is not what was written"
        );
        ensure!(exported[64 * 4096..].starts_with(b"and these came last"));

        // The key from where the configuration says.
        let answer = recover(&["destage", "--disk", DISK])?;
        ensure!(answer.code == 0, "{}", answer.stderr);
        ensure!(image.read(0, PLAIN.len())? == PLAIN);
        ensure!(image.read(64 * 4096, 8)? == b"and thes");
        let hearth = Hearth::start(place, &settings)?;
        check(&hearth)?;
        hearth.stop()?;
        Ok(())
    });
}
