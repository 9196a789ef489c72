//! The command line: one definition from which parsing, help, man pages, completions and the
//! book's page are made.

use super::adopt::args::Adopt;
use super::caches::Set;
use super::disks::args::Disk;
use super::health::HealthOf;
use super::hook::args::Hook;
use super::migrate::args::Migrate;
use super::recover::args::Recover;
use super::scrub::Scrub;
use super::vms::args::Vm;
use crate::advise::args::Advise;
use crate::bench::args::Bench;
use crate::cluster::args::Cluster;
use crate::config::args::Config;
use crate::event_log::args::EventsArgs;
use crate::group::args::Group;
use crate::moves::args::Move;
use crate::mrc::args::Mrc;
use crate::operator::args::Operator;
use crate::plan::args::Plan;
use crate::resources::args::{Monitor, Resources};
use crate::sim::args::Sim;
use crate::support::args::Support;
use crate::terminal::exit::EXIT_CODES;
use crate::top::args::Top;
use crate::traces::args::Trace;
use crate::traffic::Traffic;
use crate::xml::Xml;
use clap::{Args, Parser, Subcommand, ValueHint};
use configuration::{ADMIN_SOCKET_DEFAULT, CONFIG_DEFAULT, LogFormat};
use std::path::PathBuf;
use units::Bytes;

