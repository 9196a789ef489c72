//! What each verb about a disk answers in each state that a disk can be in, of the real daemon in states
//! that were made for real. The same table is in the book: `book/src/testing.md`.
//!
//! Each verb has a disk of its own in each state, is asked of the admin API, and if it is refused of the
//! command line as well, which has to end with the exit code that goes with the answer.

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, LONG, Lab, MOUNT_TOOLS, Process, WeakFlash,
    can_mount, nbdsh, scenario, wait_until,
};
use rustix::process::Signal;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;

/// Size of each dirty log, and of each disk, in MiB.
const LOG_MIB: u64 = 16;
/// Room for one log for each verb, and for one that grows.
const FLASH_MIB: u64 = 640;

/// A verb: its words on the command line behind `hearth disk`, and its request of the API.
struct Verb {
    words: &'static str,
    method: &'static str,
    /// Behind the disk's path.
    rest: &'static str,
    body: &'static str,
}

const fn verb(
    words: &'static str,
    method: &'static str,
    rest: &'static str,
    body: &'static str,
) -> Verb {
    Verb {
        words,
        method,
        rest,
        body,
    }
}

const THROUGH: &str = r#"{"write_policy":"through"}"#;
const LARGER: &str = r#"{"write_back":{"dirty_max":"17MiB"}}"#;
const LOSE: &str = "?dirty=drop&yes_lose_data=true";

/// Every verb about one disk. `attach` is of a disk of the same name.
const VERBS: [Verb; 15] = [
    verb("show", "GET", "", ""),
    verb("attach", "POST", "", ""),
    verb("set --write-policy through", "PATCH", "", THROUGH),
    verb("set --dirty-max 17MiB", "PATCH", "", LARGER),
    verb("set --reset", "DELETE", "/settings", ""),
    verb("drop", "POST", "/drop", ""),
    verb("resize", "POST", "/resize", ""),
    verb("flush --wait", "POST", "/flush?wait=true", ""),
    verb("barrier", "POST", "/barrier", ""),
    verb("detach", "DELETE", "", ""),
    verb("detach --keep", "DELETE", "?dirty=keep", ""),
    verb("detach --flush", "DELETE", "?dirty=flush", ""),
    verb(
        "detach --flush --erase",
        "DELETE",
        "?dirty=flush&erase=true",
        "",
    ),
    verb("detach --erase", "DELETE", "?erase=true", ""),
    verb("detach --drop-dirty --yes-lose-data", "DELETE", LOSE, ""),
];

/// The table, as the book has it: a row for each verb, a column for each state. An answer is `done`, or the
/// code of the problem; with `later` in front it comes only when the origin goes on.
const TABLE: &str = "\
| verb | attached | waiting | entering | leaving | detached | bypassed | flash failed |
|---|---|---|---|---|---|---|---|
| `show` | done | done | done | done | no-such-disk | done | done |
| `attach` | already-attached | already-attached | already-attached | already-attached | done | already-attached | already-attached |
| `set --write-policy through` | done | done | busy | busy | no-such-disk | done | refused |
| `set --dirty-max 17MiB` | done | done | done | done | no-such-disk | done | done |
| `set --reset` | done | done | busy | busy | no-such-disk | done | done |
| `drop` | dirty | not-ready | done | dirty | no-such-disk | done | dirty |
| `resize` | done | not-ready | later done | later done | no-such-disk | done | done |
| `flush --wait` | done | not-ready | later done | later done | no-such-disk | done | refused |
| `barrier` | done | not-ready | later done | later done | no-such-disk | done | refused |
| `detach` | dirty | done | later done | dirty | no-such-disk | done | dirty |
| `detach --keep` | done | done | later done | later done | no-such-disk | done | done |
| `detach --flush` | done | not-ready | later done | later done | no-such-disk | done | refused |
| `detach --flush --erase` | done | not-ready | later done | later done | no-such-disk | done | refused |
| `detach --erase` | dirty | not-ready | later done | dirty | no-such-disk | done | dirty |
| `detach --drop-dirty --yes-lose-data` | done | not-ready | later done | later done | no-such-disk | done | done |
";

