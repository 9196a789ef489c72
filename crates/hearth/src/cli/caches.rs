//! `hearth cache set`: a cache's policy while the daemon runs.

use super::args::Global;
use super::run::show;
use crate::terminal::exit::CliError;
use crate::terminal::output::json;
use crate::terminal::progress;
use api::client::Client;
use api::client::Method;
use api::types::CacheStatus;
use clap::Args;
use configuration::{Auto, Name, PolicyChange, Spare, Staging, Switch, Text, Window};
use policy::admission::budget::Rate;
use policy::{admission, allocation, prediction};
use std::fmt::{self, Write};
use units::Bytes;

/// Arguments of `cache set`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
#[command(override_usage = "hearth cache set [OPTIONS] <NAME>")]
pub struct Set {
    /// The cache's name
    pub name: Name,
    /// Whether any of this holds; else all that is read is let in, and whatever is oldest leaves
    #[arg(long, value_name = "true|false", group = "what")]
    pub enabled: Option<bool>,
    /// Which missed blocks are written to flash, such as always or larc
    #[arg(long, value_name = "POLICY", group = "what")]
    pub admission: Option<admission::Spec>,
    /// Whether what is read is let in as long as nothing ever had to leave the flash: half of each share, and more where blocks are read again
    #[arg(long, value_name = "true|false", group = "what")]
    pub fill: Option<bool>,
    /// Memory for what admission remembers and for blocks that wait in memory, or `auto`
    #[arg(long, value_name = "SIZE|auto", group = "what")]
    pub staging: Option<Staging>,
    /// Memory for all blocks in memory, staged, prefetched and hot, or `auto`: what staging needs
    #[arg(long, value_name = "SIZE|auto", group = "what")]
    pub frames: Option<Auto<Bytes>>,
    /// Which blocks that are read are worth a frame of it, such as s3-fifo, w-tinylfu, lru or frequency
    #[arg(long, value_name = "POLICY", group = "what")]
    pub hot: Option<policy::memory::Spec>,
    /// Who guesses what VMs read next, such as readahead or readahead,vip,mithril, or `none`
    #[arg(long, value_name = "MINERS|none", group = "what")]
    pub prefetch: Option<prefetch::Specs>,
    /// What the flash may be written, such as 1TiB/day, 20MiB/s or 1DWPD, or `off`
    #[arg(long, value_name = "RATE|off", group = "what")]
    pub write_budget: Option<Switch<Rate>>,
    /// How the flash is divided, such as equal, rwss or utility
    #[arg(long, value_name = "METHOD", group = "what")]
    pub allocation: Option<allocation::Spec>,
    /// What becomes of flash that its owner does not use
    #[arg(long, value_name = "WHAT", group = "what")]
    pub spare: Option<Spare>,
    /// How often a block must have been used again to count as demand: 0 to 3
    #[arg(long, value_name = "N", group = "what")]
    pub reuses: Option<u8>,
    /// Over which time demand is measured, or `auto`
    #[arg(long, value_name = "TIME|auto", group = "what")]
    pub window: Option<Window>,
    /// How the next window's demand is foreseen, such as exp-self
    #[arg(long, value_name = "METHOD", group = "what")]
    pub prediction: Option<prediction::Spec>,
    /// A share changes only by at least this part of itself: 0 to 1
    #[arg(long, value_name = "PART", group = "what")]
    pub hysteresis: Option<f64>,
    /// Memory for all of this together
    #[arg(long, value_name = "SIZE", group = "what")]
    pub memory: Option<Bytes>,
    /// Take back all that was set while the daemon ran: the configuration file's word holds again
    #[arg(long, group = "what", conflicts_with_all = ["enabled", "admission", "fill", "staging", "frames", "hot", "prefetch", "write_budget", "allocation", "spare", "reuses", "window", "prediction", "hysteresis", "memory"])]
    pub reset: bool,
}

impl Set {
    fn change(&self) -> PolicyChange {
        PolicyChange {
            enabled: self.enabled,
            admission: self.admission.clone().map(Text),
            fill: self.fill,
            staging: self.staging.map(Text),
            frames: self.frames.map(Text),
            hot: self.hot.clone().map(Text),
            prefetch: self.prefetch.clone().map(Text),
            write_budget: self.write_budget.clone().map(Text),
            allocation: self.allocation.clone().map(Text),
            spare: self.spare,
            reuses: self.reuses,
            window: self.window.map(Text),
            prediction: self.prediction.clone().map(Text),
            hysteresis: self.hysteresis,
            memory: self.memory.map(Text),
        }
    }
}

/// Does what was asked and returns what to print.
pub(super) async fn set(client: &Client, global: &Global, set: &Set) -> Result<Vec<u8>, CliError> {
    let name = &set.name;
    let (method, path, body) = if set.reset {
        (Method::DELETE, format!("/v1/caches/{name}/settings"), None)
    } else {
        let body = json(&set.change())?;
        (
            Method::PATCH,
            format!("/v1/caches/{name}/policy"),
            Some(body),
        )
    };
    let sent = client.send(method, &path, body.as_ref());
    let cache: CacheStatus = progress::waiting(format!("changing {name}"), sent).await?;
    show(global, &cache, done)
}

fn done(out: &mut String, cache: &CacheStatus) -> fmt::Result {
    match &cache.policy {
        Some(policy) => writeln!(
            out,
            "{}: {}",
            cache.name,
            words(&policy.settings, &policy.changed)
        ),
        None => writeln!(out, "{}: changed; it does not answer now", cache.name),
    }
}

/// A policy in a line.
pub(super) fn words(settings: &PolicyChange, changed: &[String]) -> String {
    fn text<T: fmt::Display>(value: Option<&Text<T>>) -> String {
        value.map_or_else(String::new, |value| value.0.to_string())
    }
    let mut line = if settings.enabled == Some(false) {
        "off: all that is read is let in".to_owned()
    } else {
        let spare = match settings.spare {
            Some(Spare::Idle) => "idle",
            Some(Spare::Strict) => "strict",
            Some(Spare::Lent) | None => "lent",
        };
        format!(
            "admission {}{}, staging {}, frames {}, hot {}, prefetch {}, write budget {}, allocation {}, spare {spare}, window {}, \
             prediction {}",
            text(settings.admission.as_ref()),
            if settings.fill == Some(true) {
                " once full"
            } else {
                ""
            },
            text(settings.staging.as_ref()),
            text(settings.frames.as_ref()),
            text(settings.hot.as_ref()),
            text(settings.prefetch.as_ref()),
            text(settings.write_budget.as_ref()),
            text(settings.allocation.as_ref()),
            text(settings.window.as_ref()),
            text(settings.prediction.as_ref()),
        )
    };
    if !changed.is_empty() {
        // Writing to a string does not fail.
        let _ = write!(line, " (set while running: {})", changed.join(", "));
    }
    line
}