/// Keeps the disks of virtual machines warm on the flash of their host.
#[derive(Debug, Parser)]
#[command(name = "hearth", version, propagate_version = true, after_help = EXIT_CODES)]
#[command(
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// The daemon's admin socket
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        env = "HEARTH_SOCKET",
        hide_env_values = true
    )]
    #[arg(default_value = ADMIN_SOCKET_DEFAULT, value_hint = ValueHint::FilePath)]
    pub socket: PathBuf,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub json: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the disks of a configuration
    ///
    /// Runs in the foreground until SIGTERM or SIGINT, which stop it cleanly: clients get their
    /// answers, the flash is left in the state that restarts warmest. A second signal ends it at
    /// once; the next start then recovers. SIGUSR2 has the daemon become the program that lies at its
    /// path now, with its listening sockets, if that program finds the configuration sound:
    /// clients wait meanwhile. SIGHUP is logged and ignored: `hearth reload` reads
    /// the configuration again and says what came of it.
    Serve(Serve),
    /// Show what holds of a configuration and where it is written
    #[command(subcommand, arg_required_else_help = true)]
    Config(Config),
    /// Have the daemon read its configuration again, and apply what can change without a restart
    ///
    /// What is logged, policies of caches, settings of VMs, write policies of disks, disks that are new and disks that are no
    /// more: a disk goes only if no client uses it and its origin lacks nothing. Each other key that differs is named, and holds
    /// after `systemctl reload hearth`, in which the daemon becomes a new one in place under running VMs. A wrong configuration changes
    /// nothing. If anything is left, the exit code is 4.
    Reload(Reload),
    /// Say whether all is well and what to do if not, and what the cache is worth
    ///
    /// Every finding has a remedy, the worst comes first. The page of `[web]` begins with the same. JSON: `health` with `severity`,
    /// `sentence`, `remedy` and `findings`; sums of `reads`, `latency`, `dirty` and `flash`.
    Overview,
    /// Show the daemon and its caches
    Status,
    /// List, attach and steer disks
    #[command(subcommand, arg_required_else_help = true)]
    Disk(Disk),
    /// Put disks of a VM that libvirt has on Hearth, or give them back
    ///
    /// Shows how the domain's XML changes and what is attached; --yes does it. The VM is shut down first. The disk is
    /// attached as `hearth disk attach` does it, and its place in the XML is Hearth's socket. The domain's metadata remember
    /// what was there before, so that --undo gives it back: refused while bytes wait for the storage, unless --flush brings them there first.
    Adopt(Box<Adopt>),
    /// Attach and detach the disks of adopted VMs as these start and end, for libvirt's hook
    #[command(subcommand, arg_required_else_help = true)]
    Hook(Hook),
    /// Look at disks that roam, and at their hand-overs
    ///
    /// A migration needs none of these commands: they are for looking, and for trouble.
    #[command(subcommand, arg_required_else_help = true)]
    Migrate(Migrate),
    /// Plan how a group of VMs crosses a slow link, and move it
    #[command(subcommand, arg_required_else_help = true)]
    Group(Box<Group>),
    /// Collect who talks to whom, as csv for `hearth group plan`
    ///
    /// From sFlow datagrams, from the kernel's table of connections, or from the agents in the guests of this host. What has an end that is none of the VMs is counted
    /// and not named.
    Traffic(Traffic),
    /// Print how a disk is attached to a VM: libvirt's XML, and what QEMU and Cloud Hypervisor take
    ///
    /// For each front end over which the disk is offered; a disk that is written is in use over one at a
    /// time. Hosts with the same configuration print the same, so that VMs can migrate among them.
    Xml(Xml),
    /// See and set what each VM has of the flash
    #[command(subcommand, arg_required_else_help = true)]
    Vm(Vm),
    /// Make and examine caches on flash, and set their policies
    #[command(subcommand, arg_required_else_help = true)]
    Cache(Cache),
    /// Say who may change something through the page
    #[command(subcommand, arg_required_else_help = true)]
    Operator(Operator),
    /// Get at writes that wait on flash for their origin, without the daemon
    #[command(subcommand, arg_required_else_help = true)]
    Recover(Box<Recover>),
    /// Watch the disks, or the VMs, live
    ///
    /// Keys: q quits, < and > choose the column to sort by, r reverses, v shows VMs instead, p pauses.
    Top(Top),
    /// Show what the host and its VMs use of processors, memory, network and disks
    ///
    /// As far as `hearth monitor` says so. VMs are those whose processes have connected to their disks over unix sockets.
    Resources(Resources),
    /// Show the cluster that this host is in, and change what holds for all hosts
    Cluster(Cluster),
    /// Show what has happened since the daemon began, and what operators did
    ///
    /// The daemon keeps the last events in memory, at most 4096 of them: older ones are in its log, as lines with a field EVENT.
    Events(EventsArgs),
    /// Look at moves of the cluster's VMs, and have them begun and ended
    #[command(subcommand, arg_required_else_help = true)]
    Move(Move),
    /// Read what the host and its VMs use, and tell the daemon, until it is ended
    ///
    /// The packaged unit hearth-monitor.service runs it. The daemon's own unit sees no process but its own.
    Monitor(Monitor),
    /// Load a disk and measure it: vhost-user, NBD, a file or a device
    ///
    /// Options and JSON keys are called as fio's are. What is written to is lost; what somebody else uses is refused.
    /// --replay issues a recorded trace's requests at their own times instead, its reads only unless --write is given.
    Bench(Box<Bench>),
    /// Simulate caches over traces
    ///
    /// Every policy runs at every size over every trace, on all processors. The results do not
    /// depend on how many there are.
    Sim(Box<Sim>),
    /// Draw miss-ratio curves of traces
    ///
    /// How many accesses a cache of each size would miss: exactly and in one pass for LRU, from a
    /// sample of the blocks (SHARDS), or by simulating small caches for any other policy.
    Mrc(Box<Mrc>),
    /// Say what size of cache pays for a workload, or why none does
    ///
    /// Hits, latency, flash wear and money of the sizes that matter, from a trace's curve.
    Advise(Box<Advise>),
    /// Say which VMs should move to which hosts, by the load on their flash
    ///
    /// A host whose VMs are predicted to need more than 90 % of its flash for three windows sends one of them to a host
    /// that has room. Shown are the moves with their reasons, what is expected of each host, what was refused, and how
    /// much flash is missing where no move exists.
    Plan(Plan),
    /// Look at, convert, generate and record traces
    #[command(subcommand, arg_required_else_help = true)]
    Trace(Box<Trace>),
    /// Collect what helps those who help
    #[command(subcommand, arg_required_else_help = true)]
    Support(Support),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    Man {
        /// The directory to write them to, into its `man1` and `man5`; made if missing
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
    /// Write the generated files of the source tree: book pages and the API's document
    #[command(hide = true)]
    Generate {
        /// The root of the source tree
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        root: PathBuf,
    },
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// The configuration file; files of the folder conf.d beside it, and variables such as `HEARTH_WEB__ADDRESS`, add to it
    #[arg(long, value_name = "FILE", default_value = CONFIG_DEFAULT, value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
    /// Check the configuration and what it needs from this machine, change nothing, and end
    #[arg(long)]
    pub check_config: bool,
    /// What is logged, instead of the configuration's `daemon.log`: a level or a filter
    #[arg(
        long,
        value_name = "FILTER",
        env = "HEARTH_LOG",
        hide_env_values = true
    )]
    pub log: Option<String>,
    /// How log lines are written, instead of the configuration's `daemon.log_format`
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
}

