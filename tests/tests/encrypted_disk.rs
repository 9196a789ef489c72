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
