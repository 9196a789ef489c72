//! No command without the daemon runs beside it: an NBD origin cannot be locked, so what keeps them apart
//! is the lock of the state folder, or that of the flash.

use anyhow::ensure;
use e2e::{
    Answer, Back, DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, Origin, OriginSettings,
    nbdsh, reads, scenario, writes,
};

struct Place {
    flash: Flash,
    settings: HearthSettings,
    _origin: Origin,
}

impl Place {
    fn new(lab: &Lab) -> anyhow::Result<Self> {
        let image = Image::new(lab, "origin.raw", Back::IMAGE_MIB)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let flash = Flash::format(lab, "flash.img", Back::FLASH_MIB)?;
        let disk = DiskSettings::on_nbd(Back::DISK, &origin.uri()).keeping_dirty(100);
        Ok(Self {
            settings: HearthSettings::new(&flash).disk(&disk),
            flash,
            _origin: origin,
        })
    }
}

fn recover(lab: &Lab, words: &[&str]) -> anyhow::Result<Answer> {
    let config = lab.path("hearth.toml").display().to_string();
    e2e::hearth(&[&["recover"], words, &["--config", &config]].concat())
}

fn is_refused(answer: &Answer) -> anyhow::Result<()> {
    ensure!(
        answer.code == 4
            && answer
                .stderr
                .contains("systemctl stop hearth.socket hearth.service"),
        "{}: {}",
        answer.code,
        answer.stderr
    );
    Ok(())
}

#[test]
fn nothing_is_given_up_under_a_daemon_that_serves_an_nbd_origin() {
    scenario(&["nbdkit", "nbdsh"], |lab| {
        let place = Place::new(lab)?;
        let hearth = Hearth::start(lab, &place.settings)?;
        nbdsh(Some(&hearth.uri(Back::DISK)), &writes(0, 20, 5))?;
        let flash = place.flash.path().display().to_string();
        let out = lab.path("out.raw").display().to_string();
        let elsewhere = lab.path("elsewhere").display().to_string();
        let drop = ["drop", "--disk", Back::DISK, "--yes-lose-data"];
        is_refused(&recover(lab, &drop)?)?;
        is_refused(&recover(lab, &[&drop[..], &[&flash]].concat())?)?;
        // A wrong state folder has no lock, but the flash has.
        is_refused(&recover(
            lab,
            &[&drop[..], &["--state-dir", &elsewhere]].concat(),
        )?)?;
        for words in [
            &["list", &flash][..],
            &["verify", &flash],
            &["destage", &flash, "--disk", Back::DISK],
            &["export", &flash, "--disk", Back::DISK, "--to", &out],
        ] {
            is_refused(&recover(lab, words)?)?;
        }
        ensure!(!lab.path("out.raw").exists());
        nbdsh(Some(&hearth.uri(Back::DISK)), &writes(20, 20, 6))?;
        hearth.stop()?;

        let hearth = Hearth::start(lab, &place.settings)?;
        let uri = hearth.uri(Back::DISK);
        nbdsh(Some(&uri), &(reads(0, 20, 5) + &reads(20, 20, 6)))?;
        hearth.stop().map(|_| ())
    });
}

#[test]
fn other_flash_is_not_looked_at_beside_a_daemon_whose_records_may_change() {
    scenario(&["nbdkit", "nbdsh"], |lab| {
        let place = Place::new(lab)?;
        let hearth = Hearth::start(lab, &place.settings)?;
        let other = Flash::format(lab, "other.img", 64)?;
        let other = other.path().display().to_string();
        is_refused(&recover(lab, &["list", &other])?)?;
        let elsewhere = lab.path("elsewhere").display().to_string();
        let listed = recover(lab, &["list", &other, "--state-dir", &elsewhere])?;
        ensure!(listed.code == 0, "{}", listed.stderr);
        ensure!(!lab.path("elsewhere").exists(), "looking made a folder");
        hearth.stop().map(|_| ())
    });
}

#[test]
fn what_waits_is_given_up_where_no_daemon_ever_ran() {
    scenario(&["nbdkit", "nbdsh"], |lab| {
        let place = Place::new(lab)?;
        let hearth = Hearth::start(lab, &place.settings)?;
        nbdsh(Some(&hearth.uri(Back::DISK)), &writes(0, 20, 5))?;
        hearth.stop()?;
        std::fs::remove_dir_all(lab.path("state"))?;
        let words = ["drop", "--disk", Back::DISK, "--yes-lose-data"];
        let dropped = recover(lab, &words)?;
        ensure!(dropped.code == 0, "{}", dropped.stderr);
        let hearth = Hearth::start(lab, &place.settings)?;
        let script = "assert h.pread(4096, 4096) != bytes([1, 5]) * 2048";
        nbdsh(Some(&hearth.uri(Back::DISK)), script)?;
        hearth.stop().map(|_| ())
    });
}
