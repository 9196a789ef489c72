//! A trace that ends within a record is an error with its offset, never a shorter result.

use anyhow::{Context, ensure};
use e2e::{hearth, scenario};

/// A record of vscsi 1: serial number, bytes, scatter-gather entries, command, version in the upper byte, 512-byte
/// block,
/// microseconds.
fn record(number: u32, block: u64) -> Vec<u8> {
    const READ_10: u16 = 0x28;
    let mut bytes = Vec::new();
    bytes.extend(number.to_le_bytes());
    bytes.extend(4096_u32.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(READ_10.to_le_bytes());
    bytes.extend(0x100_u16.to_le_bytes());
    bytes.extend(block.to_le_bytes());
    bytes.extend((u64::from(number) * 1000).to_le_bytes());
    bytes
}

#[test]
fn the_byte_where_the_record_begins_is_named_and_nothing_is_printed() {
    scenario(&[], |lab| {
        let mut bytes: Vec<u8> = (0..100).flat_map(|n| record(n, u64::from(n) * 8)).collect();
        let whole = lab.path("whole.vscsi");
        std::fs::write(&whole, &bytes).context("a trace")?;
        bytes.truncate(99 * 32 + 20);
        let cut = lab.path("cut.vscsi");
        std::fs::write(&cut, &bytes).context("a trace")?;
        let simulate = |path: &std::path::Path| {
            let path = path.display().to_string();
            hearth(&[
                "sim", &path, "--policy", "lru", "--size", "10blk", "--format", "vscsi", "--json",
            ])
        };
        let runs = simulate(&whole)?.json()?;
        ensure!(runs[0]["accesses"] == 100, "{}", runs[0]["accesses"]);
        let answer = simulate(&cut)?;
        ensure!(
            answer.code == 1,
            "exit code {}: {}",
            answer.code,
            answer.stderr
        );
        ensure!(answer.stderr.contains("byte 3168"), "{}", answer.stderr);
        ensure!(answer.stdout.is_empty(), "a shorter result was printed");
        Ok(())
    });
}
