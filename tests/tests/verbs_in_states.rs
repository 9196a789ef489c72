//! What each verb of the command line and the admin API answers in each state that a disk can be in, of the
//! real daemon in states that were made for real. The same table is in the book: `book/src/end-to-end-tests.md`.
//!
//! Each verb has a disk of its own in each state, is asked of the admin API, and if it is refused of the
//! command line as well, which has to end with the same word and the exit code that goes with the answer.

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, LONG, Lab, MOUNT_TOOLS, Process, RoamingPair,
    WeakFlash, can_mount, links_to_nobody, nbdsh, scenario, wait_until,
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
const FLASH_MIB: u64 = 1536;

/// How a verb is asked.
#[derive(Clone, Copy)]
enum Ask {
    /// Of the admin API: method and path, and the body.
    Api(&'static str, &'static str),
    /// Of the admin API, with the body of an attachment.
    Attach,
    /// Of the admin API, with the body of a recording.
    Record,
    /// Of the command line alone, since it does not use the API, or only parts of it.
    Command,
}

/// A verb: its words behind `hearth`, and how it is asked. `NAME` is a disk of its own, which is its VM
/// as well; other words in capitals are files.
struct Verb(&'static str, Ask);

const fn api(words: &'static str, request: &'static str) -> Verb {
    Verb(words, Ask::Api(request, ""))
}

const fn sent(words: &'static str, request: &'static str, body: &'static str) -> Verb {
    Verb(words, Ask::Api(request, body))
}

const fn command(words: &'static str) -> Verb {
    Verb(words, Ask::Command)
}

const THROUGH: &str = r#"{"write_policy":"through"}"#;
/// What a monitor says of a host.
const READING: &str = r#"{"uptime_seconds":1.0,"host":{"cpu_busy_seconds":1.0,"cpu_seconds":2.0,"memory_bytes":1,"memory_available_bytes":1,"network_bytes":0,"network_packets":0,"disk_bytes":0},"processes":[]}"#;
const LARGER: &str = r#"{"write_back":{"dirty_max":"17MiB"}}"#;

/// Every verb that talks to the daemon or touches its files.
const VERBS: &[Verb] = &[
    api("disk show NAME", "GET /v1/disks/NAME"),
    Verb("disk attach NAME --origin ORIGIN", Ask::Attach),
    api(
        "disk attach NAME --without-store",
        "POST /v1/disks/NAME/attach?without_store=true",
    ),
    sent(
        "disk set NAME --write-policy through",
        "PATCH /v1/disks/NAME",
        THROUGH,
    ),
    sent(
        "disk set NAME --dirty-max 17MiB",
        "PATCH /v1/disks/NAME",
        LARGER,
    ),
    api("disk set NAME --reset", "DELETE /v1/disks/NAME/settings"),
    api("disk drop NAME", "POST /v1/disks/NAME/drop"),
    api("disk resize NAME", "POST /v1/disks/NAME/resize"),
    api(
        "disk flush NAME --wait",
        "POST /v1/disks/NAME/flush?wait=true",
    ),
    api("disk barrier NAME", "POST /v1/disks/NAME/barrier"),
    api("disk detach NAME", "DELETE /v1/disks/NAME"),
    api(
        "disk detach NAME --keep",
        "DELETE /v1/disks/NAME?dirty=keep",
    ),
    api(
        "disk detach NAME --flush",
        "DELETE /v1/disks/NAME?dirty=flush",
    ),
    api(
        "disk detach NAME --flush --erase",
        "DELETE /v1/disks/NAME?dirty=flush&erase=true",
    ),
    api(
        "disk detach NAME --erase",
        "DELETE /v1/disks/NAME?erase=true",
    ),
    api(
        "disk detach NAME --drop-dirty --yes-lose-data",
        "DELETE /v1/disks/NAME?dirty=drop&yes_lose_data=true",
    ),
    api("disk list", "GET /v1/disks"),
    command("xml --disk NAME"),
    command("adopt --domain DOMAIN_OF_NAME"),
    command("hook prepare --domain DOMAIN_OF_NAME"),
    command("hook release --domain DOMAIN_OF_NAME"),
    api("migrate list", "GET /v1/roaming"),
    api("migrate show NAME", "GET /v1/roaming/NAME"),
    command("migrate check NAME --here"),
    command("migrate prepare NAME --here"),
    command("migrate set NAME --strategy none"),
    command("migrate abort NAME"),
    api(
        "migrate take NAME --yes-its-owner-is-dead",
        "POST /v1/roaming/NAME/take?yes_its_owner_is_dead=true",
    ),
    api(
        "migrate take NAME --yes-its-owner-is-dead --lose-dirty",
        "POST /v1/roaming/NAME/take?yes_its_owner_is_dead=true&lose_dirty=true",
    ),
    api("vm list", "GET /v1/vms"),
    api("vm show NAME", "GET /v1/vms/NAME"),
    sent(
        "vm set NAME --weight 200",
        "PATCH /v1/vms/NAME",
        r#"{"weight":200}"#,
    ),
    api("vm set NAME --reset", "DELETE /v1/vms/NAME/settings"),
    sent(
        "cache set flash --hysteresis 0.2",
        "PATCH /v1/caches/flash/policy",
        r#"{"hysteresis":0.2}"#,
    ),
    api(
        "cache set flash --reset",
        "DELETE /v1/caches/flash/settings",
    ),
    sent(
        "cache scrub flash --rate 1MiB",
        "POST /v1/caches/flash/scrub",
        r#"{"rate":"1MiB"}"#,
    ),
    api("cache scrub flash --stop", "DELETE /v1/caches/flash/scrub"),
    api("cache health", "GET /v1/drives"),
    api("overview", "GET /v1/overview"),
    api("status", "GET /v1/status"),
    api("reload", "POST /v1/reload"),
    command("top --once --interval 200ms"),
    api("resources", "GET /v1/resources"),
    api("cluster status", "GET /v1/cluster"),
    api("cluster settings", "GET /v1/cluster/settings"),
    sent(
        "cluster set --mode advise",
        "POST /v1/cluster/settings",
        r#"{"mode":"advise"}"#,
    ),
    api("events", "GET /v1/events"),
    api("move list", "GET /v1/cluster/moves"),
    api("move show NAME", "GET /v1/cluster/moves/NAME"),
    sent(
        "move start NAME --to HOST",
        "POST /v1/cluster/moves/NAME",
        r#"{"to":"HOST"}"#,
    ),
    api("move approve NAME", "POST /v1/cluster/moves/NAME/approve"),
    api("move cancel NAME", "POST /v1/cluster/moves/NAME/cancel"),
    api("move clear NAME", "POST /v1/cluster/moves/NAME/clear"),
    api(
        "group run --traffic CSV --vms CSV --link-rate 1Gbit --to HOST",
        "GET /v1/cluster",
    ),
    api("plan --dry-run", "GET /v1/cluster/loads"),
    sent("monitor", "POST /v1/resources/readings", READING),
    api("advise --host", "GET /v1/advice"),
    Verb("trace record -o TRACE --disk NAME", Ask::Record),
    api("trace record --status", "GET /v1/recording"),
    api("trace record --stop", "DELETE /v1/recording"),
    command("support bundle --list"),
    command("serve --config CONFIG --check-config"),
    command("serve --config CONFIG"),
    command("cache check FLASH"),
    command("cache format FLASH --force --config CONFIG"),
    command("recover list FLASH --config CONFIG"),
    command("recover verify FLASH --config CONFIG"),
    command("recover export FLASH --config CONFIG --disk NAME --to TRACE"),
    command("recover destage FLASH --config CONFIG --disk NAME"),
    command("recover drop FLASH --config CONFIG --disk NAME --yes-lose-data"),
];

/// The table, as the book has it: a row for each verb, a column for each state. An answer is `done`, or the
/// code of the problem; with `later` in front it comes only when the origin goes on.
const TABLE: &str = "\
| verb | attached | waiting | entering | leaving | roaming | standby | detached | bypassed | flash failed | daemon stopped |
|---|---|---|---|---|---|---|---|---|---|---|
| `disk show NAME` | done | done | done | done | done | done | no-such-disk | done | done | unreachable |
| `disk attach NAME --origin ORIGIN` | already-attached | already-attached | already-attached | already-attached | already-attached | already-attached | done | already-attached | already-attached | unreachable |
| `disk attach NAME --without-store` | already-attached | refused | already-attached | already-attached | already-attached | refused | no-such-disk | already-attached | already-attached | unreachable |
| `disk set NAME --write-policy through` | done | done | busy | busy | done | refused | no-such-disk | done | refused | unreachable |
| `disk set NAME --dirty-max 17MiB` | done | done | done | done | done | refused | no-such-disk | done | done | unreachable |
| `disk set NAME --reset` | done | done | busy | busy | done | refused | no-such-disk | done | done | unreachable |
| `disk drop NAME` | dirty | not-ready | done | dirty | dirty | refused | no-such-disk | done | dirty | unreachable |
| `disk resize NAME` | done | not-ready | later done | later done | refused | refused | no-such-disk | done | done | unreachable |
| `disk flush NAME --wait` | done | not-ready | later done | later done | done | refused | no-such-disk | done | refused | unreachable |
| `disk barrier NAME` | done | not-ready | later done | later done | done | refused | no-such-disk | done | refused | unreachable |
| `disk detach NAME` | dirty | done | later done | dirty | refused | refused | no-such-disk | done | dirty | unreachable |
| `disk detach NAME --keep` | done | done | later done | later done | refused | refused | no-such-disk | done | done | unreachable |
| `disk detach NAME --flush` | done | not-ready | later done | later done | refused | refused | no-such-disk | done | refused | unreachable |
| `disk detach NAME --flush --erase` | done | not-ready | later done | later done | refused | refused | no-such-disk | done | refused | unreachable |
| `disk detach NAME --erase` | dirty | not-ready | later done | dirty | refused | refused | no-such-disk | done | dirty | unreachable |
| `disk detach NAME --drop-dirty --yes-lose-data` | done | not-ready | later done | later done | refused | refused | no-such-disk | done | done | unreachable |
| `disk list` | done | done | done | done | done | done | done | done | done | unreachable |
| `xml --disk NAME` | done | done | done | done | done | done | no-such-disk | done | done | unreachable |
| `adopt --domain DOMAIN_OF_NAME` | done | done | done | done | done | done | done | done | done | done |
| `hook prepare --domain DOMAIN_OF_NAME` | refused | refused | refused | refused | refused | refused | done | refused | refused | refused |
| `hook release --domain DOMAIN_OF_NAME` | done | done | done | done | done | done | done | done | done | done |
| `migrate list` | done | done | done | done | done | done | done | done | done | unreachable |
| `migrate show NAME` | refused | refused | refused | refused | done | done | no-such-disk | refused | refused | unreachable |
| `migrate check NAME --here` | refused | refused | refused | refused | refused | refused | no-such-disk | refused | refused | unreachable |
| `migrate prepare NAME --here` | refused | refused | refused | refused | refused | refused | no-such-disk | refused | refused | unreachable |
| `migrate set NAME --strategy none` | refused | refused | refused | refused | done | done | no-such-disk | refused | refused | unreachable |
| `migrate abort NAME` | refused | refused | refused | refused | done | done | no-such-disk | refused | refused | unreachable |
| `migrate take NAME --yes-its-owner-is-dead` | refused | refused | refused | refused | refused | dirty | no-such-disk | refused | refused | unreachable |
| `migrate take NAME --yes-its-owner-is-dead --lose-dirty` | refused | refused | refused | refused | refused | done | no-such-disk | refused | refused | unreachable |
| `vm list` | done | done | done | done | done | done | done | done | done | unreachable |
| `vm show NAME` | done | done | done | done | done | done | no-such-vm | done | done | unreachable |
| `vm set NAME --weight 200` | done | done | done | done | done | done | no-such-vm | done | done | unreachable |
| `vm set NAME --reset` | done | done | done | done | done | done | no-such-vm | done | done | unreachable |
| `cache set flash --hysteresis 0.2` | done | done | done | done | done | done | done | done | done | unreachable |
| `cache set flash --reset` | done | done | done | done | done | done | done | done | done | unreachable |
| `cache scrub flash --rate 1MiB` | done | done | done | done | done | done | done | refused | refused | unreachable |
| `cache scrub flash --stop` | done | done | done | done | done | done | done | done | done | unreachable |
| `cache health` | done | done | done | done | done | done | done | done | done | unreachable |
| `overview` | done | done | done | done | done | done | done | done | done | unreachable |
| `status` | done | done | done | done | done | done | done | done | done | unreachable |
| `reload` | done | done | done | done | done | done | done | done | done | unreachable |
| `top --once --interval 200ms` | done | done | done | done | done | done | done | done | done | unreachable |
| `resources` | done | done | done | done | done | done | done | done | done | unreachable |
| `cluster status` | refused | refused | refused | refused | refused | refused | refused | refused | refused | unreachable |
| `cluster settings` | refused | refused | refused | refused | refused | refused | refused | refused | refused | unreachable |
| `cluster set --mode advise` | refused | refused | refused | refused | refused | refused | refused | refused | refused | unreachable |
| `events` | done | done | done | done | done | done | done | done | done | unreachable |
| `move list` | refused | refused | refused | refused | refused | refused | refused | refused | refused | unreachable |
| `move show NAME` | refused | refused | refused | refused | refused | refused | refused | refused | refused | unreachable |
| `move start NAME --to HOST` | refused | refused | refused | refused | refused | refused | refused | refused | refused | unreachable |
| `move approve NAME` | refused | refused | refused | refused | refused | refused | refused | refused | refused | unreachable |
| `move cancel NAME` | refused | refused | refused | refused | refused | refused | refused | refused | refused | unreachable |
| `move clear NAME` | refused | refused | refused | refused | refused | refused | refused | refused | refused | unreachable |
| `group run --traffic CSV --vms CSV --link-rate 1Gbit --to HOST` | refused | refused | refused | refused | refused | refused | refused | refused | refused | unreachable |
| `plan --dry-run` | refused | refused | refused | refused | refused | refused | refused | refused | refused | unreachable |
| `monitor` | done | done | done | done | done | done | done | done | done | - |
| `advise --host` | done | done | done | done | done | done | done | done | done | unreachable |
| `trace record -o TRACE --disk NAME` | done | done | done | done | done | done | no-such-disk | done | done | unreachable |
| `trace record --status` | done | done | done | done | done | done | not-recording | done | done | unreachable |
| `trace record --stop` | done | done | done | done | done | done | not-recording | done | done | unreachable |
| `support bundle --list` | done | done | done | done | done | done | done | done | done | done |
| `serve --config CONFIG --check-config` | done | done | done | done | done | done | done | usage | usage | done |
| `serve --config CONFIG` | refused | refused | refused | refused | refused | refused | refused | refused | refused | - |
| `cache check FLASH` | refused | refused | refused | refused | refused | refused | refused | damaged | failed | done |
| `cache format FLASH --force --config CONFIG` | refused | refused | refused | refused | refused | refused | refused | done | failed | refused |
| `recover list FLASH --config CONFIG` | refused | refused | refused | refused | refused | refused | refused | refused | refused | done |
| `recover verify FLASH --config CONFIG` | refused | refused | refused | refused | refused | refused | refused | refused | refused | done |
| `recover export FLASH --config CONFIG --disk NAME --to TRACE` | refused | refused | refused | refused | refused | refused | refused | refused | refused | done |
| `recover destage FLASH --config CONFIG --disk NAME` | refused | refused | refused | refused | refused | refused | refused | refused | refused | done |
| `recover drop FLASH --config CONFIG --disk NAME --yes-lose-data` | refused | refused | refused | refused | refused | refused | refused | refused | refused | done |
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

/// A host with a disk for each verb that wants one, each on an export of one origin.
struct Host<'a> {
    lab: &'a Lab,
    flash: PathBuf,
    origin: Process,
    socket: PathBuf,
    settings: HearthSettings,
}

