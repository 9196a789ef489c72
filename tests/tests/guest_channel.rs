//! The channel of a guest's agent: what a real guest says is shown, over a restart of the daemon too; what a hostile
//! one sends costs the daemon next to nothing and changes nothing of others.

use std::io::{ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Flash, GUEST_TOOLS, Guest, GuestKit, Hearth, HearthSettings, Image, LONG, Lab,
    SHORT, nbdsh, scenario, wait_until, with_agent,
};
use guest_protocol::{ByteRange, Class, Frame, Message, Socket, Used};
use serde_json::Value;
use units::{Bytes, Offset};

const DISK: &str = "disk";
/// How long a flood lasts.
const FLOOD: Duration = Duration::from_secs(2);
/// Of a core, what the daemon may use for one that floods it. About a tenth is what it uses; one that answered
/// all that comes would use a whole one on any machine.
const CPU_MAX: f64 = 0.5;

fn settings(lab: &Lab, image: &Image) -> anyhow::Result<(HearthSettings, PathBuf)> {
    let flash = Flash::format(lab, "flash.img", 256)?;
    let folder = lab.path("guest");
    let settings = HearthSettings::new(&flash)
        .cache_key("write_delay = '100ms'\nflash_timeout = '60s'\n")
        .disk(&DiskSettings::on_file(DISK, image.path()))
        .section(&format!(
            "\n[guest]\ndirectory = '{}'\nsockets = true\n",
            folder.display()
        ));
    Ok((settings, folder.join(format!("{DISK}.sock"))))
}

fn guest_of(hearth: &Hearth) -> anyhow::Result<Value> {
    Ok(hearth.json(&["vm", "show", DISK])?["guest"].clone())
}

fn wait_for(hearth: &Hearth, what: &str, is_so: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
    wait_until(what, LONG, || Ok(is_so(&guest_of(hearth)?)))?;
    guest_of(hearth)
}

/// Seconds of a processor that the daemon has used.
fn cpu_seconds(hearth: &Hearth) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", hearth.id()))?;
    let (_, rest) = text.rsplit_once(") ").context("a process's name")?;
    let mut words = rest.split(' ').skip(11);
    let mut ticks = || -> anyhow::Result<f64> { Ok(words.next().context("ticks")?.parse()?) };
    // A tick is a hundredth of a second on every Linux that programs can see.
    Ok((ticks()? + ticks()?) / 100.0)
}

fn connect(path: &Path) -> anyhow::Result<UnixStream> {
    wait_until("the channel's socket", SHORT, || Ok(path.exists()))?;
    let socket = UnixStream::connect(path)?;
    socket.set_write_timeout(Some(Duration::from_millis(100)))?;
    Ok(socket)
}

/// Frames that are right, each with its number.
fn frames() -> Vec<u8> {
    let mut bytes = Vec::new();
    for sequence in 0..1000 {
        let used = Used {
            read_bytes: u64::MAX,
            of_bytes: 0,
        };
        let message = Message::Used(used);
        Frame { sequence, message }.encode(&mut bytes);
    }
    bytes
}

/// Frames that each say something of 64 ranges of the guest's disk, in no order.
fn ranges() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut block = 0_u64;
    for sequence in 0..1000 {
        let ranges = (0..64).filter_map(|_| {
            block = (block + 1_597) % 4_096;
            ByteRange::new(Offset::new(block * 4096), Bytes::new(4096))
        });
        let message = Message::Classes {
            serial: DISK.parse().expect("a serial number"),
            class: Class::ALL[sequence as usize % Class::ALL.len()],
            ranges: ranges.collect(),
        };
        Frame { sequence, message }.encode(&mut bytes);
    }
    bytes
}

/// Frames that each name 64 addresses that nobody has heard of.
fn addresses() -> Vec<u8> {
    let mut bytes = Vec::new();
    for sequence in 0..1000_u32 {
        let sockets = (0..64).map(|number| {
            let bytes = u64::from(sequence) * 64 + number;
            let peer = u128::from(bytes) << 64;
            Socket {
                peer: peer.into(),
                bytes,
            }
        });
        let message = Message::Sockets(sockets.collect());
        Frame { sequence, message }.encode(&mut bytes);
    }
    bytes
}

/// Headers that each announce the longest body, one behind the other.
fn nested_headers() -> Vec<u8> {
    let mut header = frames();
    header.truncate(16);
    header[6..8].copy_from_slice(&4096_u16.to_le_bytes());
    header.repeat(4096)
}

