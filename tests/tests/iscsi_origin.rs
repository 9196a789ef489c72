//! Disks on units of a real iSCSI target: attached by their address, written through and back, by one host at a time. A
//! target that dies amid writes is logged in to again, and a daemon that was killed has its disks again at once.

use anyhow::ensure;
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, Tgt, check_config, nbdsh, reads, scenario,
    writes,
};

#[test]
fn a_unit_is_written_by_one_host_at_a_time_and_survives_its_target_and_its_daemon() {
    scenario(&[Tgt::TOOLS, &["nbdsh"]].concat(), |lab| {
        let (one, two) = (Image::new(lab, "one", 64)?, Image::new(lab, "two", 64)?);
        let mut tgt = Tgt::start(lab, &[&one, &two])?;
        let (through, back) = (tgt.address(1), tgt.address(2));
        let flash = Flash::format(lab, "flash.img", 256)?;
        let settings = HearthSettings::new(&flash)
            .disk(&DiskSettings::on_iscsi("through", &through, "host-1"))
            .disk(&DiskSettings::on_iscsi("back", &back, "host-1").keeping_dirty(32));
        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(Some(&hearth.uri("through")), &writes(0, 40, 3))?;
        nbdsh(Some(&hearth.uri("back")), &writes(0, 40, 4))?;
        ensure!(
            one.read(4096, 4096)? == e2e::block(1, 3),
            "it was written through"
        );
        ensure!(
            two.read(4096, 4096)? != e2e::block(1, 4),
            "it waits on flash"
        );

        // Another host is refused, and told by whom.
        let elsewhere = lab.host("elsewhere")?;
        let other_flash = Flash::format(&elsewhere, "flash.img", 256)?;
        let other = HearthSettings::new(&other_flash);
        let other = Hearth::start(&elsewhere, &other)?;
        let attach = ["disk", "attach", "through", "--origin", &through];
        let refused = other.refused_command(&attach)?.stderr;
        ensure!(
            refused.contains("in use by the host with the reservation key"),
            "{refused}"
        );

        // The target dies amid writes.
        let uri = hearth.uri("through");
        let client = std::thread::spawn(move || nbdsh(Some(&uri), &writes(0, 4000, 5)));
        tgt.kill()?;
        tgt.start_again(lab)?;
        let said = client
            .join()
            .map_err(|_| anyhow::anyhow!("the client's thread"))?;
        said?;
        nbdsh(Some(&hearth.uri("through")), &reads(0, 4000, 5))?;

        // The daemon is killed: the units are its own still.
        hearth.kill()?;
        let checked = check_config(&settings.write(lab)?)?;
        ensure!(checked.code == 0, "{}", checked.stderr);
        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(
            Some(&hearth.uri("through")),
            &(reads(0, 40, 5) + &writes(0, 10, 6)),
        )?;
        nbdsh(
            Some(&hearth.uri("back")),
            &(reads(0, 40, 4) + &writes(40, 10, 7)),
        )?;
        hearth.command(&["disk", "flush", "back", "--wait"])?;
        for (number, round) in [(1, 4), (49, 7)] {
            let found = two.read(number * 4096, 4096)?;
            ensure!(
                found == e2e::block(number, round),
                "block {number} of the unit"
            );
        }

        // A unit goes to the other host as soon as it is detached here.
        hearth.command(&["disk", "detach", "through"])?;
        other.command(&attach)?;
        nbdsh(
            Some(&other.uri("through")),
            &(reads(0, 10, 6) + &reads(10, 40, 5)),
        )?;
        other.stop()?;
        hearth.stop()?;
        Ok(())
    });
}