/// Arguments of `reload`.
#[derive(Debug, Args)]
pub struct Reload {
    /// Only say what would come of it
    #[arg(long)]
    pub dry_run: bool,
}

/// Make and examine caches on flash, and set their policies.
#[derive(Debug, Subcommand)]
pub enum Cache {
    /// Make an empty cache on a file or block device, offline
    ///
    /// What was there is lost. Without --force nothing is written over anything but zeroes.
    Format(Format),
    /// Examine a cache that no daemon is using
    ///
    /// Superblocks, tables, journal and descriptors are read, and nothing is changed. Damage is exit
    /// code 5. Whether the daemon still trusts this cache is in its state directory, which is not
    /// looked at.
    Check(Check),
    /// Change what may enter a cache and how it is divided among VMs, while the daemon runs
    ///
    /// What is not given stays as it is. The change is remembered over restarts and holds over the
    /// configuration file until it is taken back with --reset. No cached block is lost by it. Settings
    /// that contradict each other are refused, and nothing is changed.
    Set(Box<Set>),
    /// Read what is on a cache's flash and verify its checksums, while the daemon serves
    ///
    /// The scrub lets guests go first, and goes on after a restart. A damaged block that its origin has is given up. One that the
    /// origin lacks stays, and an event and the log name its disk and offset. `hearth status` shows how far the scrub is. While
    /// it is under way the command changes its rate.
    Scrub(Scrub),
    /// Show the drives under the caches: write cache, wear, errors, and what to do about them
    ///
    /// The daemon looks at the start and every ten minutes. Wear and errors come from smartctl of the package smartmontools. The packaged
    /// daemon has no right to ask drives: run this as root, and it asks itself and tells the daemon, whose metrics have it for 26 hours.
    Health(HealthOf),
}

/// Arguments of `cache format`.
#[derive(Debug, Args)]
pub struct Format {
    /// The flash: a block device, or a file, which is made if missing
    #[arg(value_hint = ValueHint::FilePath)]
    pub path: PathBuf,
    /// The size; needed for a new file. A block device is used whole unless told otherwise
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,
    /// Size of a segment: a power of two from 64KiB to 16MiB. 4MiB on 1.75GiB of flash and more, and what
    /// wastes least on less, unless it is given
    #[arg(long, value_name = "SIZE")]
    pub segment_size: Option<Bytes>,
    /// Format although there is a cache, or something that is not recognised, on it already
    #[arg(long)]
    pub force: bool,
    /// Format although bytes are on it that the origins of disks lack: they are lost
    #[arg(long, requires = "force")]
    pub lose_dirty: bool,
    /// Format although it looks like a file system, a disk image or a partition table: that is lost
    #[arg(long, requires = "force")]
    pub lose_foreign: bool,
    /// The daemon's configuration, by which it is known which bytes origins lack;
    /// /etc/hearth/hearth.toml if that is there
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

/// Arguments of `cache check`.
#[derive(Debug, Args)]
pub struct Check {
    /// The flash: a file or block device
    #[arg(value_hint = ValueHint::FilePath)]
    pub path: PathBuf,
    /// Read every block and verify its checksum too
    #[arg(long)]
    pub read_data: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn commands_are_called_in_traces_as_they_are_here() {
        for verb in daemon::verbs() {
            let mut command = Cli::command();
            for word in verb.split(' ') {
                if let Some(flag) = word.strip_prefix("--") {
                    let mut arguments = command.get_arguments();
                    let is_there = arguments.any(|one| one.get_long() == Some(flag));
                    assert!(is_there, "{verb}");
                } else {
                    let found = command.find_subcommand(word);
                    command = found.unwrap_or_else(|| panic!("{verb}")).clone();
                }
            }
        }
    }

