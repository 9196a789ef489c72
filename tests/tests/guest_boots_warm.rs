//! A Linux guest boots from a Hearth disk, reads, writes its file system, is cut off, and boots again
//! from warm flash: what it had synced is there, and the origin is not asked again for what the guest
//! had read.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, ensure};
use e2e::{
    GUEST_TOOLS, Guest, GuestKit, Hearth, LONG, Lab, OriginSettings, Request, RequestKind, Stack,
    StackSettings, run, scenario, wait_until,
};
use serde_json::Value;

/// Of a block of the cache.
const BLOCK_BYTES: usize = 4096;

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

/// What the guest read from the origin and has not written since.
fn read_and_unchanged(stack: &Stack) -> anyhow::Result<BTreeSet<u64>> {
    let read = Request::blocks(&stack.origin.reads_since(0)?);
    let written = Request::blocks(&stack.origin.since(0, RequestKind::Write)?);
    Ok(&read - &written)
}

fn file_system_is_sound(stack: &Stack) -> anyhow::Result<()> {
    // Read past Hearth: with these write policies the origin's bytes are usable without it. The
    // journal is replayed first, as the next mount would do.
    run(Command::new("e2fsck")
        .args(["-f", "-y"])
        .arg(stack.image.path()))
    .map(|_| ())
}

/// A number of what a daemon says of itself.
fn number(status: &Value, path: &str) -> anyhow::Result<usize> {
    let number = status.pointer(path).and_then(Value::as_u64);
    usize::try_from(number.with_context(|| format!("{path} in {status}"))?)
        .context("a number of this machine")
}

/// How many blocks did not come to the flash because it was busy: far less than those that were read.
fn refused_of(hearth: &Hearth, read: usize) -> anyhow::Result<usize> {
    let status = hearth.json(&["status"])?;
    let refused = number(&status, "/caches/0/refused_blocks/write_buffer")?;
    ensure!(
        refused * 4 < read,
        "the flash refused {refused} blocks of {read}"
    );
    Ok(refused)
}

/// Waits until the flash has so many blocks that were read, durably, or has refused them.
fn wait_for_flash(hearth: &Hearth, blocks: usize) -> anyhow::Result<()> {
    let refused = |status: &Value| number(status, "/caches/0/refused_blocks/write_buffer");
    let mut written_at = None;
    wait_until("the flash to have what was read", LONG, || {
        let status = hearth.json(&["status"])?;
        let filled = number(&status, "/caches/0/flash_written_bytes/fill")? / BLOCK_BYTES;
        if written_at.is_none() && filled + refused(&status)? >= blocks {
            written_at = Some(hearth.journal_commits()?);
        }
        // One commit may have begun before; the guest writes, so more of them follow.
        Ok(match written_at {
            Some(before) => hearth.journal_commits()? >= before + 2,
            None => false,
        })
    })
}

#[test]
fn a_guest_boots_again_from_warm_flash() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        let mut stack = stack(lab, &kit)?;
        let steps = "read,dir=/srv/files+write,dir=/var/probe,from=1,files=8,kib=256";
        Guest::boot(lab, &kit, &stack.socket(), Stack::DISK, "cold", steps)?.finish()?;
        let cold = read_and_unchanged(&stack)?;
        ensure!(
            cold.len() > 40 << 8,
            "the guest read {} blocks only",
            cold.len()
        );
        let refused = refused_of(stack.hearth(), cold.len())?;
        stack.stop_hearth()?;

        let before = stack.origin.requests()?.len();
        stack.start_hearth(lab)?;
        let steps = "read,dir=/srv/files+verify,dir=/var/probe,through=8";
        Guest::boot(lab, &kit, &stack.socket(), Stack::DISK, "warm", steps)?.finish()?;
        let warm = Request::blocks(&stack.origin.reads_since(before)?);
        let again: Vec<_> = warm.intersection(&cold).collect();
        ensure!(
            again.len() <= refused,
            "{} blocks were read from the origin again, {refused} had been refused: {again:?}",
            again.len()
        );
        stack.stop_hearth()?;
        file_system_is_sound(&stack)
    });
}

#[test]
fn a_guest_that_is_cut_off_with_its_host_keeps_what_it_synced() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        let mut stack = stack(lab, &kit)?;
        let steps = "read,dir=/srv/files+write,dir=/var/probe,from=1,files=400,kib=64+forever";
        let mut guest = Guest::boot(lab, &kit, &stack.socket(), Stack::DISK, "first", steps)?;
        guest.wait_for("PROBE synced file=20")?;
        let read = read_and_unchanged(&stack)?.len();
        wait_for_flash(stack.hearth(), read)?;
        let refused = refused_of(stack.hearth(), read)?;
        let synced = guest.files_synced();
        // The power goes: the guest and the daemon at once, in the middle of writes.
        guest.kill()?;
        stack.kill_hearth()?;
        let cold = read_and_unchanged(&stack)?;

        let before = stack.origin.requests()?.len();
        stack.start_hearth(lab)?;
        let steps = format!("read,dir=/srv/files+verify,dir=/var/probe,through={synced}");
        Guest::boot(lab, &kit, &stack.socket(), Stack::DISK, "second", &steps)?.finish()?;
        let warm = Request::blocks(&stack.origin.reads_since(before)?);
        let again = warm.intersection(&cold).count();
        ensure!(
            again <= refused + cold.len() / 100,
            "{again} of {} blocks were read from the origin again, {refused} had been refused",
            cold.len()
        );
        stack.stop_hearth()?;
        file_system_is_sound(&stack)
    });
}
