//! `hearth migrate list` and `show` say which host has a disk that roams, how the session with the peer is, what has to
//! reach the origin before a hand-over, and how the last one went: also while the link is cut, and while the peer is
//! down.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Expected, Flash, Hearth, HearthSettings, Image, LONG, RoamingPair,
    RoamingSettings, SHORT, hearth_program, scenario, wait_until,
};
use serde_json::Value;

const DISK: &str = RoamingPair::DISK;

fn shown(pair: &mut RoamingPair, at: usize) -> anyhow::Result<Value> {
    pair.host(at).json(&["migrate", "show", DISK])
}

fn count(disk: &Value, outcome: &str) -> u64 {
    let counts = disk["hand_overs"].as_array();
    let of = counts.and_then(|all| all.iter().find(|one| one["outcome"] == outcome));
    of.and_then(|one| one["count"].as_u64()).unwrap_or(u64::MAX)
}

#[test]
fn a_move_is_seen_from_both_hosts() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        wait_until("a session", SHORT, || {
            let both = [shown(&mut pair, 0)?, shown(&mut pair, 1)?];
            Ok(both.iter().all(|disk| disk["peer"]["stands"] == true))
        })?;
        let mut expected = Expected::of(&pair.image)?;
        let mut source = pair.client(0)?;
        expected.write(&mut source, 0..100, 1)?;
        source.flush()?;
        let [owner, standby] = [shown(&mut pair, 0)?, shown(&mut pair, 1)?];
        let epoch = pair.record()?.1;
        ensure!(owner["role"] == "owner", "{owner}");
        ensure!(
            owner["epoch"] == epoch,
            "{owner}, and the record has {epoch}"
        );
        ensure!(owner["left_bytes"] == 100 * 4096, "{owner}");
        ensure!(owner["peer"]["name"] == RoamingPair::NAMES[1], "{owner}");
        ensure!(owner["last_hand_over"].is_null(), "{owner}");
        ensure!(standby["role"] == "standby", "{standby}");
        ensure!(standby["left_bytes"].is_null(), "{standby}");
        source.close()?;
        let mut guest = pair.client(1)?;
        expected.write(&mut guest, 50..60, 2)?;
        pair.wait_until_owned_by(1)?;
        let [given, taken] = [shown(&mut pair, 0)?, shown(&mut pair, 1)?];
        let epoch = pair.record()?.1;
        for (disk, role, outcome) in [(&given, "standby", "given"), (&taken, "owner", "taken")] {
            ensure!(disk["role"] == role && disk["epoch"] == epoch, "{disk}");
            ensure!(disk["last_hand_over"]["outcome"] == outcome, "{disk}");
            ensure!(count(disk, outcome) == 1, "{disk}");
        }
        // The guest waited, at least for the second in which its predecessor could have come back.
        let held = taken["last_hand_over"]["held_seconds"].as_f64();
        ensure!(
            held.is_some_and(|held| held > 0.0 && held < 10.0),
            "{taken}"
        );
        let list = pair.host(1).command(&["migrate", "list"])?.stdout;
        ensure!(list.contains("owner") && list.contains("node-a"), "{list}");
        let text = pair.host(1).command(&["migrate", "show", DISK])?.stdout;
        ensure!(text.contains("taken from node-a"), "{text}");
        let metrics = metrics(&mut pair, 1)?;
        for line in [
            "hearth_link_session{peer=\"node-a\"} 1",
            "hearth_roaming_disks{role=\"owner\"} 1",
            "hearth_roaming_disks{role=\"standby\"} 0",
            "hearth_hand_overs_total{disk=\"disk\",vm=\"disk\",cache=\"flash\",outcome=\"taken\"} 1",
            "hearth_hand_over_held_seconds_count{outcome=\"taken\"} 1",
        ] {
            ensure!(metrics.lines().any(|one| one == line), "{line}\n{metrics}");
        }
        pair.stop_both()
    });
}

fn metrics(pair: &mut RoamingPair, at: usize) -> anyhow::Result<String> {
    use std::io::{Read as _, Write as _};
    let socket = pair.host(at).admin_socket().to_path_buf();
    let mut stream = std::os::unix::net::UnixStream::connect(socket)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn a_cut_link_and_a_peer_that_is_down_are_told_with_their_remedy() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        let stands = |pair: &mut RoamingPair, at: usize, stands: bool| {
            wait_until("the session to be as it is", LONG, || {
                let peer = &shown(pair, at)?["peer"];
                // The reason is known when the peer was dialed once.
                Ok(peer["stands"] == stands && peer["problem"].is_null() == stands)
            })
        };
        for at in 0..2 {
            stands(&mut pair, at, true)?;
        }
        pair.wire.cut();
        for at in 0..2 {
            stands(&mut pair, at, false)?;
            let shown = shown(&mut pair, at)?;
            ensure!(shown["peer"]["remedy"].is_string(), "{shown}");
            ensure!(shown["role"] == ["owner", "standby"][at], "{shown}");
        }
        // A guest of the standby claims the disk, and fails.
        let mut guest = pair.client(1)?;
        let writing = std::thread::spawn(move || guest.try_write(0, &[1; 4096]));
        wait_until("a claim", SHORT, || {
            Ok(shown(&mut pair, 1)?["role"] == "claiming")
        })?;
        let held = shown(&mut pair, 1)?["held_seconds"].as_f64();
        wait_until("the guest to be seen to wait", SHORT, || {
            Ok(shown(&mut pair, 1)?["held_seconds"].as_f64() > held)
        })?;
        let text = pair.host(1).command(&["migrate", "show", DISK])?.stdout;
        ensure!(text.contains("requests wait since"), "{text}");
        let written = writing.join().map_err(|_| anyhow::anyhow!("a panic"))??;
        ensure!(
            written.is_err(),
            "it was written without a word of the owner"
        );
        let failed = shown(&mut pair, 1)?;
        ensure!(failed["last_hand_over"]["outcome"] == "failed", "{failed}");
        ensure!(failed["held_seconds"].is_null(), "{failed}");
        ensure!(
            count(&failed, "failed") == 1 && count(&failed, "taken") == 0,
            "{failed}"
        );
        pair.wire.mend();
        for at in 0..2 {
            stands(&mut pair, at, true)?;
        }
        pair.kill(0)?;
        stands(&mut pair, 1, false)?;
        let text = pair.host(1).command(&["migrate", "show", DISK])?.stdout;
        ensure!(text.contains("DOWN") && text.contains("try:"), "{text}");
        pair.stop(1)
    });
}

