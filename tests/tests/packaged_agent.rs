//! The unit of the agent for guests as it is installed: under all that it takes away the agent watches, remembers, and reads
//! ahead after it has begun anew.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use e2e::{LONG, PACKAGE_TOOLS, Package, Process, SHORT, is_root, scenario, wait_until};

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
    let status = fs::read_to_string(format!("/proc/{}/status", agent.id()))?;
    for (key, value) in [
        ("Uid:", user.to_string().as_str()),
        ("CapEff:", LEFT),
        ("CapPrm:", LEFT),
        ("CapBnd:", BOUNDING),
        ("CapAmb:", "0000000000000000"),
        ("NoNewPrivs:", "1"),
        ("Seccomp:", "2"),
    ] {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let found = line.unwrap_or_default().split_whitespace().next();
        ensure!(found == Some(value), "{key} {found:?}");
    }
    Ok(())
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
        let said = log(&again)?;
        let ended = said.lines().find(|line| line.contains("preload ended: "));
        let bytes = ended.and_then(|line| line.split("bytes=").nth(1)?.split(' ').next());
        let bytes: u64 = bytes.unwrap_or_default().parse()?;
        ensure!(bytes >= 1 << 20, "{said}");
        ensure!(!said.contains("not permitted"), "{said}");
        again.terminate()?;
        wait_until("the unit to leave nothing of its own", SHORT, || {
            Ok(!Path::new("/var/lib/hearth-guest/history").exists())
        })
    });
}
