//! Arguments of `hearth vm`.

use clap::{Args, Subcommand};
use configuration::{Name, Switch, Text, VmChange};
use policy::admission;
use policy::admission::budget::Rate;
use units::Bytes;

/// See and set what each VM has of the flash.
#[derive(Debug, Subcommand)]
pub enum Vm {
    /// List the VMs and base images with what they have of the flash
    List,
    /// Show one VM or base image in full
    ///
    /// Demand and what is foreseen, share and what is held of it, where reads were found, what was let
    /// into the flash and what was not and why, bytes written by cause against the budget, and the live
    /// miss-ratio curve with the present share (P) and the target (T) marked below it. Of a base image:
    /// what each VM has read of it, and what sharing saves.
    ///
    /// JSON of a VM: `name`, `disks`, `images`, `settings`, `changed`; `counters`, of which
    /// `read_block_staged_hits`, `read_block_hot_hits` and `read_block_ahead_hits` are hits in memory; and for each
    /// cache in `shares`: `cache`, `error`, `share_blocks`, `target_blocks`, `held_blocks`, `demand` with
    /// `window_seconds`, `working_set_blocks`, `reused_blocks`, `predicted_blocks`, `prediction_error`
    /// and `reads_per_second`; `admission` with `policy`, `staging_bytes`, `admitted_blocks`,
    /// `filled_blocks`, `staged_blocks`, `dropped_blocks`, `withheld_blocks` and `refused_blocks` by reason; `blocks` with
    /// `reads`, `flash_hits`, `memory_hits`, `writes`, `image_reads`, `image_hits` and `evicted`;
    /// `flash_written_bytes` by cause, `flash_written_day_bytes`, `write_budget`; `curve` with
    /// `sampled_rate`, `present_read_hit_ratio`, `target_read_hit_ratio`, `knee_blocks` and `points` of
    /// `size_blocks`, `read_hit_ratio` and `hit_ratio`; `sharing`, `memory_bytes`; and, while somebody guesses what
    /// is read next, `prefetch` with `fetched_blocks`, `used_blocks`, `wasted_blocks`, `precision` (used of used and
    /// wasted), `refused_guesses` (not worth their price), `dropped_guesses` (overtaken by the VM's own reads) and
    /// `memory_bytes`. A block has 4096 bytes.
    Show {
        /// The name of a VM or base image
        name: Name,
    },
    /// Change what a VM may have, while it runs
    ///
    /// What is not given stays as it is. The change is remembered over restarts and holds over the
    /// configuration file until it is taken back with --reset. No cached block is lost by it. Settings
    /// that contradict each other are refused, and nothing is changed. So is a VM that nobody knows, unless
    /// it is said to be --new.
    Set(Box<Set>),
}

/// Arguments of `vm set`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
#[command(override_usage = "hearth vm set [OPTIONS] <NAME>")]
pub struct Set {
    /// The VM's name
    pub name: Name,
    /// What its demand counts beside another's: 1 to 10000; 100 is usual
    #[arg(long, value_name = "N", group = "what")]
    pub weight: Option<u32>,
    /// Flash of each cache that it keeps even if others could use it better
    #[arg(long, value_name = "SIZE", group = "what")]
    pub floor: Option<Bytes>,
    /// The most flash of each cache that its share may be, or `off`
    #[arg(long, value_name = "SIZE|off", group = "what")]
    pub ceiling: Option<Switch<Bytes>>,
    /// What may be written to flash for it, such as 200GiB/day, 5MiB/s or 0.3DWPD, or `off`
    #[arg(long, value_name = "RATE|off", group = "what")]
    pub write_budget: Option<Switch<Rate>>,
    /// What may enter the flash of it, such as larc, or `off` for what holds for the cache
    #[arg(long, value_name = "POLICY|off", group = "what")]
    pub admission: Option<Switch<admission::Spec>>,
    /// Whether admission by frequency lets its blocks in without regard to the threshold
    #[arg(long, value_name = "true|false", group = "what")]
    pub high_priority: Option<bool>,
    /// A base image that it may attach as IMAGE@VM, besides those before; may be given several times
    #[arg(long, value_name = "NAME", group = "what")]
    pub image: Vec<Name>,
    /// A base image that it may attach no longer; clients that have attached it keep it
    #[arg(long, value_name = "NAME", group = "what")]
    pub remove_image: Vec<Name>,
    /// The VM has no disk yet, and the configuration file does not name it
    ///
    /// Without this a name that is not known is refused, since it is probably mistyped.
    #[arg(long, conflicts_with = "reset")]
    pub new: bool,
    /// Take back all that was set while the daemon ran: the configuration file's word holds again
    #[arg(long, group = "what", conflicts_with_all = ["weight", "floor", "ceiling", "write_budget", "admission", "high_priority", "image", "remove_image"])]
    pub reset: bool,
}

impl Set {
    /// What it changes, for a VM that may attach these images now.
    pub(super) fn change(&self, images: &[Name]) -> VmChange {
        let changes_images = !self.image.is_empty() || !self.remove_image.is_empty();
        let images = changes_images.then(|| {
            let mut images = images.to_vec();
            images.extend(self.image.iter().cloned());
            images.retain(|image| !self.remove_image.contains(image));
            images.sort();
            images.dedup();
            images
        });
        VmChange {
            images,
            weight: self.weight,
            floor: self.floor.map(Text),
            ceiling: self.ceiling.clone().map(Text),
            write_budget: self.write_budget.clone().map(Text),
            admission: self.admission.clone().map(Text),
            high_priority: self.high_priority,
        }
    }
}
