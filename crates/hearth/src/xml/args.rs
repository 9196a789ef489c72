//! The command line of `hearth xml`.

use clap::{Args, ValueEnum};
use configuration::Name;
use serde::{Deserialize, Serialize};
use units::Bytes;

const MIB: u64 = 1 << 20;

/// Arguments of `xml`.
#[derive(Debug, Args)]
pub struct Xml {
    /// The disk
    #[arg(long, value_name = "NAME")]
    pub disk: Name,
    /// The VM that attaches it; needed for a base image
    #[arg(long, value_name = "NAME")]
    pub vm: Option<Name>,
    /// Only this front end
    #[arg(long, value_name = "FRONT_END")]
    pub front_end: Option<FrontEndWord>,
    /// Only the text for this program, without headings, fit to be passed on
    #[arg(long, value_name = "PROGRAM", requires = "front_end")]
    pub only: Option<Only>,
    /// What the VM calls the disk, in the XML
    #[arg(long, value_name = "DEVICE", default_value = "vda", value_parser = device)]
    pub target: String,
    /// The VM's memory, in the command lines: over vhost-user it has to be shared
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = memory)]
    pub memory: Bytes,
    /// The VM's processors, for Cloud Hypervisor, which refuses more queues than these
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub cpus: u16,
}

impl Xml {
    pub(super) fn wants(&self, front_end: FrontEndWord) -> bool {
        self.front_end.is_none_or(|wanted| wanted == front_end)
    }
}

/// A front end on the command line and in answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrontEndWord {
    /// vhost-user-blk: the guest's memory is shared with the daemon
    VhostUser,
    /// Network block device
    Nbd,
}

impl std::fmt::Display for FrontEndWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::VhostUser => "vhost-user",
            Self::Nbd => "NBD",
        })
    }
}

/// For whom a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Only {
    /// The element `disk` of libvirt's XML
    Libvirt,
    /// QEMU's arguments
    Qemu,
    /// Cloud Hypervisor's arguments
    CloudHypervisor,
}

/// Whole MiB: what QEMU and Cloud Hypervisor are told.
fn memory(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    if size.is_zero() || !size.is_multiple_of(MIB) {
        return Err(format!(
            "{size} is not whole MiB: write a size such as 4GiB or 512MiB"
        ));
    }
    Ok(size)
}

fn device(text: &str) -> Result<String, String> {
    let fit = |c: char| c.is_ascii_alphanumeric();
    if text.is_empty() || text.len() > 16 || !text.chars().all(fit) {
        return Err("write a device's name such as vda or sdb".to_owned());
    }
    Ok(text.to_owned())
}
