//! The agent in a guest of the kit.

use anyhow::Context;

/// Steps for a guest in which the agent runs with these arguments, comma between them. It has read ahead before the
/// first step begins; what it says is on the console after the last.
pub fn with_agent(steps: &str, arguments: &str) -> String {
    format!("{steps} agent={arguments}")
}

/// The most memory that the agent had, in KiB.
///
/// # Errors
///
/// When the guest did not say it.
pub fn agent_memory_kib(console: &str) -> anyhow::Result<u64> {
    let mut lines = console.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.with_context(|| format!("no VmHWM:\n{console}"))
}

/// A number that the guest said as `key=number` in the last line with `words` in it.
///
/// # Errors
///
/// When it said no such thing.
pub fn said(console: &str, words: &str, key: &str) -> anyhow::Result<u64> {
    let mut lines = console.lines().rev();
    let line = lines.find(|line| line.contains(words));
    let number = line.and_then(|line| {
        let mut found = line.split_whitespace().filter_map(|word| {
            let value = word.strip_prefix(key)?.strip_prefix('=')?;
            value.parse().ok()
        });
        found.next()
    });
    number.with_context(|| format!("no '{words}' with {key}=:\n{console}"))
}
