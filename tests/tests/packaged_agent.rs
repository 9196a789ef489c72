//! The unit of the agent for guests as it is installed: under all that it takes away the agent watches, remembers, and reads
//! ahead after it has begun anew. It sees the guest's connections only with the drop-in for that.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use e2e::{LONG, PACKAGE_TOOLS, Package, Process, has_status, is_root, said, scenario, wait_until};

const OPTIONS: &str = "--epoch 200ms";
/// `CAP_DAC_READ_SEARCH`, and with `CAP_SYS_ADMIN`.
const LEFT: &str = "0000000000000004";
const BOUNDING: &str = "0000000000200004";

fn log(agent: &Process) -> anyhow::Result<String> {
    Ok(fs::read_to_string(agent.log())?)
}

fn wait_for(agent: &Process, words: &str) -> anyhow::Result<()> {
    wait_until(words, LONG, || Ok(log(agent)?.contains(words)))
}

fn is_confined(agent: &Process, user: u32) -> anyhow::Result<()> {
    has_status(
        agent.id(),
        &[
            ("Uid:", &user.to_string()),
            ("CapEff:", LEFT),
            ("CapPrm:", LEFT),
            ("CapBnd:", BOUNDING),
            ("CapAmb:", "0000000000000000"),
            ("NoNewPrivs:", "1"),
            ("Seccomp:", "2"),
        ],
    )
}

/// Uses a file in one epoch after the other.
fn use_often(file: &Path) -> anyhow::Result<()> {
    for _ in 0..6 {
        fs::read(file)?;
        // The agent asks the kernel once a second.
        std::thread::sleep(Duration::from_millis(600));
    }
    Ok(())
}

#[test]
fn the_agent_remembers_and_reads_ahead_under_its_unit() {
    if !is_root("a sandbox") {
        return;
    }
    scenario(PACKAGE_TOOLS, |lab| {
        let package = Package::install_guest(lab)?;
        package.verify_agent()?;
        let (user, _) = package.user_called("hearth-guest")?;
        let file = lab.path("often");
        fs::write(&file, vec![7; 1 << 20])?;
        // Before that it has no place on the disk.
        fs::File::open(&file)?.sync_all()?;
        let agent = package.start_agent(lab, "first", OPTIONS)?;
        wait_for(&agent, "watching: ")?;
        is_confined(&agent, user)?;
        use_often(&file)?;
        let ended = agent.terminate()?;
        ensure!(ended.success(), "{ended}");
        let history = package.path("/var/lib/hearth-guest/history");
        ensure!(fs::metadata(&history)?.len() > 0);
        // The file's handle is opened under the filter of system calls, and its place on the disk is asked for.
        let again = package.start_agent(lab, "second", OPTIONS)?;
        wait_for(&again, "preload ended: ")?;
        let console = log(&again)?;
        let bytes = said(&console, "preload ended", "bytes")?;
        ensure!(bytes >= 1 << 20, "{console}");
        ensure!(!console.contains("not permitted"), "{console}");
        again.terminate()?;
        // The sandbox leaves the machine's own folder alone.
        ensure!(!Path::new("/var/lib/hearth-guest/history").exists());
        Ok(())
    });
}

#[test]
fn the_agent_sees_the_guests_connections_only_with_the_drop_in_for_that() {
    if !is_root("a sandbox") {
        return;
    }
    scenario(PACKAGE_TOOLS, |lab| {
        let package = Package::install_guest(lab)?;
        let (user, _) = package.user_called("hearth-guest")?;
        let refused = package.start_agent(lab, "refused", "--sockets")?;
        wait_for(&refused, "the drop-in sockets.conf")?;
        package.let_agent_tell_sockets()?;
        package.verify_agent()?;
        // The drop-in's own command line holds.
        let agent = package.start_agent(lab, "allowed", "")?;
        wait_for(&agent, "the host is told whom the guest speaks with")?;
        wait_for(&agent, "watching: ")?;
        is_confined(&agent, user)?;
        let ended = agent.terminate()?;
        ensure!(ended.success(), "{ended}");
        Ok(())
    });
}
