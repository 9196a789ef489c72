//! The origin is killed in the middle of writes and comes back at once: the client sees no error, and
//! every block ends as it was last written.

use e2e::{Fio, LONG, Process, Stack, StackSettings, scenario, wait_until};

#[test]
fn verified_writes_go_on_across_a_restart_of_the_origin() {
    scenario(&["fio", "nbdkit", "nbdcopy"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let mut command = Fio::new(lab, "across", &stack.uri())
            .with("rw=randwrite")
            .with("bs=4k")
            .with("iodepth=16")
            .with("size=32m")
            .with("rate_iops=2500")
            .verified()
            .into_command();
        let fio = Process::start(lab, "fio", &mut command)?;
        for wanted in [1000, 3000] {
            wait_until("writes to reach the origin", LONG, || {
                Ok(stack.origin.requests()?.len() > wanted)
            })?;
            stack.origin.kill()?;
            stack.origin.restart(lab)?;
        }
        anyhow::ensure!(
            fio.wait(LONG)?.success(),
            "fio saw an error or a wrong block"
        );
        stack.check_disk_equals_origin(lab)
    });
}
