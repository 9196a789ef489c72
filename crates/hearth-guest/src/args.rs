//! The command line.

use crate::classes::Folders;
use clap::Parser;
use guest_files::Settings;
use std::path::PathBuf;
use units::{Duration, ParseDurationError};

/// The agent in a guest of Hearth: remembers which files matter, and reads them into memory after the next boot.
#[derive(Clone, Debug, Parser)]
#[command(version)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
pub(crate) struct Args {
    /// Where the history of files is kept
    #[arg(long, value_name = "DIR", default_value = "/var/lib/hearth-guest")]
    pub(crate) state_dir: PathBuf,

    /// Epochs in which a file must have been used to count as one that matters
    #[arg(long, value_name = "EPOCHS", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) usage_threshold: u32,

    /// How long an epoch is; however often a file is used in it, that is one use
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = interval)]
    pub(crate) epoch: Duration,

    /// Reads nothing after the boot
    #[arg(long)]
    pub(crate) no_preload: bool,

    /// How long reading after the boot may take; it ends earlier when memory gets short, or at a quarter of
    /// the memory that is available
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub(crate) preload_time: Duration,

    /// Drops files that matter less from memory when all that matter exceed the memory threshold; the kernel's own
    /// choice is as good on most systems
    #[arg(long)]
    pub(crate) drop: bool,

    /// Part of the cache's memory that files may have before some are dropped, in percent
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 50,
        requires = "drop",
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    pub(crate) memory_threshold: u32,

    /// Tells the host nothing of files: not which ranges of the disks will be wanted again, nor which are not worth keeping
    #[arg(long)]
    pub(crate) no_hints: bool,

    /// How often the host is told of ranges that have changed
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5min",
        value_parser = interval,
        conflicts_with = "no_hints"
    )]
    pub(crate) hint_interval: Duration,

    /// Reads ahead, by file, what the host expects to be read; of use where the host's cache has a prefetch policy
    #[arg(long, conflicts_with = "no_hints")]
    pub(crate) read_ahead: bool,

    /// Folders whose files do not outlive the boot: the host keeps them off its flash
    #[arg(
        long,
        value_name = "DIR",
        value_delimiter = ',',
        default_value = "/tmp,/var/tmp"
    )]
    pub(crate) temporary: Vec<PathBuf>,

    /// Folders whose files are read once, such as a backup's source: the host keeps them off its flash
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    pub(crate) once: Vec<PathBuf>,

    /// Tells the host how many bytes the guest exchanges with which addresses over TCP, so that VMs which talk to each other can
    /// move together; the unit allows it with the drop-in sockets.conf
    #[arg(long)]
    pub(crate) sockets: bool,

    /// How often the host is told of them
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10s",
        value_parser = interval,
        requires = "sockets"
    )]
    pub(crate) sockets_interval: Duration,

    /// The name of the serial port to the host
    #[arg(long, value_name = "NAME", default_value = "org.hearth.guest.0")]
    pub(crate) port: String,
}

/// The agent has work to do each time, so none may be next to nothing.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

fn interval(text: &str) -> Result<Duration, String> {
    let interval: Duration = text
        .parse()
        .map_err(|error: ParseDurationError| error.to_string())?;
    if interval < SHORTEST_INTERVAL {
        return Err(format!("write {SHORTEST_INTERVAL} or more"));
    }
    Ok(interval)
}

impl Args {
    pub(crate) fn folders(&self) -> Folders {
        Folders {
            temporary: self.temporary.clone(),
            once: self.once.clone(),
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            usage_threshold: self.usage_threshold,
            memory_percent: self.memory_threshold,
            ..Settings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// `packaging/hearth-guest.8` is this command line's page. A page that is behind is written anew, for the next commit.
    #[test]
    fn the_packaged_page_is_of_this_command_line() {
        let mut page = Vec::new();
        let man = clap_mangen::Man::new(Args::command()).section("8");
        man.manual("Hearth").render(&mut page).unwrap();
        let packaged = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../packaging/hearth-guest.8"
        );
        if std::fs::read(packaged).ok().as_ref() != Some(&page) {
            std::fs::write(packaged, &page).unwrap();
            panic!("packaging/hearth-guest.8 was not of this command line: commit it as it is now");
        }
    }

    #[test]
    fn the_command_line_is_consistent_and_its_defaults_are_the_papers() {
        Args::command().debug_assert();
        let args = Args::parse_from(["hearth-guest"]);
        assert_eq!(args.settings(), Settings::default());
        assert!(Args::try_parse_from(["hearth-guest", "--memory-threshold", "9"]).is_err());
        assert!(
            !args.sockets,
            "nobody is told of sockets unless it is asked for"
        );
        assert!(Args::try_parse_from(["hearth-guest", "--sockets-interval", "1s"]).is_err());
    }
}