/// The verbs that have a disk of their own.
fn disks() -> impl Iterator<Item = usize> {
    (0..VERBS.len()).filter(|at| VERBS[*at].0.contains("NAME"))
}

/// Whether a verb waits for the one before it: they are about one thing.
fn is_in_order(verb: &Verb) -> bool {
    let Verb(words, _) = verb;
    words.starts_with("trace") || words.contains("FLASH") || words.contains("CONFIG")
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
        for at in disks() {
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
        for at in disks() {
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
            flash: flash.path().to_owned(),
            origin,
            socket,
            settings,
        })
    }

    /// The settings of a host with this link to which the disks roam, with the same files as their origins.
    fn roaming(&self, flash: &Flash, link: &str) -> HearthSettings {
        let all = HearthSettings::new(flash).section(link);
        disks().fold(all, |all, at| {
            let path = self.lab.path("exports").join(disk(at));
            let held = "age_max = '1000s', idle_after = '1000s'";
            let one = DiskSettings::on_file(&disk(at), &path)
                .key(&format!("id = '{at:032x}'"))
                .key("roams = true\nwrite_policy = 'back'")
                .key(&format!(
                    "write_back = {{ dirty_max = '{LOG_MIB}MiB', {held} }}"
                ));
            all.disk(&one)
        })
    }

    fn start(&self) -> anyhow::Result<Hearth> {
        Hearth::start(self.lab, &self.settings)
    }

    fn api(&self) -> Api {
        Api {
            folder: self.lab.path(""),
            flash: self.flash.clone(),
            origin: self.socket.clone(),
        }
    }
}

