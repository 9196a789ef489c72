//! A disk whose origin becomes longer: what is cached of it stays, and what waits for its origin does,
//! over a kill, too; nothing else is a resize.

use anyhow::ensure;
use e2e::{
    Back, DiskSettings, Flash, Hearth, HearthSettings, Image, LONG, Origin, OriginSettings, nbdsh,
    reads, scenario, wait_until, writes,
};

const MIB: u64 = 1 << 20;

fn set_len(image: &Image, mib: u64) -> anyhow::Result<()> {
    set_bytes(image, mib * MIB)
}

fn set_bytes(image: &Image, bytes: u64) -> anyhow::Result<()> {
    let file = std::fs::File::options().write(true).open(image.path())?;
    Ok(file.set_len(bytes)?)
}

#[test]
fn a_disk_grows_with_its_export_and_keeps_its_cache() {
    scenario(&["nbdkit", "nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", Back::IMAGE_MIB)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let flash = Flash::format(lab, "flash.img", Back::FLASH_MIB)?;
        let disk = DiskSettings::on_nbd(Back::DISK, &origin.uri()).keeping_dirty(64);
        let settings = HearthSettings::new(&flash).disk(&disk);
        let hearth = Hearth::start(lab, &settings)?;
        let uri = hearth.uri(Back::DISK);
        nbdsh(Some(&uri), &writes(0, 100, 5))?;
        hearth.command(&["disk", "flush", Back::DISK, "--wait"])?;
        nbdsh(Some(&uri), &writes(100, 100, 6))?;
        let number = |hearth: &Hearth, key: &str| {
            let shown = hearth.json(&["disk", "show", Back::DISK])?;
            anyhow::Ok(shown[key].as_u64().unwrap_or(0))
        };
        let cached = number(&hearth, "cached_blocks")?;

        // The same again is none, and shorter is refused.
        hearth.command(&["disk", "resize", Back::DISK])?;
        set_len(&image, Back::IMAGE_MIB - 1)?;
        let refused = hearth.refused_command(&["disk", "resize", Back::DISK])?;
        ensure!(refused.stderr.contains("only grows"), "{}", refused.stderr);

        set_len(&image, Back::IMAGE_MIB + 8)?;
        hearth.command(&["disk", "resize", Back::DISK])?;
        ensure!(number(&hearth, "size_bytes")? == (Back::IMAGE_MIB + 8) * MIB);
        ensure!(number(&hearth, "cached_blocks")? == cached);
        let behind = Back::IMAGE_MIB * 256;
        nbdsh(Some(&uri), &writes(behind, 100, 7))?;

        hearth.kill()?;
        let hearth = Hearth::start(lab, &settings)?;
        let attached = || Ok(number(&hearth, "size_bytes")? == (Back::IMAGE_MIB + 8) * MIB);
        wait_until("the disk to be attached again", LONG, attached)?;
        ensure!(number(&hearth, "cached_blocks")? > 0, "nothing was kept");
        let all = reads(0, 100, 5) + &reads(100, 100, 6) + &reads(behind, 100, 7);
        nbdsh(Some(&uri), &all)?;
        hearth.command(&["disk", "flush", Back::DISK, "--wait"])?;
        hearth.stop().map(drop)
    });
}

#[test]
fn what_waits_is_kept_of_a_disk_whose_file_grew_while_nobody_looked() {
    scenario(&["nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", Back::IMAGE_MIB)?;
        let flash = Flash::format(lab, "flash.img", Back::FLASH_MIB)?;
        let disk = DiskSettings::on_file(Back::DISK, image.path()).keeping_dirty(64);
        let settings = HearthSettings::new(&flash).disk(&disk);
        let hearth = Hearth::start(lab, &settings)?;
        let uri = hearth.uri(Back::DISK);
        nbdsh(Some(&uri), &writes(0, 100, 5))?;
        hearth.kill()?;
        set_len(&image, Back::IMAGE_MIB + 1)?;
        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(
            Some(&uri),
            &(reads(0, 100, 5) + &writes(Back::IMAGE_MIB * 256, 10, 3)),
        )?;
        hearth.command(&["disk", "flush", Back::DISK, "--wait"])?;
        hearth.stop().map(drop)
    });
}

#[test]
fn a_size_that_the_configuration_gives_is_not_changed_behind_its_back() {
    scenario(&[], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 64)?;
        let disk = DiskSettings::on_file("disk", image.path()).key("size = '16MiB'");
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash).disk(&disk))?;
        set_len(&image, 17)?;
        let said = hearth.refused_command(&["disk", "resize", "disk"])?.stderr;
        ensure!(
            said.contains("17MiB") && said.contains("leave it out"),
            "{said}"
        );
        hearth.stop().map(drop)
    });
}

#[test]
fn an_origin_that_grew_by_part_of_a_block_is_told_apart() {
    scenario(&[], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 64)?;
        let disk = DiskSettings::on_file("disk", image.path());
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash).disk(&disk))?;
        for more in [1, 512] {
            set_bytes(&image, 17 * MIB + more)?;
            let said = hearth.refused_command(&["disk", "resize", "disk"])?.stderr;
            ensure!(said.contains("grows to a multiple of 4KiB"), "{said}");
        }
        set_len(&image, 17)?;
        hearth.command(&["disk", "resize", "disk"])?;
        hearth.stop().map(drop)
    });
}
