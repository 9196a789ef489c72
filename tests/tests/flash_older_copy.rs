//! The flash is put back as it was at an earlier moment of the same attachment: a copy that was made
//! while the daemon ran (a snapshot, an image of the device), after a stop or a kill. What was written
//! since is at the origin, or nowhere; nothing older is served for it.

use anyhow::ensure;
use e2e::{
    Back, Flash, Hearth, HearthSettings, Image, Lab, Pace, SHORT, Stack, StackSettings, nbdsh,
    reads, scenario, wait_until, writes,
};

const BLOCKS: u64 = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Stop,
    Kill,
}

fn is_not_served(policy: &'static str, end: End) {
    scenario(&["nbdkit", "nbdsh", "nbdcopy"], |lab| {
        let settings = StackSettings {
            write_policy: policy,
            ..StackSettings::default()
        };
        let mut stack = Stack::start(lab, &settings)?;
        let uri = stack.uri();
        nbdsh(Some(&uri), &writes(0, BLOCKS, 1))?;
        nbdsh(Some(&uri), &reads(0, BLOCKS, 1))?;
        // After a clean stop all of it is on flash, and believed.
        stack.stop_hearth()?;
        stack.start_hearth(lab)?;
        let shown = stack.hearth().json(&["disk", "show", Stack::DISK])?;
        ensure!(shown["warm_blocks"].as_u64() >= Some(BLOCKS), "{shown}");
        let older = stack.flash.content()?;
        nbdsh(Some(&uri), &writes(0, BLOCKS, 2))?;
        match end {
            End::Stop => stack.stop_hearth()?,
            End::Kill => stack.kill_hearth()?,
        }
        std::fs::write(stack.flash.path(), older)?;
        stack.start_hearth(lab)?;
        nbdsh(Some(&stack.uri()), &reads(0, BLOCKS, 2))?;
        let log = stack.hearth().log()?;
        ensure!(log.contains("older copy"), "it was noticed by chance");
        stack.check_disk_equals_origin(lab)
    });
}

#[test]
fn through_after_a_stop() {
    is_not_served("through", End::Stop);
}

#[test]
fn through_after_a_kill() {
    is_not_served("through", End::Kill);
}

#[test]
fn around_after_a_stop() {
    is_not_served("around", End::Stop);
}

#[test]
fn around_after_a_kill() {
    is_not_served("around", End::Kill);
}

/// The origin lacks what was written after the copy, so there is nothing right to serve.
fn is_refused_under_back(lab: &Lab, end: End) -> anyhow::Result<()> {
    let image = Image::new(lab, "origin.raw", Back::IMAGE_MIB)?;
    let flash = Flash::format(lab, "flash.img", Back::FLASH_MIB)?;
    let settings = HearthSettings::new(&flash).disk(&Back::disk(&image, Pace::Held));
    let hearth = Hearth::start(lab, &settings)?;
    nbdsh(Some(&hearth.uri(Back::DISK)), &writes(0, BLOCKS, 1))?;
    hearth.stop()?;
    let hearth = Hearth::start(lab, &settings)?;
    let older = flash.content()?;
    let before = hearth.journal_commits()?;
    nbdsh(Some(&hearth.uri(Back::DISK)), &writes(0, BLOCKS, 2))?;
    // The journal says how far the log is, a second later at the latest.
    wait_until("the journal to name the log", SHORT, || {
        Ok(hearth.journal_commits()? > before)
    })?;
    match end {
        End::Stop => drop(hearth.stop()?),
        End::Kill => hearth.kill()?,
    }
    std::fs::write(flash.path(), older)?;
    let hearth = Hearth::start(lab, &settings.in_trouble(Back::DISK))?;
    wait_until("the disk to be refused", SHORT, || {
        let shown = hearth.json(&["disk", "show", Back::DISK])?;
        ensure!(shown["state"] != "attached", "{shown}");
        let reason = shown["reason"].as_str().unwrap_or_default();
        Ok(shown["state"] == "waiting" && reason.contains("hearth recover"))
    })?;
    ensure!(hearth.log()?.contains("older copy"));
    hearth.stop().map(drop)
}

#[test]
fn back_after_a_stop() {
    scenario(&["nbdsh"], |lab| is_refused_under_back(lab, End::Stop));
}

#[test]
fn back_after_a_kill() {
    scenario(&["nbdsh"], |lab| is_refused_under_back(lab, End::Kill));
}