/// Writes some blocks of each disk.
fn fill(hearth: &Hearth, blocks: u64) -> anyhow::Result<()> {
    let uris: Vec<String> = disks().map(|at| hearth.uri(&disk(at))).collect();
    let script = format!(
        "import nbd\nfor uri in {uris:?}:\n    h = nbd.NBD()\n    h.connect_uri(uri)\n    \
         for b in range({blocks}):\n        h.pwrite(bytes([b % 251, 8]) * 2048, b * 4096)\n    \
         h.flush()\n    h.shutdown()\n"
    );
    nbdsh(None, &script).map(drop)
}

/// The admin API and the command line.
#[derive(Clone)]
struct Api {
    folder: PathBuf,
    flash: PathBuf,
    origin: PathBuf,
}

impl Api {
    /// What a request is answered with: its status, and `done` or the problem's code.
    fn ask(&self, method: &str, path: &str, body: &str) -> anyhow::Result<(u16, String)> {
        let mut socket = UnixStream::connect(self.folder.join("admin.sock"))?;
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

    /// What a verb is answered with.
    fn verb(&self, at: usize) -> anyhow::Result<String> {
        let (name, file) = (disk(at), self.file(at));
        let (status, code) = match VERBS[at].1 {
            Ask::Api(request, body) => {
                let (method, path) = request.split_once(' ').context("a method and a path")?;
                self.ask(method, &path.replace("NAME", &name), body)?
            }
            Ask::Attach => {
                let body = serde_json::json!({
                    "name": name, "origin": { "nbd": uri(&self.origin, at) }, "write_policy": "back",
                    "write_back": { "dirty_max": format!("{LOG_MIB}MiB") },
                });
                self.ask("POST", "/v1/disks", &body.to_string())?
            }
            Ask::Record => {
                let body = serde_json::json!({ "output": file, "disks": [name] });
                self.ask("POST", "/v1/recording", &body.to_string())?
            }
            Ask::Command => return self.command(at).map(|(_, kind)| kind),
        };
        if code != "done" {
            self.same_on_the_command_line(at, status, &code)?;
        }
        Ok(code)
    }

    /// The command line is refused with the same word, and ends with the exit code that goes with it.
    fn same_on_the_command_line(&self, at: usize, status: u16, code: &str) -> anyhow::Result<()> {
        let expected = match status {
            400 => 2,
            404 => 6,
            409 | 503 => 4,
            _ => 1,
        };
        let words = VERBS[at].0;
        let (exit, kind) = self.command(at)?;
        ensure!(
            exit == expected && kind == code,
            "{words}: {status} {code} and exit code {exit} {kind}"
        );
        Ok(())
    }

    /// How the command line ends, and `done` or the kind of its error.
    fn command(&self, at: usize) -> anyhow::Result<(i32, String)> {
        // Traffic and loads of a group at once: its VM talks to one called 1, and has 1 byte.
        let group = self.folder.join(format!("group-{at}.csv"));
        std::fs::write(&group, format!("{},1,1\n", disk(at)))?;
        self.write_domain(at)?;
        let place = |word: &str| match word {
            "NAME" => disk(at),
            "ORIGIN" => uri(&self.origin, at),
            "TRACE" => self.file(at),
            "FLASH" => self.flash.display().to_string(),
            "CONFIG" => self.folder.join("hearth.toml").display().to_string(),
            "CSV" => group.display().to_string(),
            "DOMAIN_OF_NAME" => self
                .folder
                .join(format!("domain-{at}.xml"))
                .display()
                .to_string(),
            word => word.to_owned(),
        };
        let socket = self.folder.join("admin.sock").display().to_string();
        let words: Vec<String> = VERBS[at].0.split(' ').map(place).collect();
        let words = words.iter().map(String::as_str);
        let words: Vec<&str> = ["--socket", &socket, "--json"]
            .into_iter()
            .chain(words)
            .collect();
        let exit = e2e::hearth(&words)?;
        if exit.code == 0 {
            return Ok((0, "done".to_owned()));
        }
        let error: serde_json::Value =
            serde_json::from_str(exit.stderr.lines().last().unwrap_or_default())
                .with_context(|| format!("{words:?}: {}", exit.stderr))?;
        let kind = error["kind"].as_str().context("a kind")?.to_owned();
        Ok((exit.code, kind))
    }

    /// A domain of libvirt whose disk is on Hearth, at a socket of its own.
    fn write_domain(&self, at: usize) -> anyhow::Result<()> {
        let (name, origin) = (disk(at), uri(&self.origin, at));
        let socket = self.folder.join(format!("{name}.nbd.sock"));
        let xml = format!(
            "<domain><name>{name}</name><metadata><hearth:disks xmlns:hearth='urn:hearth:libvirt:1'>\
             <hearth:disk target='vda' name='{name}' vm='{name}' origin='{origin}' via='nbd' socket='{}'/>\
             </hearth:disks></metadata><devices><disk><target dev='vda'/></disk></devices></domain>",
            socket.display()
        );
        std::fs::write(self.folder.join(format!("domain-{at}.xml")), xml)?;
        Ok(())
    }

    /// Where a trace of this verb goes.
    fn file(&self, at: usize) -> String {
        self.folder
            .join(format!("file-{at}.csv"))
            .display()
            .to_string()
    }
}

type Asked = JoinHandle<anyhow::Result<String>>;
type Answers = JoinHandle<anyhow::Result<Vec<String>>>;

/// Asks every verb that the state allows, each of its disk, and compares with the table. `go_on` lets the
/// origin go on, if it stands still.
fn compare(
    api: &Api,
    state: &str,
    go_on: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let expected = VERBS.iter().map(|verb| expected(state, verb.0));
    let expected: Vec<&str> = expected.collect::<anyhow::Result<_>>()?;
    let all = (0..VERBS.len()).filter(|at| expected[*at] != "-");
    let (in_order, at_once): (Vec<usize>, Vec<usize>) =
        all.partition(|at| is_in_order(&VERBS[*at]));
    let mut groups: Vec<Vec<usize>> = at_once.into_iter().map(|at| vec![at]).collect();
    groups.push(in_order);
    let ask = |group: &Vec<usize>| -> Answers {
        let (api, group) = (api.clone(), group.clone());
        std::thread::spawn(move || group.iter().map(|at| api.verb(*at)).collect())
    };
    let asked: Vec<Answers> = groups.iter().map(ask).collect();
    let is_later = |group: &[usize]| group.iter().any(|at| expected[*at].starts_with("later "));
    let all_now = wait_until("answers without the origin", LONG, || {
        let mut both = groups.iter().zip(&asked);
        Ok(both.all(|(group, asked)| is_later(group) || asked.is_finished()))
    });
    let finished: Vec<bool> = asked.iter().map(JoinHandle::is_finished).collect();
    go_on()?;
    let mut wrong = String::new();
    for ((group, asked), finished) in groups.iter().zip(asked).zip(finished) {
        let answers = asked.join().map_err(|_| anyhow::anyhow!("a thread"))??;
        for (at, answer) in group.iter().zip(answers) {
            let answer = if finished {
                answer
            } else {
                format!("later {answer}")
            };
            if answer != expected[*at] {
                writeln!(wrong, "{}: {answer}, not {}", VERBS[*at].0, expected[*at])?;
            }
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
        let names = disks().map(disk);
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
    for at in disks() {
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
        host.origin.pause()?;
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
        host.origin.pause()?;
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
        for at in disks() {
            hearth.command(&["disk", "detach", &disk(at), "--keep"])?;
        }
        compare(&host.api(), "detached", || Ok(()))?;
        hearth.stop().map(drop)
    });
}

#[test]
fn roaming_and_standby() {
    scenario(&[TOOLS.as_slice(), RoamingPair::TOOLS].concat(), |lab| {
        let links = links_to_nobody(lab)?;
        let flash = Flash::format(lab, "flash.img", FLASH_MIB)?;
        let host = Host::new(lab, &flash, "back")?;
        let hearth = Hearth::start(lab, &host.roaming(&flash, &links[0]))?;
        let are_all = |hearth: &Hearth, state: &str| {
            let shown = hearth.json(&["disk", "list"])?;
            let disks = shown["disks"].as_array().context("a list")?;
            Ok(disks.iter().all(|disk| disk["state"] == state))
        };
        wait_until("the disks to be here", LONG, || {
            are_all(&hearth, "attached")
        })?;
        fill(&hearth, 20)?;
        compare(&host.api(), "roaming", || Ok(()))?;
        hearth.stop()?;
        for at in 0..VERBS.len() {
            // What was recorded is not to be in the way of the next recording.
            let _ = std::fs::remove_file(host.api().file(at));
        }
        // The same state folder and flash under the peer's name: what the first host has is elsewhere.
        let hearth = Hearth::start(lab, &host.roaming(&flash, &links[1]))?;
        wait_until("the disks to stand by", LONG, || {
            are_all(&hearth, "standby")
        })?;
        compare(&host.api(), "standby", || Ok(()))?;
        hearth.stop().map(drop)
    });
}

#[test]
fn bypassed() {
    scenario(&TOOLS, |lab| {
        let flash = Flash::format(lab, "flash.img", FLASH_MIB)?;
        std::fs::write(flash.path(), vec![7; 1 << 20])?;
        let file = std::fs::File::options().write(true).open(flash.path())?;
        file.set_len(FLASH_MIB << 20)?;
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
        for at in disks() {
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
fn daemon_stopped() {
    scenario(&TOOLS, |lab| {
        let flash = Flash::format(lab, "flash.img", FLASH_MIB)?;
        let host = Host::new(lab, &flash, "back")?;
        let hearth = host.start()?;
        fill(&hearth, 20)?;
        hearth.stop()?;
        let api = host.api();
        let mut wrong = String::new();
        for (at, verb) in VERBS.iter().enumerate() {
            let wanted = expected("daemon stopped", verb.0)?;
            if wanted != "-" {
                let (_, answer) = api.command(at)?;
                if answer != wanted {
                    writeln!(wrong, "{}: {answer}, not {wanted}", verb.0)?;
                }
            }
        }
        ensure!(wrong.is_empty(), "daemon stopped:\n{wrong}");
        Ok(())
    });
}

#[test]
fn the_book_has_this_table() -> anyhow::Result<()> {
    let chapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/end-to-end-tests.md");
    let chapter = std::fs::read_to_string(chapter)?;
    ensure!(chapter.contains(TABLE), "put into the book:\n{TABLE}");
    Ok(())
}
