//! `hearth traffic`: who talks to whom, by the crate `traffic`; its csv is what `hearth group plan` reads.

mod agents;

use crate::terminal::exit::{CliError, Exit, chain};
use crate::terminal::{Progress, to_json};
use agents::Agents;
use api::client::{Client, ClientError};
use clap::{ArgGroup, Args, ValueHint};
use groups::TrafficMatrix;
use serde::Serialize;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use traffic::collect::{CollectError, Collected, Source, collect};
use traffic::{Addresses, ConntrackError};
use units::Duration;

/// Arguments of `traffic`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("source").required(true)))]
pub struct Traffic {
    /// Which VM has which address: csv lines of a VM and a MAC or IP address, as many lines a VM as it has
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub addresses: PathBuf,
    /// Receive sFlow version 5 at this address, as Open vSwitch, switches and hsflowd send it: 0.0.0.0:6343
    #[arg(long, value_name = "ADDRESS:PORT", group = "source")]
    pub sflow: Option<SocketAddr>,
    /// Read the kernel's table of connections, which needs `net.netfilter.nf_conntrack_acct=1` and `CAP_NET_ADMIN`
    #[arg(long, value_name = "FILE", group = "source", num_args = 0..=1, default_missing_value = "/proc/net/nf_conntrack")]
    #[arg(value_hint = ValueHint::FilePath)]
    pub conntrack: Option<PathBuf>,
    /// Ask the daemon what the agents in the guests of this host say, which run with --sockets; needs `guest.sockets` in its
    /// configuration
    #[arg(long, group = "source")]
    pub agents: bool,
    /// How long traffic is collected
    #[arg(long = "for", value_name = "TIME", default_value = "5min", value_parser = span)]
    pub total: Duration,
    /// How often it is summed up, the table of connections read, and the daemon asked
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    pub interval: Duration,
}

fn span(text: &str) -> Result<Duration, String> {
    let span: Duration = text.parse().map_err(|error| format!("{error}"))?;
    let range = Duration::from_millis(100)..=Duration::from_secs(366 * 86_400);
    if range.contains(&span) {
        return Ok(span);
    }
    Err("write a time from 100ms to a year".to_owned())
}

/// The answer as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    pairs: Vec<Pair<'a>>,
    /// Bytes with an end that is no VM of the table.
    unknown_bytes: u64,
    /// Datagrams, readings of the table, or reports of agents.
    taken: u64,
    refused: u64,
}

#[derive(Serialize)]
struct Pair<'a> {
    vms: [&'a str; 2],
    bytes_per_second: f64,
}

/// Collects and returns what to print.
pub(crate) fn run(client: &Client, asked: &Traffic, json: bool) -> Result<Vec<u8>, CliError> {
    let addresses = addresses(&asked.addresses)?;
    let agents = Agents::new(client)?;
    let mut ask = || agents.said();
    let (source, things) = match (&asked.sflow, &asked.conntrack) {
        (Some(address), _) => (Source::Sflow(*address), "datagrams"),
        (None, Some(path)) => (Source::Conntrack(path.clone()), "readings"),
        (None, None) if asked.agents => (Source::Agents(&mut ask), "reports"),
        (None, None) => {
            return Err(CliError::new(Exit::Usage, "no source was given")
                .with_remedy("--sflow 0.0.0.0:6343"));
        }
    };
    let mut progress = Progress::new("listening");
    let (interval, total) = (asked.interval.to_std(), asked.total.to_std());
    let found = collect(source, &addresses, interval, total, &mut |taken| {
        progress.count_of(taken, things);
    });
    drop(progress);
    let found = found.map_err(refused)?;
    if found.taken == 0 {
        return Err(nothing(asked));
    }
    let pairs = pairs(&found.traffic);
    if json {
        return to_json(&Answer {
            pairs,
            unknown_bytes: found.unknown_bytes,
            taken: found.taken,
            refused: found.refused,
        });
    }
    Ok(csv(&pairs, &found, things).into_bytes())
}

fn addresses(path: &Path) -> Result<Addresses, CliError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        CliError::new(
            Exit::Failed,
            format!("{} cannot be read: {}", path.display(), chain(&error)),
        )
    })?;
    Addresses::parse(&text).map_err(|error| {
        CliError::new(Exit::Usage, format!("{}: {error}", path.display()))
            .with_remedy("lines such as web1,52:54:00:12:34:56 or web1,10.0.0.5")
    })
}

/// Nobody has told anything.
fn nothing(asked: &Traffic) -> CliError {
    let (what, remedy) = if asked.agents {
        (
            "no agent in a guest said whom it speaks with",
            "let hearth-guest run with --sockets in the guests: hearth vm show NAME says whether one speaks; or a longer --for",
        )
    } else {
        (
            "no sFlow datagram came",
            "let hsflowd, Open vSwitch or the switch send to this address, or a longer --for",
        )
    };
    let message = format!("{what} in {}", asked.total);
    CliError::new(Exit::Failed, message).with_remedy(remedy)
}

fn refused(error: CollectError) -> CliError {
    let told = CliError::of(Exit::Failed, &error);
    match error {
        CollectError::Agents(why) => match why.downcast::<ClientError>() {
            Ok(why) => CliError::from(*why),
            Err(_) => told,
        },
        CollectError::Socket { .. } => {
            told.with_remedy("an address of this host, and a port that nobody uses")
        }
        CollectError::Table { .. } => {
            told.with_remedy("modprobe nf_conntrack, and root or CAP_NET_ADMIN")
        }
        CollectError::Conntrack(ConntrackError::NoCounts) | CollectError::Traffic(_) => told,
    }
}

/// The pairs that talk, the most first.
fn pairs(traffic: &TrafficMatrix) -> Vec<Pair<'_>> {
    let mut pairs = Vec::new();
    for (one, name) in traffic.names().iter().enumerate() {
        for (other, rate) in traffic.row(one).iter().enumerate().skip(one + 1) {
            if *rate > 0.0 {
                pairs.push(Pair {
                    vms: [name, &traffic.names()[other]],
                    bytes_per_second: *rate,
                });
            }
        }
    }
    pairs.sort_by(|one, other| other.bytes_per_second.total_cmp(&one.bytes_per_second));
    pairs
}

fn csv(pairs: &[Pair<'_>], found: &Collected, things: &str) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "# {} {things}, {} refused; {} bytes with an end that is none of the VMs\nvm,vm,bytes_per_second",
        found.taken, found.refused, found.unknown_bytes
    );
    for pair in pairs {
        let _ = writeln!(
            out,
            "{},{},{:.1}",
            pair.vms[0], pair.vms[1], pair.bytes_per_second
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_csv_is_what_a_plan_reads() {
        let traffic = TrafficMatrix::from_pairs([("a", "b", 5.0), ("b", "c", 900.0)]).unwrap();
        let found = Collected {
            traffic: traffic.clone(),
            unknown_bytes: 7,
            taken: 3,
            refused: 1,
        };
        let text = csv(&pairs(&traffic), &found, "datagrams");
        assert!(text.contains("\nb,c,900.0\na,b,5.0\n"), "{text}");
        let read = groups::csv::traffic(&text).unwrap();
        assert!((read.total() - 905.0).abs() < 1e-9);
    }
}
