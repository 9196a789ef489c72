//! The origin dies and comes back: what is cached is served meanwhile, what is not waits for it, and
//! nothing is lost or stale afterwards.

use std::process::Command;

use anyhow::ensure;
use e2e::{LONG, Process, RequestKind, Stack, StackSettings, nbdsh, scenario, wait_until};

#[test]
fn hits_are_served_without_the_origin_and_misses_wait_for_it() {
    scenario(&["nbdsh", "nbdkit", "nbdcopy"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let uri = stack.uri();
        nbdsh(Some(&uri), "h.pread(1 << 20, 0)")?;
        stack.origin.kill()?;
        nbdsh(Some(&uri), "assert len(h.pread(1 << 20, 0)) == 1 << 20")?;

        // A miss and a write that are asked for while the origin is away.
        let script = "assert len(h.pread(4096, 32 << 20)) == 4096\nh.pwrite(b'w' * 4096, 0)\nh.flush()\nprint('answered')";
        let mut command = Command::new("nbdsh");
        command.args([
            "--uri",
            &uri,
            "-c",
            "print('asking', flush=True)",
            "-c",
            script,
        ]);
        let waiting = Process::start(lab, "waiting", &mut command)?;
        let said = waiting.log().to_path_buf();
        wait_until("the client to ask", LONG, || {
            Ok(std::fs::read_to_string(&said)?.contains("asking"))
        })?;
        stack.origin.restart(lab)?;
        ensure!(
            waiting.wait(LONG)?.success(),
            "the requests failed although the origin came back"
        );

        ensure!(
            stack.image.read(0, 4096)? == [b'w'; 4096],
            "the write did not reach the origin"
        );
        let writes = stack
            .origin
            .requests()?
            .into_iter()
            .filter(|request| request.kind == RequestKind::Write);
        ensure!(writes.count() >= 1, "no write in the origin's log");
        stack.check_disk_equals_origin(lab)
    });
}
