//! Two guests talk over TCP, and their agents tell their host: `hearth traffic --agents` has what they exchange, the pair counted
//! once; a guest that lies changes only pairs of its own.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Flash, GUEST_TOOLS, Guest, GuestKit, Hearth, HearthSettings, Image, LONG, Lab,
    SHORT, agent_memory_kib, said, scenario, wait_until, with_agent,
};
use guest_protocol::{Frame, Message, Socket};
use serde_json::Value;

/// VMs, each with its address.
const VMS: [(&str, &str); 2] = [("web", "10.77.0.1"), ("db", "10.77.0.2")];
const AGENT: &str = "--epoch,500ms,--no-preload,--sockets,--sockets-interval,1s";
/// What the guests exchange, in KiB a second.
const KIB_A_SECOND: u64 = 256;
/// The same in bytes.
const RATE: f64 = 262_144.0;
/// What the agent may use of memory at most, in KiB.
const MEMORY_KIB_MAX: u64 = 16 << 10;

fn start(lab: &Lab, images: [&Path; 2], keys: &str) -> anyhow::Result<Hearth> {
    let flash = Flash::format(lab, "flash.img", 256)?;
    let folder = lab.path("guest");
    let mut settings = HearthSettings::new(&flash)
        .cache_key("write_delay = '100ms'\nflash_timeout = '60s'\n")
        .section(&format!(
            "\n[guest]\ndirectory = '{}'\n{keys}",
            folder.display()
        ));
    for ((vm, _), image) in VMS.into_iter().zip(images) {
        settings = settings.disk(&DiskSettings::on_file(vm, image));
    }
    Hearth::start(lab, &settings)
}

fn addresses(lab: &Lab, more: &str) -> anyhow::Result<PathBuf> {
    let path = lab.path("addresses.csv");
    let lines = VMS.map(|(vm, address)| format!("{vm},{address}\n"));
    std::fs::write(&path, lines.concat() + more)?;
    Ok(path)
}

/// What `hearth traffic` says, asked for so long.
fn traffic(hearth: &Hearth, addresses: &Path, time: &str) -> anyhow::Result<Value> {
    let addresses = addresses.display().to_string();
    let words = ["traffic", "--addresses", &addresses, "--agents"];
    let time = ["--for", time, "--interval", "2s"];
    hearth.json(&[&words[..], &time[..]].concat())
}

/// Bytes a second of each pair.
fn pairs(traffic: &Value) -> anyhow::Result<Vec<([String; 2], f64)>> {
    let pairs = traffic["pairs"].as_array().context("pairs")?;
    let of = |pair: &Value| -> anyhow::Result<([String; 2], f64)> {
        let name = |at: usize| pair["vms"][at].as_str().map(str::to_owned);
        let vms = name(0).zip(name(1)).context("two VMs")?;
        let rate = pair["bytes_per_second"].as_f64().context("a rate")?;
        Ok(([vms.0, vms.1], rate))
    };
    pairs.iter().map(of).collect()
}

/// Bytes that a VM's guest says to have exchanged, and with how many addresses.
fn exchanged(hearth: &Hearth, vm: &str) -> anyhow::Result<(u64, u64)> {
    let traffic = hearth.json(&["vm", "show", vm])?["guest"]["traffic"].clone();
    let number = |key: &str| traffic[key].as_u64().unwrap_or(0);
    Ok((number("bytes"), number("peers")))
}

fn boot(
    lab: &Lab,
    kit: &GuestKit,
    hearth: &Hearth,
    (vm, address): (&str, &str),
    (steps, network): (&str, &str),
) -> anyhow::Result<Guest> {
    let card = format!(
        "virtio-net-pci,netdev=net,mac=52:54:00:00:00:0{},romfile=",
        &address[8..]
    );
    let more = ["-netdev", network, "-device", &card];
    let steps = format!("{} net={address}", with_agent(steps, AGENT));
    Guest::boot_with_channel_and(lab, kit, hearth, vm, (vm, &steps), &more)
}

