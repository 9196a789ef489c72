//! The write policy changes to and from write-back while a client writes: nothing is lost, and when
//! it is `through` again the origin has everything.

use anyhow::ensure;
use e2e::{Back, Pace, Versions, scenario};

#[test]
fn the_policy_changes_under_load() {
    scenario(&["nbdsh", "nbdcopy"], |lab| {
        let mut back = Back::start(lab, Pace::Held)?;
        let mut versions = Versions::new(lab);
        let writer = versions.write(&back.uri(), 6)?;
        for policy in ["through", "back", "around", "back", "through"] {
            back.hearth()
                .command(&["disk", "set", Back::DISK, "--policy", policy])?;
            let state = if policy == "back" { "open" } else { "closed" };
            ensure!(
                back.owner()?["state"] == state,
                "{policy}: {}",
                back.owner()?
            );
        }
        writer.finish()?;
        versions.verify(&back.uri())?;
        let uri = back.uri();
        back.image.check_equals_export(lab, &uri)?;
        // What was changed last holds after a kill.
        back.kill()?;
        back.start_again(lab)?;
        let shown = back.hearth().json(&["disk", "show", Back::DISK])?;
        ensure!(shown["write_policy"] == "through", "{shown}");
        ensure!(
            shown["changed"] == serde_json::json!(["write_policy"]),
            "{shown}"
        );
        back.hearth()
            .command(&["disk", "set", Back::DISK, "--reset"])?;
        let shown = back.hearth().json(&["disk", "show", Back::DISK])?;
        ensure!(shown["write_policy"] == "back", "{shown}");
        Ok(())
    });
}
