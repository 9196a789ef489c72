//! What a guest's agent says of ranges of its disk: what is not worth keeping stays off the flash, and a guest that lies
//! changes nothing but its own disk. The other way, a guest reads ahead by file what the host expects.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Flash, GUEST_TOOLS, Guest, GuestKit, Hearth, HearthSettings, Image, LONG, Lab,
    SHORT, nbdsh, run, scenario, wait_until, with_agent,
};
use guest_protocol::{ByteRange, Class, Frame, Hello, Message};
use serde_json::Value;
use units::{Bytes, Offset};

const DISK: &str = "disk";
const OTHER: &str = "other";
/// Bytes of the kit's files in `/srv/files`.
const FILES_BYTES: u64 = 48 << 20;

fn settings(lab: &Lab, image: &Image) -> anyhow::Result<(HearthSettings, PathBuf)> {
    let flash = Flash::format(lab, "flash.img", 256)?;
    let folder = lab.path("guest");
    let settings = HearthSettings::new(&flash)
        .cache_key("write_delay = '100ms'\nflash_timeout = '60s'\n")
        .disk(&DiskSettings::on_file(DISK, image.path()))
        .section(&format!("\n[guest]\ndirectory = '{}'\n", folder.display()));
    Ok((settings, folder.join(format!("{DISK}.sock"))))
}

fn hints(hearth: &Hearth, vm: &str) -> anyhow::Result<Value> {
    Ok(hearth.json(&["vm", "show", vm])?["guest"]["hints"].clone())
}

fn number(value: &Value, key: &str) -> anyhow::Result<u64> {
    value[key]
        .as_u64()
        .with_context(|| format!("{key}: {value}"))
}

/// Bytes of the journal of the file system in an image, as its own tools say.
fn journal_bytes(image: &Image) -> anyhow::Result<u64> {
    let said = run(Command::new("debugfs")
        .args(["-R", "stat <8>"])
        .arg(image.path()))?;
    let (_, rest) = said.stdout.split_once("Size: ").context("a size")?;
    let size = rest.split_whitespace().next().context("a size")?;
    Ok(size.parse()?)
}

fn boot(lab: &Lab, kit: &GuestKit, hearth: &Hearth, steps: &str) -> anyhow::Result<Guest> {
    Guest::boot_with_channel(lab, kit, hearth, DISK, ("vm", steps))
}

#[test]
fn what_a_guest_reads_once_and_its_journal_stay_off_the_flash() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        let image = kit.disk(lab)?;
        let journal = journal_bytes(&image)?;
        ensure!(journal > 0, "a file system with a journal");
        let (settings, _) = settings(lab, &image)?;
        let hearth = Hearth::start(lab, &settings)?;
        let steps = with_agent(
            "random,dir=/srv/files,reads=3000+again",
            "--epoch,500ms,--hint-interval,2s,--once,/srv/files",
        );
        let guest = boot(lab, &kit, &hearth, &steps)?;
        wait_until("the guest's hints", LONG, || {
            let said = hints(&hearth, DISK)?;
            Ok(number(&said, "keep_out_bytes")? >= FILES_BYTES + journal
                && number(&said, "kept_out_blocks")? > 100)
        })?;
        // What was read before the hints came may be on flash; nothing of the files is added.
        let cached = || {
            number(
                &hearth.json(&["vm", "show", DISK])?["counters"],
                "cached_blocks",
            )
        };
        let before = (
            cached()?,
            number(&hints(&hearth, DISK)?, "kept_out_blocks")?,
        );
        wait_until("more reads", LONG, || {
            Ok(number(&hints(&hearth, DISK)?, "kept_out_blocks")? > before.1 + 1000)
        })?;
        let added = cached()?.saturating_sub(before.0);
        let kept_out = number(&hints(&hearth, DISK)?, "kept_out_blocks")? - before.1;
        println!("{added} blocks entered the flash, {kept_out} were kept out");
        ensure!(added < 100, "{added} blocks entered the flash");
        let shown = hearth.command(&["vm", "show", DISK])?.stdout;
        ensure!(shown.contains("to keep out ("), "{shown}");
        let console = guest.kill()?;
        ensure!(!console.contains("PROBE bad"), "{console}");
        ensure!(hearth.stop()?.success(), "a clean stop");
        Ok(())
    });
}

