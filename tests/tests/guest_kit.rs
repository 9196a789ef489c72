//! The guest straight on the origin, without Hearth: when this fails, the fault is in the kit.

use anyhow::ensure;
use e2e::{GUEST_TOOLS, Guest, GuestKit, Origin, OriginSettings, scenario};

#[test]
fn a_guest_works_on_the_origin_alone_and_is_cut_and_boots_again() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        let image = kit.disk(lab)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let steps = "write,dir=/var/probe,from=1,files=400,kib=64+forever";
        let mut guest = Guest::boot(lab, &kit, origin.socket(), "disk", "first", steps)?;
        guest.wait_for("PROBE synced file=20")?;
        let synced = guest.files_synced();
        guest.kill()?;
        ensure!(synced >= 20, "{synced}");
        let steps = format!("verify,dir=/var/probe,through={synced}");
        let said = Guest::boot(lab, &kit, origin.socket(), "disk", "second", &steps)?.finish()?;
        ensure!(said.contains("bad=0"), "{said}");
        Ok(())
    });
}