#[test]
fn a_hostile_guest_costs_no_more_than_its_quota_and_harms_nobody() {
    scenario(&["nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let (settings, socket) = settings(lab, &image)?;
        let hearth = Hearth::start(lab, &settings)?;
        let noise = vec![0xa5; 1 << 20];
        for (name, flood, piece) in [
            ("frames", frames(), 64 << 10),
            ("ranges", ranges(), 64 << 10),
            ("addresses", addresses(), 64 << 10),
            ("noise", noise.clone(), 1 << 20),
            ("single bytes", noise, 1),
            ("nested headers", nested_headers(), 64 << 10),
        ] {
            let mut agent = connect(&socket)?;
            let (before, began) = (cpu_seconds(&hearth)?, Instant::now());
            let mut pieces = flood.chunks(piece).cycle();
            while began.elapsed() < FLOOD {
                // One that is not taken in time is given up: what follows is torn then, as it may be. A daemon
                // that hangs up is no match for a flood.
                let piece = pieces.next().context("a flood has pieces")?;
                if let Err(error) = agent.write(piece) {
                    ensure!(error.kind() == ErrorKind::WouldBlock, "{name}: {error}");
                }
            }
            let used = (cpu_seconds(&hearth)? - before) / began.elapsed().as_secs_f64();
            println!("{name}: {:.1} % of a core", used * 100.0);
            ensure!(used <= CPU_MAX, "{name}: {:.1} % of a core", used * 100.0);
            let reads = "assert len(h.pread(4096, 0)) == 4096";
            nbdsh(Some(&hearth.uri(DISK)), reads)?;
        }
        let guest = guest_of(&hearth)?;
        let count = |name: &str| guest["frames"][name].as_u64().unwrap_or(0);
        ensure!(count("dropped") > 0 && count("invalid") > 0, "{guest}");
        // A second's, and those of the time that six floods took.
        ensure!(count("messages") <= 6 * (100 + 300), "{guest}");
        ensure!(guest["memory"].is_null(), "{guest}");
        ensure!(hearth.stop()?.success(), "a clean stop");
        Ok(())
    });
}

#[test]
fn the_vm_of_a_disk_that_is_attached_has_its_channel_at_once() {
    scenario(&[], |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let other = Image::new(lab, "other.raw", 16)?;
        let (settings, _) = settings(lab, &image)?;
        let hearth = Hearth::start(lab, &settings)?;
        let origin = other.path().display().to_string();
        hearth.command(&["disk", "attach", "late", "--origin", &origin])?;
        let channel = hearth.json(&["xml", "--disk", "late"])?["guest"].clone();
        let socket = lab.path("guest").join("late.sock");
        ensure!(socket.exists(), "{channel}");
        let told = channel["libvirt"].as_str().unwrap_or_default();
        ensure!(told.contains(&socket.display().to_string()), "{channel}");
        ensure!(hearth.stop()?.success(), "a clean stop");
        Ok(())
    });
}

#[test]
fn a_guest_says_how_its_memory_is_and_says_so_again_to_the_next_daemon() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        let image = kit.disk(lab)?;
        let (settings, socket) = settings(lab, &image)?;
        let hearth = Hearth::start(lab, &settings)?;
        let steps = with_agent("forever", "--epoch,500ms");
        let mut guest = Guest::boot_with_channel(lab, &kit, &hearth, DISK, ("vm", &steps))?;
        guest.wait_for("PROBE waiting")?;
        let said = wait_for(&hearth, "the agent's memory", |said| {
            !said["memory"].is_null()
        })?;
        let available = said["memory"]["available_bytes"].as_u64().unwrap_or(0);
        // Of 256 MiB.
        ensure!((64 << 20..256 << 20).contains(&available), "{said}");
        ensure!(said["disks"] == serde_json::json!([DISK]), "{said}");
        ensure!(
            said["frames"]["dropped"] == 0 && said["frames"]["missed"] == 0,
            "{said}"
        );
        let shown = hearth.command(&["vm", "show", DISK])?.stdout;
        ensure!(
            shown.contains("its agent speaks through process"),
            "{shown}"
        );

        hearth.kill()?;
        let hearth = Hearth::start(lab, &settings)?;
        let again = wait_for(&hearth, "the agent again", |said| !said["memory"].is_null())?;
        ensure!(
            again["boot"] == said["boot"] && !said["boot"].is_null(),
            "{again}"
        );
        ensure!(again["frames"]["invalid"] == 0, "{again}");
        let console = guest.kill()?;
        ensure!(console.contains("PROBE waiting"), "{console}");
        wait_for(&hearth, "the VM to be gone", |said| {
            said["process"].is_null()
        })?;
        ensure!(socket.exists(), "the next VM of this name finds it");
        ensure!(hearth.stop()?.success(), "a clean stop");
        Ok(())
    });
}
