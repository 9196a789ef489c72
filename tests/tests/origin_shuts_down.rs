//! The origin is told to stop amid writes, and comes back: it answers ESHUTDOWN to what it receives
//! meanwhile, the client sees no error, and every block ends as it was last written.

use e2e::{Fio, Origin, OriginSettings, Stack, StackSettings, scenario};

#[test]
fn verified_writes_go_on_across_a_clean_restart_of_the_origin() {
    scenario(&["fio", "nbdkit", "nbdcopy"], |lab| {
        let settings = StackSettings {
            // Requests pile up in the origin's sockets.
            origin: OriginSettings {
                delay: Some("10ms"),
                ..OriginSettings::default()
            },
            ..StackSettings::default()
        };
        let mut stack = Stack::start(lab, &settings)?;
        let fio = Fio::new(lab, "across", &stack.uri())
            .with("iodepth=128")
            .with("size=24m");
        stack.write_while_the_origin_ends(lab, fio, Origin::stop)
    });
}