/// The pair's rate, as `hearth traffic` has it, is that at which the guests talk; it is there once, though both tell of it.
/// Its part of that rate.
fn is_the_rate(hearth: &Hearth, addresses: &Path) -> anyhow::Result<f64> {
    let told = traffic(hearth, addresses, "12s")?;
    let found = pairs(&told)?;
    ensure!(found.len() == 1, "{told}");
    let (vms, rate) = &found[0];
    ensure!(vms.iter().all(|vm| VMS.iter().any(|(name, _)| name == vm)));
    let ratio = rate / RATE;
    ensure!((0.95..1.05).contains(&ratio), "{ratio}: {told}");
    ensure!(told["unknown_bytes"] == 0, "{told}");
    let shown = hearth.command(&["vm", "show", VMS[0].0])?.stdout;
    let line = "exchanged over TCP with 1 addresses";
    ensure!(shown.contains(line), "{shown}");
    Ok(ratio)
}

/// The agent that was heard before the guests talked has told of each byte, that of the other guest of most.
/// What both have told.
fn all_is_counted(hearth: &Hearth, sent: u64) -> anyhow::Result<(u64, u64)> {
    let mut told = (0, 0);
    let is_counted = wait_until("all bytes to be told", LONG, || {
        // What was told goes with a guest that ends.
        told.0 = exchanged(hearth, VMS[0].0)?.0.max(told.0);
        told.1 = exchanged(hearth, VMS[1].0)?.0.max(told.1);
        Ok(told.0 >= sent / 2 && told.1 >= sent)
    });
    is_counted.with_context(|| format!("{told:?} of {sent}"))?;
    // Beginning and end of a connection count as a byte each.
    let most = sent + 4 * 1000;
    ensure!(told.0 <= most && told.1 <= most, "{told:?} of {sent}");
    Ok(told)
}

#[test]
fn what_two_guests_exchange_is_what_their_agents_say() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        let image = kit.disk(lab)?;
        let other = lab.path("other.raw");
        std::fs::copy(image.path(), &other)?;
        let hearth = start(lab, [image.path(), &other], "sockets = true\n")?;
        let cable = lab.path("cable.sock");
        let network = |role: &str| {
            let path = cable.display();
            format!("stream,id=net,server={role},addr.type=unix,addr.path={path}")
        };
        let listen = ("listen,port=7000,connections=1000", &*network("on"));
        let mut db = boot(lab, &kit, &hearth, VMS[1], listen)?;
        db.wait_for("PROBE listening")?;
        wait_until("its agent", LONG, || {
            let guest = hearth.json(&["vm", "show", VMS[1].0])?["guest"].clone();
            Ok(!guest["traffic"].is_null())
        })?;
        // One connection that stays, then one for each 4 KiB, which no look sees.
        let to = format!("to={}:7000,kib_a_second={KIB_A_SECOND}", VMS[1].1);
        let steps = format!("talk,{to},seconds=30+talk,{to},seconds=6,each_kib=4+memory,seconds=6");
        let mut web = boot(lab, &kit, &hearth, VMS[0], (&steps, &network("off")))?;
        web.wait_for("PROBE talking")?;
        wait_until("the agents to say it", LONG, || {
            Ok(exchanged(&hearth, VMS[0].0)?.0 > 0 && exchanged(&hearth, VMS[1].0)?.0 > 0)
        })?;
        let ratio = is_the_rate(&hearth, &addresses(lab, "")?)?;
        println!("one pair with {ratio:.3} of the rate");
        web.wait_for("PROBE talked bytes=1572864")?;
        let sent = KIB_A_SECOND * 1024 * 36;
        let told = all_is_counted(&hearth, sent)?;
        println!("{sent} bytes were sent, {told:?} were counted");
        let console = web.finish()?;
        ensure!(console.contains("agent ended with 0"), "{console}");
        ensure!(!console.contains("TCP connections"), "{console}");
        let memory = agent_memory_kib(&console)?;
        println!("the agent had {memory} KiB at most");
        ensure!(memory <= MEMORY_KIB_MAX, "the agent had {memory} KiB");
        let connections = said(&console, "PROBE talked", "connections")?;
        ensure!(connections > 300, "{console}");
        db.kill()?;
        ensure!(hearth.stop()?.success(), "a clean stop");
        Ok(())
    });
}