/// Guesses are wrong here: what is read because the guest was told of them must not pass for their use.
#[test]
fn a_guest_that_follows_reads_ahead_by_file_what_the_host_expects() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        let image = kit.disk(lab)?;
        let (settings, _) = settings(lab, &image)?;
        let hearth = Hearth::start(lab, &settings)?;
        let steps = with_agent(
            "random,dir=/srv/files,reads=3000+again",
            "--epoch,500ms,--hint-interval,1s,--read-ahead",
        );
        let guest = boot(lab, &kit, &hearth, &steps)?;
        wait_until("the files that matter", LONG, || {
            Ok(number(&hints(&hearth, DISK)?, "wanted_bytes")? >= FILES_BYTES / 2)
        })?;
        hearth.command(&["cache", "set", "flash", "--prefetch", "sequential:n=8"])?;
        let prefetch = || Ok(hearth.json(&["vm", "show", DISK])?["shares"][0]["prefetch"].clone());
        let told = |seen: &Value| seen["told_blocks"].as_u64().unwrap_or(0);
        wait_until("the guest to follow", LONG, || {
            prefetch().map(|seen: Value| told(&seen) > 0)
        })?;
        wait_until("the guesses to be refused", LONG, || {
            let seen = prefetch()?;
            Ok(seen["refused_guesses"].as_u64() > Some(100))
        })?;
        let shown = hearth.command(&["vm", "show", DISK])?.stdout;
        ensure!(shown.contains("when the guest was told)"), "{shown}");
        let console = guest.kill()?;
        ensure!(!console.contains("PROBE bad"), "{console}");
        ensure!(hearth.stop()?.success(), "a clean stop");
        Ok(())
    });
}

fn range(offset: u64, length: u64) -> anyhow::Result<ByteRange> {
    ByteRange::new(Offset::new(offset), Bytes::new(length)).context("a range")
}

/// The frames of an agent that says this.
fn frames(messages: Vec<Message>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (sequence, message) in (0..).zip(messages) {
        Frame { sequence, message }.encode(&mut bytes);
    }
    bytes
}

#[test]
fn a_guest_that_lies_worsens_its_own_hit_ratio_and_nothing_else() {
    scenario(&["nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let second = Image::new(lab, "second.raw", 16)?;
        let (settings, socket) = settings(lab, &image)?;
        let settings = settings.disk(&DiskSettings::on_file(OTHER, second.path()));
        let hearth = Hearth::start(lab, &settings)?;
        wait_until("the channel's socket", SHORT, || Ok(socket.exists()))?;
        let mut agent = UnixStream::connect(&socket)?;
        let classes = |disk: &str, class, ranges| -> anyhow::Result<Message> {
            let serial = disk.parse()?;
            Ok(Message::Classes {
                serial,
                class,
                ranges,
            })
        };
        let hello = Hello {
            boot: 1,
            disks: Vec::new(),
        };
        let lies = vec![
            Message::Hello(hello.clone()),
            classes(OTHER, Class::Swap, vec![range(0, u64::MAX)?; 64])?,
            classes("nobody", Class::Once, vec![range(0, 1)?])?,
            classes(
                DISK,
                Class::Preferred,
                vec![range(u64::MAX - 1, 1)?, range(1, 2)?],
            )?,
            classes(DISK, Class::Journal, vec![range(0, u64::MAX)?])?,
        ];
        agent.write_all(&frames(lies))?;
        wait_until("the lies to be heard", LONG, || {
            Ok(number(&hints(&hearth, DISK)?, "keep_out_bytes")? == 16 << 20)
        })?;
        let said = hints(&hearth, DISK)?;
        ensure!(number(&said, "refused_ranges")? == 65, "{said}");
        ensure!(number(&said, "wanted_bytes")? == 0, "{said}");
        let of_other = hints(&hearth, OTHER)?;
        ensure!(number(&of_other, "ranges")? == 0, "{of_other}");
        for disk in [DISK, OTHER] {
            let reads = "for i in range(64): assert len(h.pread(65536, i * 65536)) == 65536";
            nbdsh(Some(&hearth.uri(disk)), reads)?;
        }
        let cached = |vm: &str| {
            number(
                &hearth.json(&["vm", "show", vm])?["counters"],
                "cached_blocks",
            )
        };
        ensure!(cached(DISK)? == 0, "the liar's own blocks");
        ensure!(
            cached(OTHER)? == 1024,
            "{} blocks of the other",
            cached(OTHER)?
        );
        // It begins anew, and nothing of what it said counts any more.
        agent.write_all(&frames(vec![Message::Hello(hello)]))?;
        wait_until("a new beginning", LONG, || {
            Ok(number(&hints(&hearth, DISK)?, "ranges")? == 0)
        })?;
        ensure!(hearth.stop()?.success(), "a clean stop");
        Ok(())
    });
}
