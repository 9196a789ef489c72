//! Arguments of `hearth operator`.

use clap::{Args, Subcommand, ValueHint};
use configuration::CONFIG_DEFAULT;
use std::path::PathBuf;

/// What is done with operators.
#[derive(Debug, Subcommand)]
pub enum Operator {
    /// Make an operator, and print the token once
    ///
    /// The token is pasted into the page, or sent as `Authorization: Bearer TOKEN`. It is kept nowhere: the file has its SHA-256 alone,
    /// which is enough for 256 random bits. A name `cert:NAME` makes whoever shows a certificate with this common name or alternative
    /// name an operator, without a token. The running daemon takes the change at once.
    Add(One),
    /// List the operators
    List(Where),
    /// Remove an operator, whose token is worth nothing from then on
    Remove(One),
}

/// Where operators are kept.
#[derive(Debug, Args)]
pub struct Where {
    /// The configuration file, whose web.operators names the file with the operators
    #[arg(long, value_name = "FILE", default_value = CONFIG_DEFAULT, value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
    /// The file with the operators, whatever the configuration says
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
}

/// Arguments about one operator.
#[derive(Debug, Args)]
pub struct One {
    /// The operator's name, as events show it; or cert: and a name in a certificate
    pub name: String,
    /// Where operators are kept
    #[command(flatten)]
    pub place: Where,
}
