//! The origin is told to stop amid writes, and comes back: it answers ESHUTDOWN to what it receives
//! meanwhile, the client sees no error, and every block ends as it was last written.

use e2e::{Fio, LONG, OriginSettings, Process, Stack, StackSettings, scenario, wait_until};

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
        let mut command = Fio::new(lab, "across", &stack.uri())
            .with("rw=randwrite")
            .with("bs=4k")
            .with("iodepth=128")
            .with("size=24m")
            .verified()
            .into_command();
        let fio = Process::start(lab, "fio", &mut command)?;
        for wanted in [1000, 3000] {
            wait_until("writes to reach the origin", LONG, || {
                Ok(stack.origin.requests()?.len() > wanted)
            })?;
            stack.origin.stop()?;
            stack.origin.restart(lab)?;
        }
        anyhow::ensure!(
            fio.wait(LONG)?.success(),
            "fio saw an error or a wrong block"
        );
        stack.check_disk_equals_origin(lab)
    });
}