/// An agent that says this of whom its guest speaks with, a message for each line.
fn agent(lab: &Lab, vm: &str, said: &[&[(&str, u64)]]) -> anyhow::Result<UnixStream> {
    let socket = lab.path("guest").join(format!("{vm}.sock"));
    wait_until("the channel's socket", SHORT, || Ok(socket.exists()))?;
    let mut agent = UnixStream::connect(&socket)?;
    tell(&mut agent, 0, said)?;
    Ok(agent)
}

fn tell(agent: &mut UnixStream, from: u32, said: &[&[(&str, u64)]]) -> anyhow::Result<()> {
    for (sequence, sockets) in (from..).zip(said) {
        let sockets = sockets
            .iter()
            .map(|(peer, bytes)| -> anyhow::Result<Socket> {
                let (peer, bytes) = (peer.parse()?, *bytes);
                Ok(Socket { peer, bytes })
            });
        let message = Message::Sockets(sockets.collect::<anyhow::Result<_>>()?);
        let mut bytes = Vec::new();
        Frame { sequence, message }.encode(&mut bytes);
        agent.write_all(&bytes)?;
    }
    Ok(())
}

#[test]
fn a_guest_that_lies_changes_only_pairs_of_its_own() {
    scenario(&[], |lab| {
        let images = [
            Image::new(lab, "web.raw", 16)?,
            Image::new(lab, "db.raw", 16)?,
        ];
        let hearth = start(
            lab,
            [images[0].path(), images[1].path()],
            "sockets = true\n",
        )?;
        let addresses = addresses(lab, "log,10.77.0.3\n")?;
        // Nobody has said anything.
        let table = addresses.display().to_string();
        let words = ["traffic", "--agents", "--for", "1s", "--addresses", &table];
        let refused = hearth.refused_command(&words)?.stderr;
        ensure!(
            refused.contains("hearth-guest run with --sockets"),
            "{refused}"
        );

        let (web, db, log) = ("::ffff:10.77.0.1", "::ffff:10.77.0.2", "::ffff:10.77.0.3");
        let mut liar = agent(lab, "web", &[&[]])?;
        let mut honest = agent(lab, "db", &[&[]])?;
        let collecting = std::thread::scope(|scope| {
            let collecting = scope.spawn(|| traffic(&hearth, &addresses, "6s"));
            for sequence in 1..40 {
                tell(
                    &mut liar,
                    sequence,
                    &[&[(db, 1 << 40), (web, 1 << 40), ("fd00::9", 5)]],
                )?;
                tell(&mut honest, sequence, &[&[(log, 1000)]])?;
                std::thread::sleep(std::time::Duration::from_millis(200));
            }
            collecting.join().expect("it does not panic")
        });
        let told = collecting?;
        for (vms, rate) in pairs(&told)? {
            if vms.contains(&"web".to_owned()) {
                ensure!(vms.contains(&"db".to_owned()), "{told}");
            } else {
                ensure!((4_000.0..6_000.0).contains(&rate), "{told}");
            }
        }
        ensure!(pairs(&told)?.len() == 2, "{told}");
        ensure!(
            exchanged(&hearth, "db")?.1 == 1,
            "what one says is not the other's"
        );
        ensure!(hearth.stop()?.success(), "a clean stop");
        Ok(())
    });
}

#[test]
fn what_guests_say_is_not_kept_unless_the_configuration_says_so() {
    scenario(&[], |lab| {
        let images = [
            Image::new(lab, "web.raw", 16)?,
            Image::new(lab, "db.raw", 16)?,
        ];
        let hearth = start(lab, [images[0].path(), images[1].path()], "")?;
        let _agent = agent(lab, "web", &[&[], &[("::ffff:10.77.0.2", 5)]])?;
        wait_until("what the agent says", LONG, || {
            Ok(hearth.json(&["vm", "show", "web"])?["guest"]["frames"]["messages"] == 2)
        })?;
        let guest = hearth.json(&["vm", "show", "web"])?["guest"].clone();
        ensure!(guest["traffic"].is_null(), "{guest}");
        let addresses = addresses(lab, "")?.display().to_string();
        let words = [
            "traffic",
            "--agents",
            "--for",
            "1s",
            "--addresses",
            &addresses,
        ];
        let refused = hearth.refused_command(&words)?.stderr;
        ensure!(refused.contains("guest.sockets = true"), "{refused}");
        ensure!(hearth.stop()?.success(), "a clean stop");
        Ok(())
    });
}
