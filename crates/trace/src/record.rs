//! The canonical record: what every format's line or structure becomes.
//!
//! Units: microseconds and bytes. Time is the trace's own clock: some formats count from 1970 or 1601,
//! others from the start of the tracing; nobody may assume that the first record is at zero, nor that
//! records are sorted (`hearth trace info` warns of those that are not). Formats without time have zero
//! everywhere.

use std::fmt;
use std::str::FromStr;

use units::{Bytes, Map, Offset};

/// What a request asks of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// What was answered becomes durable; length zero.
    Flush,
    /// The bytes are no longer needed.
    Discard,
    /// The bytes become zero.
    WriteZeroes,
}

impl Op {
    /// Every operation, in the order of their declaration.
    pub const ALL: [Self; 5] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Discard,
        Self::WriteZeroes,
    ];

    /// The word for it in csv, Parquet and JSON: `read`, `write`, `flush`, `discard`, `write-zeroes`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::WriteZeroes => "write-zeroes",
        }
    }

    /// True for a read or a write: a request that brings its blocks into a cache.
    pub const fn carries_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that is none of [`Op::name`]'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an operation is read, write, flush, discard or write-zeroes")]
pub struct UnknownOp;

impl FromStr for Op {
    type Err = UnknownOp;

    fn from_str(text: &str) -> Result<Self, UnknownOp> {
        Self::ALL
            .into_iter()
            .find(|op| op.name() == text)
            .ok_or(UnknownOp)
    }
}

/// A hash of the content of a block, as a trace gives it (FIU: MD5 of 4 KiB).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentHash(pub [u8; 16]);

/// Which of a trace's volumes: the place in [`Volumes`], in order of first appearance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeIndex(u32);

impl VolumeIndex {
    /// The volume at that place.
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The place as a number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The place as an index of a table with one row a volume.
    pub const fn to_usize(self) -> usize {
        self.0 as usize
    }
}

/// A volume of a trace and the VM (or host, or file) that it belongs to.
///
/// Either name is empty where the format does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Volume {
    /// The VM, or what takes its place in the format: MSR's host.
    pub vm: String,
    /// The volume: disk number, logical unit, device.
    pub name: String,
}

impl fmt::Display for Volume {
    /// `vm/name`, or the one that is known, or `-`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.vm.as_str(), self.name.as_str()) {
            ("", "") => f.write_str("-"),
            ("", only) | (only, "") => f.write_str(only),
            (vm, name) => write!(f, "{vm}/{name}"),
        }
    }
}

impl Volume {
    /// What the name of a base image begins with: a volume that is only read, and the same for every VM
    /// that asks for it. Any other name belongs to its VM.
    pub const BASE_IMAGE: &str = "base:";

    /// Whether it is a base image.
    pub fn is_base_image(&self) -> bool {
        self.name.starts_with(Self::BASE_IMAGE)
    }
}

/// Whose a volume is: who asks through it, and where its blocks are.
///
/// ```text
///   place  vm     name         blocks  vm  is_image
///     0    web-1  disk           0      0    no
///     1    web-1  base:debian    1      0    yes
///     2    web-2  base:debian    1      1    yes     the same blocks, another VM
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    /// The volume that has the blocks: itself, or the first one of the same base image.
    pub blocks: VolumeIndex,
    /// The number of its VM, from 0 in order of first appearance. A volume whose VM nobody names is a VM of
    /// its own.
    pub vm: u32,
    /// Whether it is a base image.
    pub is_image: bool,
}

impl Role {
    /// The role of a volume of which nothing is known: a VM's own.
    pub const fn own(volume: VolumeIndex) -> Self {
        Self {
            blocks: volume,
            vm: volume.get(),
            is_image: false,
        }
    }
}

/// The volumes seen so far, each once.
#[derive(Clone, Debug, Default)]
pub struct Volumes {
    list: Vec<Volume>,
    roles: Vec<Role>,
    places: Map<Volume, VolumeIndex>,
    /// The first volume of each base image.
    images: Map<String, VolumeIndex>,
    /// The number of each VM that has a name.
    vms: Map<String, u32>,
    vm_count: u32,
}

impl Volumes {
    /// No volume.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True before the first record.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The volume at a place, or `None` if there are fewer.
    pub fn get(&self, index: VolumeIndex) -> Option<&Volume> {
        self.list.get(index.to_usize())
    }

