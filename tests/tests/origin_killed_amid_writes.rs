//! The origin is killed in the middle of writes and comes back at once: the client sees no error, and
//! every block ends as it was last written.

use e2e::{Fio, Origin, Stack, StackSettings, scenario};

#[test]
fn verified_writes_go_on_across_a_restart_of_the_origin() {
    scenario(&["fio", "nbdkit", "nbdcopy"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let fio = Fio::new(lab, "across", &stack.uri())
            .with("iodepth=16")
            .with("size=32m")
            .with("rate_iops=2500");
        stack.write_while_the_origin_ends(lab, fio, Origin::kill)
    });
}
