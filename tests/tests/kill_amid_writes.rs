//! `kill -9` of the daemon in the middle of writes, again and again: after each restart every block
//! holds its last acknowledged write, or one that was still in flight, and never goes back.

use e2e::{Stack, StackSettings, Versions, scenario};

const ROUNDS: u32 = 4;

fn nothing_acknowledged_is_lost(write_policy: &'static str) {
    scenario(&["nbdsh", "nbdkit", "nbdcopy"], |lab| {
        let mut stack = Stack::start(
            lab,
            &StackSettings {
                image_mib: 16,
                write_policy,
                ..StackSettings::default()
            },
        )?;
        let mut versions = Versions::new(lab);
        for _ in 0..ROUNDS {
            // Cached first, so that every write meets an older copy on flash.
            stack.read_disk(lab)?;
            let writer = versions.write(&stack.uri(), 60)?;
            stack.kill_hearth()?;
            writer.was_cut_off()?;
            stack.start_hearth(lab)?;
            versions.verify(&stack.uri())?;
            // Now from flash, for the most part: the same must come again.
            versions.verify(&stack.uri())?;
            stack.check_disk_equals_origin(lab)?;
        }
        Ok(())
    });
}

#[test]
fn nothing_acknowledged_is_lost_with_write_through() {
    nothing_acknowledged_is_lost("through");
}

#[test]
fn nothing_acknowledged_is_lost_with_write_around() {
    nothing_acknowledged_is_lost("around");
}