    /// All volumes in order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (VolumeIndex, &Volume)> {
        self.list
            .iter()
            .zip(0..)
            .map(|(volume, place)| (VolumeIndex(place), volume))
    }

    /// The place of a volume, which is added if it is new.
    ///
    /// # Panics
    /// Beyond 2^32 volumes, which no memory holds.
    pub fn intern(&mut self, volume: &Volume) -> VolumeIndex {
        if let Some(&place) = self.places.get(volume) {
            return place;
        }
        let place =
            VolumeIndex(u32::try_from(self.list.len()).expect("a volume takes more than a byte"));
        self.list.push(volume.clone());
        self.places.insert(volume.clone(), place);
        let role = self.role_of_new(volume, place);
        self.roles.push(role);
        place
    }

    fn role_of_new(&mut self, volume: &Volume, place: VolumeIndex) -> Role {
        let is_image = volume.is_base_image();
        let blocks = if is_image {
            *self.images.entry(volume.name.clone()).or_insert(place)
        } else {
            place
        };
        let next = self.vm_count;
        let vm = if volume.vm.is_empty() {
            next
        } else {
            *self.vms.entry(volume.vm.clone()).or_insert(next)
        };
        self.vm_count += u32::from(vm == next);
        Role {
            blocks,
            vm,
            is_image,
        }
    }

    /// The roles of all volumes, in order of their places.
    pub fn roles(&self) -> &[Role] {
        &self.roles
    }

    /// How many VMs there are.
    pub fn vm_count(&self) -> u32 {
        self.vm_count
    }

    /// The name of a VM: its own, or that of its only volume; `None` if there are fewer.
    pub fn vm_name(&self, vm: u32) -> Option<String> {
        let first = self.roles.iter().position(|role| role.vm == vm)?;
        let volume = &self.list[first];
        Some(if volume.vm.is_empty() {
            volume.to_string()
        } else {
            volume.vm.clone()
        })
    }
}

/// One operation of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was issued, in microseconds of the trace's own clock; zero in formats without time.
    pub time_us: u64,
    /// Where on the volume.
    pub offset: Offset,
    /// How much; zero for a flush.
    pub length: Bytes,
    /// How long the traced system took, where the format says it; beyond 2^32 us it stays there.
    pub response_us: Option<u32>,
    /// On which volume.
    pub volume: VolumeIndex,
    /// What is asked.
    pub op: Op,
    /// The content's hash, where the format has it.
    pub hash: Option<ContentHash>,
}

const _: () = assert!(size_of::<Record>() <= 64, "a record fits in a cache line");

impl Record {
    /// A record without response time and content hash.
    pub const fn new(
        time_us: u64,
        volume: VolumeIndex,
        op: Op,
        offset: Offset,
        length: Bytes,
    ) -> Self {
        Self {
            time_us,
            offset,
            length,
            response_us: None,
            volume,
            op,
            hash: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(vm: &str, name: &str) -> Volume {
        Volume {
            vm: vm.to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn a_volume_keeps_its_first_place() {
        let mut volumes = Volumes::new();
        assert_eq!(volumes.intern(&volume("src2", "1")).get(), 0);
        assert_eq!(volumes.intern(&volume("src2", "2")).get(), 1);
        assert_eq!(volumes.intern(&volume("src2", "1")).get(), 0);
        assert_eq!(volumes.len(), 2);
        assert_eq!(
            volumes.get(VolumeIndex::new(1)).unwrap().to_string(),
            "src2/2"
        );
    }

    #[test]
    fn a_base_image_is_one_volume_for_all_vms_and_a_disk_is_not() {
        let mut volumes = Volumes::new();
        for (vm, name) in [
            ("web-1", "disk"),
            ("web-1", "base:debian"),
            ("web-2", "disk"),
            ("web-2", "base:debian"),
            ("", "7"),
            ("", "8"),
        ] {
            volumes.intern(&volume(vm, name));
        }
        let roles: Vec<_> = volumes
            .roles()
            .iter()
            .map(|role| (role.blocks.get(), role.vm, role.is_image))
            .collect();
        let expected = [
            (0, 0, false),
            (1, 0, true),
            (2, 1, false),
            (1, 1, true),
            (4, 2, false),
            (5, 3, false),
        ];
        assert_eq!(roles, expected);
        let names: Vec<_> = (0..5).map(|vm| volumes.vm_name(vm)).collect();
        let names: Vec<_> = names.iter().map(Option::as_deref).collect();
        let expected = [Some("web-1"), Some("web-2"), Some("7"), Some("8"), None];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_volume_without_names_prints_as_a_dash() {
        assert_eq!(volume("", "").to_string(), "-");
        assert_eq!(volume("", "3").to_string(), "3");
        assert_eq!(volume("web", "").to_string(), "web");
    }

    #[test]
    fn operations_parse_what_they_print() {
        for op in Op::ALL {
            assert_eq!(op.name().parse(), Ok(op));
        }
        assert_eq!("READ".parse::<Op>(), Err(UnknownOp));
    }
}
