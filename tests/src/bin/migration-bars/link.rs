//! How fast a cache goes over the link, beside what TLS, and what the flash, can do in the same run.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::{Image, Lab, RoamingPair, RoamingSettings, free_port, run, scenario, wait_until};

const MIB: f64 = 1_048_576.0;
const LONG: Duration = Duration::from_mins(10);

/// Copies the cache of a disk of so many MiB to the other host as fast as it goes, and with the usual rate.
pub(crate) fn measure(mib: u32) {
    println!("| copied | MiB/s |");
    println!("|---|---|");
    scenario(&["openssl", "dd"], |lab| {
        println!("| TLS alone, AES-128-GCM | {:.0} |", tls(lab, mib)?);
        let [written, read] = flash(lab, mib)?;
        println!("| flash, written directly, 1 MiB each | {written:.0} |");
        println!("| flash, read directly, 1 MiB each | {read:.0} |");
        Ok(())
    });
    for (rate, name) in [
        ("100GiB", "the cache, without limit"),
        ("auto", "the cache, at `auto`"),
    ] {
        scenario(RoamingPair::TOOLS, |lab| {
            println!("| {name} | {:.0} |", copied(lab, rate, mib)?);
            Ok(())
        });
    }
}

/// Sends so many MiB between two programs that do nothing else.
fn tls(lab: &Lab, mib: u32) -> anyhow::Result<f64> {
    let port = free_port()?;
    let openssl = |line: &str| {
        run(Command::new("openssl")
            .current_dir(lab.folder())
            .args(line.split(' ')))
    };
    openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key -out cert -days 2 -subj /CN=bars",
    )?;
    let accept = format!("127.0.0.1:{port}");
    let mut server = Command::new("openssl")
        .current_dir(lab.folder())
        .args([
            "s_server", "-quiet", "-naccept", "1", "-key", "key", "-cert", "cert", "-accept",
            &accept,
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("openssl s_server")?;
    wait_until("openssl to listen", Duration::from_secs(10), || {
        let sockets = std::fs::read_to_string("/proc/net/tcp")?;
        Ok(sockets.contains(&format!(":{port:04X} 00000000:0000 0A")))
    })?;
    let zeroes = std::fs::File::open("/dev/zero")?;
    let mut source = Command::new("head")
        .args(["-c", &format!("{mib}M")])
        .stdin(zeroes)
        .stdout(Stdio::piped())
        .spawn()
        .context("head")?;
    let bytes = source.stdout.take().context("head's output")?;
    let began = Instant::now();
    let sent = Command::new("openssl")
        .args([
            "s_client",
            "-quiet",
            "-no_ign_eof",
            "-ciphersuites",
            "TLS_AES_128_GCM_SHA256",
            "-connect",
            &accept,
        ])
        .stdin(bytes)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("openssl s_client")?;
    let took = began.elapsed();
    source.wait()?;
    server.wait()?;
    ensure!(sent.success(), "openssl s_client: {sent}");
    Ok(f64::from(mib) / took.as_secs_f64())
}

/// Writes and reads a file past the page cache: MiB a second of each.
fn flash(lab: &Lab, mib: u32) -> anyhow::Result<[f64; 2]> {
    let timed = |words: &[&str]| {
        let began = Instant::now();
        run(Command::new("dd").current_dir(lab.folder()).args(words)).map(|_| began.elapsed())
    };
    let count = format!("count={mib}");
    let written = timed(&["if=/dev/zero", "of=plain", "bs=1M", "oflag=direct", &count])?;
    let read = timed(&["if=plain", "of=/dev/null", "bs=1M", "iflag=direct", &count])?;
    std::fs::remove_file(lab.path("plain"))?;
    Ok([written, read].map(|took| f64::from(mib) / took.as_secs_f64()))
}

/// Copies a cache ahead of its disk: MiB a second.
fn copied(lab: &Lab, rate: &'static str, mib: u32) -> anyhow::Result<f64> {
    let image = Image::new(lab, "origin.raw", u64::from(mib))?;
    let settings = RoamingSettings {
        write_policy: "through",
        flash_mib: u64::from(mib) * 2 + 256,
        link_rates: [rate; 2],
        ..RoamingSettings::default()
    };
    let mut pair = RoamingPair::start_over(lab, image, settings)?;
    let mut source = pair.client(0)?;
    for _ in 0..2 {
        for piece in 0..u64::from(mib) {
            source.read(piece << 20, 1 << 20)?;
        }
    }
    let began = Instant::now();
    let guest = pair.client(1)?;
    wait_until("the cache to be copied", LONG, || {
        Ok(pair.log(1)?.contains("cache is copied ahead"))
    })?;
    let took = began.elapsed();
    let shown = pair.host(1).json(&["migrate", "show", RoamingPair::DISK])?;
    let bytes = shown["cache_move"]["came_bytes"].as_f64();
    guest.close()?;
    source.close()?;
    pair.stop_both()?;
    Ok(bytes.context("how much came")? / MIB / took.as_secs_f64())
}
