//! What every command needs: how it ends, what it prints, how far it has come.

pub mod exit;
pub(crate) mod output;
pub(crate) mod progress;
pub mod quantity;
mod table;

pub(crate) use output::{print, shown, to_json};
pub(crate) use progress::Progress;
pub(crate) use table::{Side, Table, facts};