#[test]
fn a_disk_whose_record_cannot_be_read_is_in_doubt() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        pair.stop(1)?;
        pair.stop(0)?;
        let away = pair.image.path().with_extension("away");
        std::fs::rename(pair.image.path(), &away)?;
        let settings = pair.settings(0).clone().in_trouble(DISK);
        let hearth = Hearth::start(pair.lab(0), &settings)?;
        let shown = || hearth.json(&["migrate", "show", DISK]);
        wait_until("the reason", SHORT, || Ok(shown()?["problem"].is_string()))?;
        ensure!(shown()?["role"] == "in-doubt", "{}", shown()?);
        std::fs::rename(&away, pair.image.path())?;
        wait_until("the disk", SHORT, || Ok(shown()?["role"] == "owner"))?;
        hearth.stop().map(drop)
    });
}

#[test]
fn a_disk_that_does_not_roam_and_one_that_is_unknown_are_refused() {
    scenario(&[], |lab| {
        let flash = Flash::format(lab, "flash.img", 128)?;
        let image = Image::new(lab, "origin.raw", 8)?;
        let disk = DiskSettings::on_file("still", image.path());
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash).disk(&disk))?;
        let list = hearth.json(&["migrate", "list"])?;
        ensure!(list["disks"] == serde_json::json!([]), "{list}");
        for (disk, code, word) in [("still", 4, "does not roam"), ("nothing", 6, "no disk")] {
            let socket = hearth.admin_socket().display().to_string();
            let refused = e2e::hearth(&["--socket", &socket, "migrate", "show", disk])?;
            let said = refused.stderr;
            ensure!(
                refused.code == code && said.contains(word),
                "{disk}: {} {said}",
                refused.code
            );
        }
        hearth.stop().map(drop)
    });
}

/// A command that goes on, and its lines.
struct Watch {
    command: Child,
    lines: Receiver<String>,
}

impl Watch {
    fn start(hearth: &Hearth, words: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(hearth_program()?);
        command.arg("--socket").arg(hearth.admin_socket());
        Self::of(command.args(words))
    }

    fn of(command: &mut Command) -> anyhow::Result<Self> {
        let mut command = command.stdout(Stdio::piped()).spawn()?;
        let out = BufReader::new(command.stdout.take().context("its output")?);
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).for_each(|line| {
                let _ = sender.send(line);
            });
        });
        Ok(Self { command, lines })
    }

    /// Waits for a line that is as wanted.
    fn until(&self, wanted: impl Fn(&str) -> bool) -> anyhow::Result<String> {
        loop {
            let line = self.lines.recv_timeout(LONG).context("a line")?;
            if wanted(&line) {
                return Ok(line);
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

#[test]
fn a_watch_tells_each_change_in_a_line() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        let watch = Watch::start(pair.host(1), &["migrate", "show", DISK, "--watch"])?;
        let json = Watch::start(
            pair.host(0),
            &["--json", "migrate", "show", DISK, "--watch"],
        )?;
        let first = watch.until(|line| line.contains("standby"))?;
        ensure!(first.starts_with("disk: standby"), "{first}");
        if first.contains("is down") {
            watch.until(|line| line.contains("stands"))?;
        }
        let mut guest = pair.client(1)?;
        guest.write(0, &[1; 4096])?;
        watch.until(|line| line.contains("owner") && line.contains("1 taken"))?;
        let line = json.until(|line| line.contains("\"standby\""))?;
        let disk: Value = serde_json::from_str(&line)?;
        ensure!(count(&disk, "given") == 1, "{disk}");
        pair.kill(1)?;
        json.until(|line| line.contains("\"stands\":false"))?;
        pair.stop(0)
    });
}

#[test]
fn a_watch_on_a_terminal_paints_its_picture_again() {
    scenario(&[RoamingPair::TOOLS, &["script"]].concat(), |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        let socket = pair.host(0).admin_socket().display().to_string();
        let program = hearth_program()?.display().to_string();
        let line = format!("{program} --socket {socket} migrate show {DISK} --watch");
        let mut terminal = Command::new("script");
        terminal.args(["-q", "-e", "-c", &line, "/dev/null"]);
        let watch = Watch::of(terminal.stdin(Stdio::null()))?;
        watch.until(|line| line.contains("owner: VMs are served"))?;
        // The cursor goes up to where the picture began, and what was there goes.
        let again = watch.until(|line| line.contains("\u{1b}[J"))?;
        ensure!(
            again.contains("F\u{1b}[J") && again.contains("disk"),
            "{again:?}"
        );
        watch.until(|line| line.contains("hand-overs"))?;
        pair.stop_both()
    });
}
