//! A guest with the agent: what it read in one boot is in its memory before it is asked for in the next.

use anyhow::ensure;
use e2e::{
    GUEST_TOOLS, Guest, GuestKit, Lab, OriginSettings, Stack, StackSettings, agent_memory_kib,
    said, scenario, with_agent,
};

/// What the agent may use of memory at most, in KiB.
const MEMORY_KIB_MAX: u64 = 16 << 10;
/// `CAP_DAC_READ_SEARCH` alone.
const LEFT: &str = "CapEff:\t0000000000000004";

/// Where the agent says what it does, in a file system of its own.
const LOG: &str = "/tmp/agent.log";

/// Files and folders that the agent has open once it has read ahead: those keep a file system from being unmounted,
/// and a deleted file's space.
fn held(console: &str) -> Vec<&str> {
    let links = console.lines().filter(|line| line.contains(" -> "));
    let targets = links.filter_map(|line| Some(line.split_once(" -> ")?.1.trim()));
    targets
        .filter(|target| target.starts_with('/') && !target.starts_with("/dev/"))
        .collect()
}

fn stack(lab: &Lab, kit: &GuestKit) -> anyhow::Result<Stack> {
    let origin = OriginSettings {
        delay: Some("1ms"),
        ..OriginSettings::default()
    };
    let settings = StackSettings {
        origin,
        flash_mib: 512,
        // A disk that others keep busy is no slow flash here.
        cache_keys: "write_delay = '100ms'\nflash_timeout = '60s'\n",
        ..StackSettings::default()
    };
    Stack::start_on(lab, kit.disk(lab)?, &settings)
}

fn boot(
    lab: &Lab,
    kit: &GuestKit,
    stack: &mut Stack,
    name: &str,
    steps: &str,
) -> anyhow::Result<String> {
    Guest::boot(lab, kit, &stack.socket(), Stack::DISK, name, steps)?.finish()
}

#[test]
fn a_second_boot_waits_for_a_third_of_the_reads_at_most() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        let mut stack = stack(lab, &kit)?;
        // All 48 files matter; those beyond the quarter that was read longest ago are section A.
        let (read, epoch) = ("read,dir=/srv/files,from=15", "--epoch,200ms");
        // A file matters once it was used in two epochs.
        let all = "read,dir=/srv/files";
        let first = with_agent(&format!("{all}+{all}+{read}"), epoch);
        let first = boot(lab, &kit, &mut stack, "first", &first)?;
        ensure!(first.contains("preload ended: bytes=0 why=done"), "{first}");
        let without = boot(lab, &kit, &mut stack, "without", read)?;
        let second = boot(lab, &kit, &mut stack, "second", &with_agent(read, epoch))?;
        for console in [&first, &second] {
            ensure!(console.contains(LEFT), "{console}");
            ensure!(console.contains("agent ended with 0"), "{console}");
            let held = held(console);
            ensure!(held == [LOG], "the agent holds {held:?}:\n{console}");
            let memory = agent_memory_kib(console)?;
            ensure!(memory <= MEMORY_KIB_MAX, "the agent had {memory} KiB");
            println!("the agent had {memory} KiB at most");
        }
        let read_ahead = said(&second, "preload ended", "bytes")?;
        ensure!(read_ahead >= 32 << 20, "{read_ahead} bytes only:\n{second}");
        let (waits, cold) = (
            said(&second, "PROBE read", "waits")?,
            said(&without, "PROBE read", "waits")?,
        );
        println!(
            "waits: {waits} with the agent in {} ms, {cold} without in {} ms",
            said(&second, "PROBE read", "ms")?,
            said(&without, "PROBE read", "ms")?
        );
        // Each file is waited for once at least.
        let files = said(&without, "PROBE read", "files")?;
        ensure!(
            cold >= files && waits * 3 <= cold,
            "{waits} of {cold}:\n{second}"
        );
        stack.stop_hearth()
    });
}
