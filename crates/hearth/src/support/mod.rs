//! `hearth support bundle`: what is known of a daemon and its host, for those who help.
//!
//! ```text
//!   daemon, files, programs ─► item ─► without secrets ─► archive ─► FILE, mode 0600
//!                               └── cannot be had: left out, with the reason, in manifest.json
//! ```
//!
//! Nothing here waits for ever: whatever does not answer in time is left out, and a daemon that hangs once is not
//! asked again.

mod archive;
pub mod args;
mod items;
mod secrets;

use crate::terminal::exit::{CliError, Exit, chain};
use crate::terminal::{Side, Table, progress, quantity, shown};
use api::client::{Client, ClientError};
use archive::Archive;
use args::Bundle;
use configuration::{ConfigError, Loaded, Setting};
use items::{From, ITEMS, Item};
use secrets::Scrubber;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::process::Command;
use tokio::time::timeout;

/// How long the daemon may take for an answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a program may take: a file system of a server that is gone holds up `df`.
const PROGRAM_TIME_MAX: Duration = Duration::from_secs(10);
/// The most of one item that is taken; of longer ones the end is kept.
const ITEM_BYTES_MAX: usize = 16 << 20;
/// How far the archive is packed: a journal shrinks to a tenth at any level.
const ZSTD_LEVEL: i32 = 6;

/// An item of a bundle, or why it is not there.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    about: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
}

/// What was collected.
#[derive(Debug, Serialize)]
struct Collected {
    file: Option<PathBuf>,
    size_bytes: usize,
    items: Vec<Row>,
}

/// Collects a bundle, or lists what would be in it.
pub(crate) async fn bundle(
    client: &Client,
    asked: &Bundle,
    json: bool,
) -> Result<Vec<u8>, CliError> {
    if asked.list {
        let row = |item: &Item| Row {
            name: item.name,
            about: item.about,
            size_bytes: None,
            left_out: None,
        };
        let list: Vec<Row> = ITEMS.iter().map(row).collect();
        return shown(json, &list, write_list);
    }
    let file = asked.file.clone().unwrap_or_else(default_name);
    let is_packed = is_packed(&file)?;
    // Made first, so that nothing is collected in vain.
    let mut output = create(&file)?;
    let collecting = collect(client, asked);
    let (archive, items) = progress::waiting("collecting".to_owned(), collecting).await;
    let written = pack(archive, is_packed).and_then(|bytes| {
        output.write_all(&bytes)?;
        output.sync_all()?;
        Ok(bytes.len())
    });
    let size_bytes = written.map_err(|error| {
        let _ = std::fs::remove_file(&file);
        CliError::new(
            Exit::Failed,
            format!("cannot write {}: {error}", file.display()),
        )
    })?;
    let collected = Collected {
        file: Some(file),
        size_bytes,
        items,
    };
    shown(json, &collected, write)
}

fn is_packed(file: &Path) -> Result<bool, CliError> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    match () {
        () if name.ends_with(".tar") => Ok(false),
        () if name.ends_with(".tar.zst") => Ok(true),
        () => Err(
            CliError::new(Exit::Usage, format!("{name}: the name tells no format"))
                .with_remedy("a name that ends in .tar or .tar.zst"),
        ),
    }
}

fn create(file: &Path) -> Result<File, CliError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(file).map_err(|error| {
        let exit = match error.kind() {
            io::ErrorKind::AlreadyExists => Exit::Refused,
            _ => Exit::Failed,
        };
        CliError::new(exit, format!("cannot make {}: {error}", file.display()))
            .with_remedy("another name, in a folder that can be written")
    })
}

fn pack(archive: Archive, is_packed: bool) -> io::Result<Vec<u8>> {
    let bytes = archive.finish();
    if is_packed {
        zstd::encode_all(&bytes[..], ZSTD_LEVEL)
    } else {
        Ok(bytes)
    }
}

/// The file in this folder that is called after the host and the time.
fn default_name() -> PathBuf {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    let host: String = host.chars().filter(plain).take(63).collect();
    format!("hearth-support-{host}-{}.tar.zst", now_seconds()).into()
}

fn now_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_secs())
}

async fn collect(client: &Client, asked: &Bundle) -> (Archive, Vec<Row>) {
    let path = asked.config.clone();
    let loading = tokio::task::spawn_blocking(move || configuration::load_with_places(&path));
    let loaded = loading.await.ok();
    let settings = match &loaded {
        Some(Ok(loaded)) => loaded.settings(),
        Some(Err(_)) | None => Vec::new(),
    };
    let mut collector = Collector {
        client,
        scrubber: Scrubber::of(&settings),
        loaded,
        silence: None,
    };
    let mut archive = Archive::new(now_seconds());
    let mut rows = Vec::new();
    for item in ITEMS {
        let content = collector.content(item.from).await;
        let (size_bytes, left_out) = match content {
            Ok(content) => {
                archive.add(&format!("hearth-support/{}", item.name), content.as_bytes());
                (Some(content.len()), None)
            }
            Err(why) => (None, Some(collector.scrubber.text(&why))),
        };
        rows.push(Row {
            name: item.name,
            about: item.about,
            size_bytes,
            left_out,
        });
    }
    let manifest = format!("{:#}\n", json!(rows));
    archive.add("hearth-support/manifest.json", manifest.as_bytes());
    (archive, rows)
}