/// What a verb is to be answered with in a state.
fn expected(state: &str, verb: &str) -> anyhow::Result<&'static str> {
    let cells = |row: &'static str| row.trim_matches('|').split('|').map(str::trim);
    let mut rows = TABLE.lines();
    let mut names = cells(rows.next().context("a head")?);
    let column = names.position(|name| name == state).context("a state")?;
    let verb = format!("`{verb}`");
    let row = rows.find(|row| cells(row).next() == Some(verb.as_str()));
    cells(row.context("a verb")?).nth(column).context("a cell")
}

/// A host with a disk for each verb, each on an export of one origin.
struct Host<'a> {
    lab: &'a Lab,
    origin: Process,
    socket: PathBuf,
    settings: HearthSettings,
}

fn disk(at: usize) -> String {
    format!("d{at}")
}

/// Where a disk's bytes live.
fn uri(origin: &Path, at: usize) -> String {
    format!("nbd+unix:///{}?socket={}", disk(at), origin.display())
}

impl<'a> Host<'a> {
    fn new(lab: &'a Lab, flash: &Flash, policy: &str) -> anyhow::Result<Self> {
        let exports = lab.path("exports");
        std::fs::create_dir(&exports)?;
        for at in 0..VERBS.len() {
            let image = std::fs::File::create(exports.join(disk(at)))?;
            image.set_len(LOG_MIB << 20)?;
        }
        let socket = lab.path("origin.sock");
        let mut command = Command::new("nbdkit");
        command.arg("-f").arg("-U").arg(&socket);
        let folder = format!("dir={}", exports.display());
        let origin = Process::start(lab, "origin", command.args(["file", &folder]))?;
        wait_until("the origin to listen", LONG, || {
            Ok(UnixStream::connect(&socket).is_ok())
        })?;
        let mut settings = HearthSettings::new(flash);
        for at in 0..VERBS.len() {
            let held = "age_max = '1000s', idle_after = '1000s'";
            let one = DiskSettings::on_nbd(&disk(at), &uri(&socket, at))
                .key(&format!("write_policy = '{policy}'"))
                .key(&format!(
                    "write_back = {{ dirty_max = '{LOG_MIB}MiB', {held} }}"
                ));
            settings = settings.disk(&one);
        }
        Ok(Self {
            lab,
            origin,
            socket,
            settings,
        })
    }

    fn start(&self) -> anyhow::Result<Hearth> {
        Hearth::start(self.lab, &self.settings)
    }

    fn api(&self) -> Api {
        Api {
            socket: self.lab.path("admin.sock"),
            origin: self.socket.clone(),
        }
    }
}

/// Writes some blocks of each disk.
fn fill(hearth: &Hearth, blocks: u64) -> anyhow::Result<()> {
    let uris: Vec<String> = (0..VERBS.len()).map(|at| hearth.uri(&disk(at))).collect();
    let script = format!(
        "import nbd\nfor uri in {uris:?}:\n    h = nbd.NBD()\n    h.connect_uri(uri)\n    \
         for b in range({blocks}):\n        h.pwrite(bytes([b % 251, 8]) * 2048, b * 4096)\n    \
         h.flush()\n    h.shutdown()\n"
    );
    nbdsh(None, &script).map(drop)
}

/// The admin API.
#[derive(Clone)]
struct Api {
    socket: PathBuf,
    origin: PathBuf,
}

