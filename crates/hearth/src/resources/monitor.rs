//! The loop of `hearth monitor`: reads `/proc`, takes what QEMU and libvirt have said, tells the daemon, and is told which
//! processes to read next.
//!
//! It is a process of its own, since the daemon's unit hides all processes but its own from it.

use super::args::Monitor;
use super::sources::Sources;
use crate::terminal::exit::{CliError, Exit};
use api::client::{Client, ClientError, Method};
use api::resources::Watched;
use monitor::{HostTexts, ProcessReading, Reading};
use std::io::{ErrorKind, Write as _};
use units::Duration;

/// The shortest interval: the kernel counts in hundredths of a second.
const EVERY_MIN: Duration = Duration::from_millis(100);

/// Reads and tells until it is ended.
pub(crate) async fn run(client: &Client, arguments: &Monitor) -> Result<Vec<u8>, CliError> {
    if arguments.every < EVERY_MIN {
        return Err(CliError::new(
            Exit::Usage,
            format!("--every is at least {EVERY_MIN}"),
        ));
    }
    let mut watched = Watched::default();
    let mut due = tokio::time::Instant::now();
    let mut told = None;
    let mut sources = Sources::new(arguments);
    loop {
        let reading = Reading {
            vms: sources.latest().await,
            ..read(&watched)?
        };
        let path = "/v1/resources/readings";
        match client.send(Method::POST, path, Some(&reading)).await {
            Ok(next) => {
                watched = next;
                told = None;
            }
            // The daemon may be started anew: it is told of the next reading.
            Err(error @ ClientError::Unreachable { .. }) => tell_once(&mut told, &error),
            Err(error) => return Err(error.into()),
        }
        due += arguments.every.to_std();
        tokio::time::sleep_until(due).await;
    }
}

/// Says why the daemon is not told, once for each reason.
fn tell_once(told: &mut Option<String>, error: &ClientError) {
    let reason = error.to_string();
    if told.as_ref() != Some(&reason) {
        // Standard error may be closed; the loop goes on all the same.
        let _ = writeln!(std::io::stderr(), "{reason}; trying again");
        *told = Some(reason);
    }
}

fn read(watched: &Watched) -> Result<Reading, CliError> {
    let [uptime, stat, meminfo, net_dev, diskstats] = [
        "/proc/uptime",
        "/proc/stat",
        "/proc/meminfo",
        "/proc/net/dev",
        "/proc/diskstats",
    ]
    .map(text);
    let (uptime, stat, meminfo) = (uptime?, stat?, meminfo?);
    let (net_dev, diskstats) = (net_dev?, diskstats?);
    let texts = HostTexts {
        uptime: &uptime,
        stat: &stat,
        meminfo: &meminfo,
        net_dev: &net_dev,
        diskstats: &diskstats,
    };
    let processes = watched.processes.iter().filter_map(|pid| process(*pid));
    Reading::new(&texts, processes.collect()).map_err(|error| CliError::of(Exit::Failed, &error))
}

fn text(path: &str) -> Result<String, CliError> {
    std::fs::read_to_string(path).map_err(|error| {
        let what = CliError::new(Exit::Failed, format!("{path}: {error}"));
        if error.kind() == ErrorKind::NotFound {
            return what.with_remedy("run it where all of /proc is there: without ProcSubset=pid");
        }
        what
    })
}

/// What a process has used; nothing if it is gone, or cannot be seen.
fn process(pid: i32) -> Option<ProcessReading> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let page = u64::try_from(rustix::param::page_size()).ok()?;
    ProcessReading::new(pid, &stat, page).ok()
}