/// What collects items.
struct Collector<'a> {
    client: &'a Client,
    scrubber: Scrubber,
    loaded: Option<Result<Loaded, ConfigError>>,
    /// Why the daemon is not asked any more.
    silence: Option<String>,
}

impl Collector<'_> {
    /// What belongs into an item, without secrets; or why it is left out.
    async fn content(&mut self, from: From) -> Result<String, String> {
        let text = match from {
            From::Version => format!("hearth {}\n", env!("CARGO_PKG_VERSION")),
            From::Configuration => return self.configuration(),
            From::Answer(path) => {
                let asking = self.client.get::<Value>(path);
                let mut answer = asked(&mut self.silence, asking).await?;
                self.scrubber.json(&mut answer);
                return Ok(format!("{answer:#}\n"));
            }
            From::Text(path) => {
                let asking = self.client.text(path);
                asked(&mut self.silence, asking).await?
            }
            From::Program(words) => printed(words).await?,
            From::File(path) => start_of(Path::new(path)).map_err(|error| error.to_string())?,
            From::Health => health().await?,
        };
        Ok(self.scrubber.text(&text))
    }

    fn configuration(&self) -> Result<String, String> {
        match &self.loaded {
            Some(Ok(loaded)) => {
                let settings = loaded.settings().into_iter();
                let rows: Vec<Value> = settings.map(|setting| self.row(setting)).collect();
                Ok(format!("{:#}\n", json!(rows)))
            }
            Some(Err(error)) => {
                let fault = self.scrubber.text(&chain(error));
                Ok(format!("{:#}\n", json!({ "fault": fault })))
            }
            None => Err("it could not be read".to_owned()),
        }
    }

    fn row(&self, mut setting: Setting) -> Value {
        self.scrubber.setting(&mut setting);
        let place = setting.place.as_ref().map(ToString::to_string);
        let from = place.unwrap_or_else(|| "default".to_owned());
        json!({ "key": setting.key, "value": setting.value, "from": from })
    }
}

/// An answer of the daemon, unless it has been silent before.
async fn asked<T>(
    silence: &mut Option<String>,
    asking: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, String> {
    if let Some(why) = silence {
        return Err(why.clone());
    }
    let why = match timeout(ANSWER_TIME_MAX, asking).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(error @ ClientError::Unreachable { .. })) => error.to_string(),
        Ok(Err(error)) => return Err(chain(&error)),
        Err(_) => format!(
            "the daemon has not answered within {}s",
            ANSWER_TIME_MAX.as_secs()
        ),
    };
    *silence = Some(why.clone());
    Err(why)
}

/// What a program prints, errors included.
async fn printed(words: &[&str]) -> Result<String, String> {
    let [program, arguments @ ..] = words else {
        return Err("no program".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = match timeout(PROGRAM_TIME_MAX, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Err(format!("{program} is not installed"));
        }
        Ok(Err(error)) => return Err(format!("{program}: {error}")),
        Err(_) => {
            let seconds = PROGRAM_TIME_MAX.as_secs();
            return Err(format!("{program} has not ended within {seconds}s"));
        }
    };
    let text = [output.stdout, output.stderr].concat();
    Ok(end_of(&String::from_utf8_lossy(&text)).to_owned())
}

/// What each disk of the host says of its health.
async fn health() -> Result<String, String> {
    let found = printed(&["smartctl", "--scan"]).await?;
    let mut text = found.clone();
    for line in found.lines() {
        if let Some(device) = line
            .split_whitespace()
            .next()
            .filter(|word| word.starts_with("/dev/"))
        {
            text.push_str(&printed(&["smartctl", "--xall", device]).await?);
        }
    }
    Ok(text)
}

fn start_of(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    let most = ITEM_BYTES_MAX as u64;
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last lines of a text that is too long.
fn end_of(text: &str) -> &str {
    let from = text.len().saturating_sub(ITEM_BYTES_MAX);
    &text[text.ceil_char_boundary(from)..]
}

fn write_list(text: &mut String, rows: &Vec<Row>) -> fmt::Result {
    let mut table = Table::new(&[("file", Side::Left), ("what is in it", Side::Left)]);
    for row in rows {
        table.row(vec![row.name.to_owned(), row.about.to_owned()]);
    }
    write!(text, "{table}")
}

fn write(text: &mut String, collected: &Collected) -> fmt::Result {
    let file = collected.file.as_deref().unwrap_or(Path::new(""));
    let size = quantity::bytes(collected.size_bytes as u64);
    writeln!(text, "{} ({size})", file.display())?;
    for row in &collected.items {
        if let Some(why) = &row.left_out {
            writeln!(text, "left out: {} ({why})", row.name)?;
        }
    }
    writeln!(
        text,
        "names of VMs and disks and addresses of hosts are in it: look through it before you give it away"
    )
}