impl Api {
    /// What a request is answered with: its status, and `done` or the problem's code.
    fn ask(&self, method: &str, path: &str, body: &str) -> anyhow::Result<(u16, String)> {
        let mut socket = UnixStream::connect(&self.socket)?;
        let length = body.len();
        write!(
            socket,
            "{method} {path} HTTP/1.1\r\nHost: hearth\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("a head")?;
        let status = head.split(' ').nth(1).context("a status")?.parse()?;
        if (200..300).contains(&status) {
            return Ok((status, "done".to_owned()));
        }
        let problem: serde_json::Value = serde_json::from_str(body).context(answer.clone())?;
        let code = problem["type"]
            .as_str()
            .and_then(|kind| kind.rsplit(':').next());
        Ok((status, code.context("a code")?.to_owned()))
    }

    /// What a verb is answered with about its disk.
    fn verb(&self, at: usize) -> anyhow::Result<String> {
        let verb = &VERBS[at];
        let name = disk(at);
        let (status, code) = if verb.words == "attach" {
            let body = serde_json::json!({
                "name": name, "origin": { "nbd": uri(&self.origin, at) }, "write_policy": "back",
                "write_back": { "dirty_max": format!("{LOG_MIB}MiB") },
            });
            self.ask("POST", "/v1/disks", &body.to_string())?
        } else {
            let path = format!("/v1/disks/{name}{}", verb.rest);
            self.ask(verb.method, &path, verb.body)?
        };
        if code != "done" {
            self.same_on_the_command_line(at, status)?;
        }
        Ok(code)
    }

    /// The exit code of the command line goes with the answer.
    fn same_on_the_command_line(&self, at: usize, status: u16) -> anyhow::Result<()> {
        let (verb, name) = (&VERBS[at], disk(at));
        let mut words = verb.words.split(' ');
        let first = words.next().context("a word")?;
        let rest: Vec<&str> = words.collect();
        let socket = self.socket.display().to_string();
        let origin = uri(&self.origin, at);
        let mut all = vec!["--socket", &socket, "disk", first, &name];
        all.extend(&rest);
        if first == "attach" {
            all.extend(["--origin", &origin]);
        }
        let exit = e2e::hearth(&all)?;
        let expected = match status {
            400 => 2,
            404 => 6,
            409 | 503 => 4,
            _ => 1,
        };
        ensure!(
            exit.code == expected && exit.stderr.contains("error: "),
            "{}: {status} and exit code {}: {}",
            verb.words,
            exit.code,
            exit.stderr
        );
        Ok(())
    }
}

type Asked = JoinHandle<anyhow::Result<String>>;

/// Asks every verb, each of its disk, and compares with the table. `go_on` lets the origin go on, if it
/// stands still.
fn compare(
    api: &Api,
    state: &str,
    go_on: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let expected = VERBS.iter().map(|verb| expected(state, verb.words));
    let expected: Vec<&str> = expected.collect::<anyhow::Result<_>>()?;
    let asked: Vec<Asked> = (0..VERBS.len())
        .map(|at| {
            let api = api.clone();
            std::thread::spawn(move || api.verb(at))
        })
        .collect();
    let is_later = |at: usize| expected[at].starts_with("later ");
    let all_now = wait_until("answers without the origin", LONG, || {
        let mut now = (0..VERBS.len()).filter(|at| !is_later(*at));
        Ok(now.all(|at| asked[at].is_finished()))
    });
    let finished: Vec<bool> = asked.iter().map(JoinHandle::is_finished).collect();
    go_on()?;
    let mut wrong = String::new();
    for (at, one) in asked.into_iter().enumerate() {
        let answer = one.join().map_err(|_| anyhow::anyhow!("a thread"))??;
        let answer = if finished[at] {
            answer
        } else {
            format!("later {answer}")
        };
        if answer != expected[at] {
            writeln!(wrong, "{}: {answer}, not {}", VERBS[at].words, expected[at])?;
        }
    }
    ensure!(wrong.is_empty(), "{state}:\n{wrong}");
    all_now
}

const TOOLS: [&str; 2] = ["nbdkit", "nbdsh"];

#[test]
fn attached() {
    scenario(&TOOLS, |lab| {
        let flash = Flash::format(lab, "flash.img", FLASH_MIB)?;
        let host = Host::new(lab, &flash, "back")?;
        let hearth = host.start()?;
        fill(&hearth, 20)?;
        compare(&host.api(), "attached", || Ok(()))?;
        hearth.stop().map(drop)
    });
}

#[test]
fn waiting() {
    scenario(&TOOLS, |lab| {
        let flash = Flash::format(lab, "flash.img", FLASH_MIB)?;
        let host = Host::new(lab, &flash, "back")?;
        let hearth = host.start()?;
        fill(&hearth, 20)?;
        hearth.stop()?;
        let api = host.api();
        host.origin.kill()?;
        let names = (0..VERBS.len()).map(disk);
        let settings = names.fold(host.settings, |all, name| all.in_trouble(&name));
        let hearth = Hearth::start(lab, &settings)?;
        compare(&api, "waiting", || Ok(()))?;
        hearth.stop().map(drop)
    });
}

/// Tells every disk to go to a policy while its origin stands still: of two that tell it so one waits, and
/// the other hears that.
fn under_way(api: &Api, body: &'static str) -> anyhow::Result<Vec<Asked>> {
    let mut waiting = Vec::new();
    for at in 0..VERBS.len() {
        let ask = || {
            let (api, path) = (api.clone(), format!("/v1/disks/{}", disk(at)));
            std::thread::spawn(move || Ok(api.ask("PATCH", &path, body)?.1))
        };
        let two = [ask(), ask()];
        wait_until("a change to be under way", LONG, || {
            Ok(two.iter().any(JoinHandle::is_finished))
        })?;
        for one in two {
            if one.is_finished() {
                let answer = one.join().map_err(|_| anyhow::anyhow!("a thread"))??;
                ensure!(answer == "busy", "{answer}");
            } else {
                waiting.push(one);
            }
        }
    }
    Ok(waiting)
}

#[test]
fn entering() {
    scenario(&TOOLS, |lab| {
        let flash = Flash::format(lab, "flash.img", FLASH_MIB)?;
        let host = Host::new(lab, &flash, "through")?;
        let hearth = host.start()?;
        fill(&hearth, 20)?;
        host.origin.signal(Signal::STOP)?;
        let changes = under_way(&host.api(), r#"{"write_policy":"back"}"#)?;
        compare(&host.api(), "entering", || host.origin.signal(Signal::CONT))?;
        drop(changes);
        hearth.stop().map(drop)
    });
}

#[test]
fn leaving() {
    scenario(&TOOLS, |lab| {
        let flash = Flash::format(lab, "flash.img", FLASH_MIB)?;
        let host = Host::new(lab, &flash, "back")?;
        let hearth = host.start()?;
        fill(&hearth, 20)?;
        host.origin.signal(Signal::STOP)?;
        let changes = under_way(&host.api(), THROUGH)?;
        compare(&host.api(), "leaving", || host.origin.signal(Signal::CONT))?;
        drop(changes);
        hearth.stop().map(drop)
    });
}

#[test]
fn detached() {
    scenario(&TOOLS, |lab| {
        let flash = Flash::format(lab, "flash.img", FLASH_MIB)?;
        let host = Host::new(lab, &flash, "back")?;
        let hearth = host.start()?;
        fill(&hearth, 20)?;
        for at in 0..VERBS.len() {
            hearth.command(&["disk", "detach", &disk(at), "--keep"])?;
        }
        compare(&host.api(), "detached", || Ok(()))?;
        hearth.stop().map(drop)
    });
}

#[test]
fn bypassed() {
    scenario(&TOOLS, |lab| {
        let flash = Flash::format(lab, "flash.img", FLASH_MIB)?;
        std::fs::write(flash.path(), vec![7; 1 << 20])?;
        let host = Host::new(lab, &flash, "back")?;
        let hearth = host.start()?;
        fill(&hearth, 20)?;
        compare(&host.api(), "bypassed", || Ok(()))?;
        hearth.stop().map(drop)
    });
}

#[test]
fn flash_failed() {
    if !can_mount("flash that is pulled out") {
        return;
    }
    scenario(&[MOUNT_TOOLS, &TOOLS].concat(), |lab| {
        let mut weak = WeakFlash::format(lab, FLASH_MIB)?;
        let host = Host::new(lab, &weak.flash, "back")?;
        let hearth = host.start()?;
        // More than waits in memory for its chunk, less than what goes to the origin because of its size.
        fill(&hearth, 1000)?;
        weak.pull();
        for at in 0..VERBS.len() {
            let uri = hearth.uri(&disk(at));
            ensure!(nbdsh(Some(&uri), "h.pread(4096, 0)").is_err());
            ensure!(nbdsh(Some(&uri), "h.pwrite(b'x' * 4096, 0)\nh.flush()").is_err());
        }
        wait_until("the disks to be locked", LONG, || {
            let shown = hearth.json(&["disk", "list"])?;
            let disks = shown["disks"].as_array().context("a list")?;
            Ok(disks
                .iter()
                .all(|disk| disk["write_back"]["state"] == "locked"))
        })?;
        compare(&host.api(), "flash failed", || Ok(()))?;
        hearth.stop().map(drop)
    });
}

#[test]
fn the_book_has_this_table() -> anyhow::Result<()> {
    let chapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/testing.md");
    let chapter = std::fs::read_to_string(chapter)?;
    ensure!(chapter.contains(TABLE), "put into the book:\n{TABLE}");
    Ok(())
}
