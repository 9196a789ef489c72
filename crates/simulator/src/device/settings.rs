//! A device's parameters: `nvme`, or `nvme,read=120us,iops=80000`, or every one by itself.

use super::distribution::{Latency, ParseLatencyError};
use std::fmt;
use std::str::FromStr;
use units::{Bytes, Duration};

/// What a modelled device takes for an I/O. `None` is without limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceSettings {
    /// Latency of a read without queueing and transfer.
    pub read: Latency,
    /// Latency of a write without queueing and transfer.
    pub write: Latency,
    /// I/Os a second.
    pub iops: Option<u32>,
    /// Bytes a second, reads and writes together.
    pub bandwidth: Option<Bytes>,
    /// I/Os that are worked on at the same time.
    pub parallel: Option<u32>,
}

/// I/Os at the same time that are told apart from no limit: a server costs memory.
pub const PARALLEL_MAX: u32 = 65_536;

/// A name for a set of parameters. They are round figures for the kind of device, not one maker's.
struct Preset {
    name: &'static str,
    read_us: u64,
    write_us: u64,
    iops: u32,
    bandwidth_mib: u64,
    parallel: u32,
}

const PRESETS: [Preset; 5] = [
    preset("nvme", (80, 20), 500_000, 2_500, 128),
    preset("sata", (150, 60), 80_000, 500, 32),
    preset("ssd-cluster", (600, 1_200), 20_000, 1_000, 128),
    preset("disk-array", (5_000, 1_000), 2_000, 400, 32),
    preset("disk", (8_000, 8_000), 150, 150, 1),
];

const fn preset(
    name: &'static str,
    (read_us, write_us): (u64, u64),
    iops: u32,
    bandwidth_mib: u64,
    parallel: u32,
) -> Preset {
    Preset {
        name,
        read_us,
        write_us,
        iops,
        bandwidth_mib,
        parallel,
    }
}

impl Preset {
    fn settings(&self) -> DeviceSettings {
        DeviceSettings {
            read: Latency::Fixed(Duration::from_micros(self.read_us)),
            write: Latency::Fixed(Duration::from_micros(self.write_us)),
            iops: Some(self.iops),
            bandwidth: Some(Bytes::mib(self.bandwidth_mib)),
            parallel: Some(self.parallel),
        }
    }
}

impl DeviceSettings {
    /// Flash unless told otherwise: an `NVMe` drive.
    pub fn flash_default() -> Self {
        PRESETS[0].settings()
    }

    /// An origin unless told otherwise: a replicated cluster of SSDs over a network.
    pub fn origin_default() -> Self {
        PRESETS[2].settings()
    }

    /// The names that stand for sets of parameters, each with what it stands for.
    pub fn presets() -> Vec<(&'static str, Self)> {
        PRESETS
            .iter()
            .map(|preset| (preset.name, preset.settings()))
            .collect()
    }

    /// These settings with what `text` says changed: `nvme`, `read=80us,iops=100000`, or both.
    ///
    /// # Errors
    /// If a preset, a key or a value in it is not known.
    pub fn with(mut self, text: &str) -> Result<Self, DeviceError> {
        for word in text.split(',').map(str::trim) {
            if let Some((key, value)) = word.split_once('=') {
                self.set(key, value)?;
            } else {
                let preset = PRESETS.iter().find(|preset| preset.name == word);
                self = preset
                    .ok_or_else(|| DeviceError::Preset(word.to_owned()))?
                    .settings();
            }
        }
        Ok(self)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), DeviceError> {
        let wrong = |expected: &'static str| DeviceError::Value {
            key: key.to_owned(),
            value: value.to_owned(),
            expected,
        };
        match key {
            "read" => self.read = value.parse()?,
            "write" => self.write = value.parse()?,
            "iops" => self.iops = limit(value).map_err(|()| wrong("a count, such as 100000"))?,
            "parallel" => {
                self.parallel = limit(value)
                    .ok()
                    .filter(|limit| limit.is_none_or(|count| count <= PARALLEL_MAX))
                    .ok_or_else(|| wrong("a count of at most 65536"))?;
            }
            "bandwidth" => {
                let rate = value.strip_suffix("/s").unwrap_or(value);
                self.bandwidth = match rate {
                    "unlimited" => None,
                    _ => Some(
                        rate.parse()
                            .ok()
                            .filter(|rate: &Bytes| !rate.is_zero())
                            .ok_or_else(|| wrong("bytes a second, such as 500MiB/s"))?,
                    ),
                };
            }
            _ => return Err(DeviceError::Key(key.to_owned())),
        }
        Ok(())
    }
}

fn limit(value: &str) -> Result<Option<u32>, ()> {
    match value {
        "unlimited" => Ok(None),
        _ => value
            .parse()
            .ok()
            .filter(|count| *count > 0)
            .map(Some)
            .ok_or(()),
    }
}

/// Why a text does not describe a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// No preset has this name.
    #[error("'{0}' is not a device: write {presets}, or parameters such as read=80us", presets = preset_names())]
    Preset(String),
    /// No parameter has this name.
    #[error("'{0}' is not a parameter of a device: write read, write, iops, bandwidth or parallel")]
    Key(String),
    /// A parameter has a wrong value.
    #[error("{key}={value}: write {expected}, or 'unlimited'")]
    Value {
        /// The parameter.
        key: String,
        /// What was written.
        value: String,
        /// What can be written.
        expected: &'static str,
    },
    /// A latency is not one.
    #[error(transparent)]
    Latency(#[from] ParseLatencyError),
}

fn preset_names() -> String {
    let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    names.join(", ")
}

impl FromStr for DeviceSettings {
    type Err = DeviceError;

    /// Parameters that are not given are those of [`DeviceSettings::flash_default`].
    fn from_str(text: &str) -> Result<Self, DeviceError> {
        Self::flash_default().with(text)
    }
}

impl fmt::Display for DeviceSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn or_unlimited(limit: Option<impl fmt::Display>) -> String {
            limit.map_or("unlimited".to_owned(), |limit| limit.to_string())
        }
        write!(
            f,
            "read={},write={},iops={},bandwidth={},parallel={}",
            self.read,
            self.write,
            or_unlimited(self.iops),
            or_unlimited(self.bandwidth.map(|rate| format!("{rate}/s"))),
            or_unlimited(self.parallel),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_stays_as_the_preset_has_it() {
        let device = DeviceSettings::origin_default().with("disk,read=lognormal:6ms:30ms");
        assert_eq!(
            device.map(|device| device.to_string()),
            Ok(
                "read=lognormal:6ms:30ms,write=8ms,iops=150,bandwidth=150MiB/s,parallel=1"
                    .to_owned()
            )
        );
    }

    #[test]
    fn settings_parse_what_they_print() {
        let mut presets = DeviceSettings::presets();
        presets.push((
            "free",
            "iops=unlimited,bandwidth=unlimited,parallel=unlimited"
                .parse()
                .unwrap(),
        ));
        for (name, settings) in presets {
            assert_eq!(settings.to_string().parse(), Ok(settings), "{name}");
        }
    }

    #[test]
    fn mistakes_name_what_was_expected() {
        for (text, expected) in [
            ("floppy", "nvme, sata"),
            ("reads=1us", "read, write, iops"),
            ("iops=0", "a count"),
            ("parallel=100000", "65536"),
            ("bandwidth=fast", "500MiB/s"),
            ("read=80", "lognormal"),
        ] {
            let message = text.parse::<DeviceSettings>().unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