    fn walk(command: &clap::Command, path: &str) {
        let path = format!("{path} {}", command.get_name());
        assert!(command.get_about().is_some(), "{path} says what it does");
        for argument in command.get_arguments() {
            assert!(
                argument.get_help().is_some()
                    || ["help", "version"].contains(&argument.get_id().as_str()),
                "{path} {} says what it is",
                argument.get_id()
            );
        }
        for inner in command.get_subcommands() {
            walk(inner, &path);
        }
    }

    #[test]
    fn every_command_and_argument_has_its_help() {
        walk(&Cli::command(), "");
    }

    /// What a command line is taken for.
    fn parsed(words: &[&str]) -> String {
        let words = ["hearth"].iter().chain(words);
        format!("{:?}", Cli::try_parse_from(words).unwrap())
    }

    #[test]
    fn traces_stand_before_between_and_behind_options() {
        for (verb, options) in [
            (
                "sim",
                "--policy lru,arc --size 10%,1GiB --ram 1MiB --interval auto",
            ),
            ("sim prefetch", "--block 4KiB"),
            ("sim gather", "--block 4KiB"),
            ("mrc", "--block 4KiB"),
            ("advise", "--policy lru --sizes 64MiB,1GiB"),
            ("trace info", "--columns obj-id-col=1,delimiter=blank"),
        ] {
            let verb: Vec<&str> = verb.split(' ').collect();
            let options: Vec<&str> = options.split(' ').collect();
            let wanted = parsed(&[&verb[..], &["a", "b"], &options[..]].concat());
            let behind = parsed(&[&verb[..], &options[..], &["a", "b"]].concat());
            let between = parsed(&[&verb[..], &["a"], &options[..], &["b"]].concat());
            assert_eq!((&behind, &between), (&wanted, &wanted));
        }
        for (verb, options) in [
            ("sim migrate", "--size 10%"),
            ("trace convert", "-o x.parquet --block 4KiB"),
        ] {
            let verb: Vec<&str> = verb.split(' ').collect();
            let options: Vec<&str> = options.split(' ').collect();
            let wanted = parsed(&[&verb[..], &["a"], &options[..]].concat());
            assert_eq!(parsed(&[&verb[..], &options[..], &["a"]].concat()), wanted);
        }
    }

    /// Verbs that ask nothing of the daemon and touch none of its files.
    const ALONE: &[&str] = &[
        "bench",
        "completions",
        "config schema",
        "config show",
        "generate",
        "group plan",
        "man",
        "mrc",
        "operator add",
        "operator list",
        "operator remove",
        "sim fleet",
        "sim gather",
        "sim groups",
        "sim migrate",
        "sim prefetch",
        "trace anonymize",
        "trace convert",
        "trace formats",
        "trace generate",
        "trace info",
        "traffic",
    ];

    fn leaves(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        for inner in command.get_subcommands() {
            let path = format!("{path} {}", inner.get_name());
            if inner.has_subcommands() {
                leaves(inner, &path, found);
            } else {
                found.push(path.trim_start().to_owned());
            }
        }
    }

    #[test]
    fn every_verb_about_the_daemon_is_in_the_table_of_states() {
        let book = include_str!("../../../../book/src/end-to-end-tests.md");
        let (_, table) = book.split_once("## Every verb in every state").unwrap();
        let mut verbs = Vec::new();
        leaves(&Cli::command(), "", &mut verbs);
        for verb in &verbs {
            let begins = |end: char| table.contains(&format!("\n| `{verb}{end}"));
            let is_there = begins(' ') || begins('`');
            assert_eq!(is_there, !ALONE.contains(&verb.as_str()), "{verb}");
        }
        for alone in ALONE {
            assert!(verbs.iter().any(|verb| verb == alone), "{alone}");
        }
    }
}
