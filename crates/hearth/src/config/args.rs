//! Arguments of `hearth config`.

use clap::{Args, Subcommand, ValueHint};
use configuration::CONFIG_DEFAULT;
use std::path::PathBuf;

/// What is asked of a configuration.
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Show each key with the value that holds and where it is written
    ///
    /// A key is written in the file, in a file of the folder conf.d beside it, or in a variable of the environment
    /// (`HEARTH_WEB__ADDRESS` is web.address); else its default holds. The variables are those of this command:
    /// the daemon's are in its unit. Changes that an operator made while the daemon ran are not in it: see `hearth disk show`.
    Show(Show),
    /// Print the JSON schema of the configuration, for editors
    Schema,
}

/// Arguments of `config show`.
#[derive(Debug, Args)]
pub struct Show {
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = CONFIG_DEFAULT, value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
    /// Leave out keys whose default holds
    #[arg(long)]
    pub written: bool,
}
