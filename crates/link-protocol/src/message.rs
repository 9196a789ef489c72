//! The messages.

use crate::limits::{
    CURVE_POINTS_MAX, DATA_MAX, HOST_NAME_MAX, OBSTACLE_TEXT_MAX, OBSTACLES_MAX, UNIT_DISKS_MAX,
    UNIT_NAME_MAX,
};
use crate::runs::{BLOCKS_MAX, is_run};
use serde::{Deserialize, Serialize};

/// Something that one host says to another. Disks go by their identity's bits, units by the name of their VM.
///
/// New variants are added at the end, in a newer version or with a feature of the preface: postcard writes a variant's position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// The sender lists this unit with these disks, in the order of their identities.
    List {
        /// Which unit.
        unit: String,
        /// Its disks.
        disks: Vec<u128>,
    },
    /// The sender lists the unit no more.
    Unlist {
        /// Which unit.
        unit: String,
    },
    /// A client has come to the sender for the unit, or the last one has gone.
    Client {
        /// Which unit.
        unit: String,
        /// Whether one is there.
        is_there: bool,
    },
    /// An operator or a hook of the sender says that the VM is about to move.
    Announce {
        /// Which unit.
        unit: String,
    },
    /// A guest of the sender asks to write: see `handoff`.
    Claim {
        /// Which unit.
        unit: String,
        /// Whether the guest's connection is of the sender's last epoch.
        is_return: bool,
    },
    /// The receiver is the owner.
    Grant {
        /// Which unit.
        unit: String,
        /// The receiver's epoch.
        epoch: u64,
    },
    /// A claim is refused.
    Refuse {
        /// Which unit.
        unit: String,
        /// Why.
        why: Refusal,
    },
    /// The guest of the sender has evidently stopped: a read at the receiver may claim.
    Stopped {
        /// Which unit.
        unit: String,
    },
    /// What is the disk to the receiver, and what is in the way of a hand-over there? Answered with `Look` or
    /// `NotServed`.
    AskLook {
        /// Which disk.
        disk: u128,
    },
    /// What the disk is to the sender.
    Look {
        /// What is seen of it.
        look: DiskLook,
    },
    /// A standby reads at the owner. Answered with `Bytes` or `NotServed`.
    Read {
        /// Which disk.
        disk: u128,
        /// From which byte.
        offset: u64,
        /// How many bytes; at most [`crate::DATA_MAX`].
        length: u32,
    },
    /// The bytes are the frame's data.
    Bytes,
    /// The question cannot be answered.
    NotServed {
        /// Why.
        why: NotServed,
    },
    /// Nothing; but the sender is there.
    Alive,
    /// Which blocks of a disk has the host that granted it in the segment at this place of its list, the newest
    /// first? Answered with `Contents` or `NotServed`.
    AskContents {
        /// Which disk.
        disk: u128,
        /// The sender's epoch, which the receiver has granted, or that of `Watched`.
        epoch: u64,
        /// Which segment of the list; the list is made when it is 0.
        at: u32,
    },
    /// The frame's data are runs of blocks ([`crate::encode_runs`]).
    Contents {
        /// How many segments the list has.
        segments: u32,
    },
    /// What do these blocks have at the host that granted the disk? Answered with `Bytes`, of fewer blocks than
    /// were asked for or of all, or with `NotServed`.
    AskBlocks {
        /// Which disk.
        disk: u128,
        /// The sender's epoch, which the receiver has granted, or that of `Watched`.
        epoch: u64,
        /// The first block.
        first: u64,
        /// How many; at most [`crate::DATA_MAX`] bytes.
        count: u32,
    },
    /// The sender stands by for a disk and begins to copy its cache: the receiver, which has the disk, notes from
    /// now on what its guests change. Answered with `Watched` or `NotServed`.
    AskWatch {
        /// Which disk.
        disk: u128,
    },
    /// The guests' changes are noted. `AskContents`, `AskBlocks` and `AskStale` are answered, too, if they name
    /// this epoch.
    Watched {
        /// The sender's own.
        epoch: u64,
    },
    /// What have the receiver's guests changed since this was asked last? Answered with `Stale`, until that is
    /// empty; or with `NotServed`: then nothing that was copied counts.
    AskStale {
        /// Which disk.
        disk: u128,
        /// The epoch of `Watched`.
        epoch: u64,
    },
    /// The frame's data are runs of blocks ([`crate::encode_runs`]); if there are none that was all.
    Stale,
    /// As `AskWatch`; but the sender copies from the origin, and the receiver notes what changes there.
    AskWatchOrigin {
        /// Which disk.
        disk: u128,
    },
    /// What was announced does not come.
    Withdraw {
        /// Which unit.
        unit: String,
    },
    /// What of the disk does the origin lack? Records of the receiver's log, which has the disk, from a number on. The
    /// sender stands by and has every record before it durably. Answered with `Records` or `NotServed`.
    AskRecords {
        /// Which disk.
        disk: u128,
        /// The epoch of `Watched`.
        epoch: u64,
        /// The first record that is asked for. The greatest number: the sender keeps none after all, and asks for none.
        from: u64,
        /// The oldest record that the origin lacked by the last answer, if the sender has that durably, too.
        settled: Option<u64>,
        /// The cache of the sender, which keeps them.
        cache: u128,
    },
    /// The frame's data are records that follow each other ([`crate::encode_records`]); none, if there are none from
    /// that number on.
    Records {
        /// The period of the receiver's cache in which they were written, by the owner's record.
        period: u64,
        /// The number of the first one.
        first: u64,
        /// The origin has every record before this one, durably.
        base: u64,
        /// The number that the next record gets.
        end: u64,
    },
    /// What the VM of the disk wanted of the sender's flash in the last window there, by which the receiver divides its own
    /// when the disk has come. It is said before `Grant`.
    Demand {
        /// Which disk.
        disk: u128,
        /// Blocks accessed.
        accessed: u64,
        /// Blocks used again.
        reused: u64,
        /// Reads in 1,000 seconds.
        reads: u64,
        /// Sizes of cache in blocks, rising, and how many reads of a million each would hit: at most [`CURVE_POINTS_MAX`].
        curve: Vec<(u64, u32)>,
    },
    /// A VM that reads this base image is about to come to the sender, whose image is known by this: may blocks of the
    /// receiver's be read as the sender's? Answered with `Watched`, whose number `AskContents` and `AskBlocks` name then; or
    /// with `NotServed`.
    AskImage {
        /// Which image.
        disk: u128,
        /// What the sender knows it by.
        image: Box<ImageLook>,
    },
    /// What the sender does about the unit's move is this span of this trace: what the receiver does about it is below. Said
    /// before `Announce` and `Claim`, to who takes it by the preface's features.
    Traced {
        /// Which unit.
        unit: String,
        /// The trace's number, which is not 0.
        trace: u128,
        /// The span's, which is not 0.
        span: u64,
        /// Whether the trace is recorded.
        is_sampled: bool,
    },
}

/// Of so many reads a curve says how many hit.
pub const HITS_OF: u32 = 1_000_000;

/// Why a claim is refused: `handoff`'s words on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// Nothing says that the owner's guest has stopped.
    GuestRuns,
    /// The owner's guest asked for something meanwhile.
    GuestAsked,
    /// The owner could not bring everything to the origin, or could not note its decision.
    Failed,
    /// The owner is about to take the disks itself.
    Busy,
    /// The disks were to come back, and the new owner's guest has changed them.
    Changed,
    /// The receiver of the claim does not have them.
    NotOwner,
    /// The unit does not have the same disks at both hosts.
    OtherDisks,
}

/// Why a question of a standby is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotServed {
    /// The disk is not served here.
    Elsewhere,
    /// The read failed.
    Failed,
    /// The range is not inside the disk, or is too long.
    Range,
    /// The receiver's base image is another one.
    OtherImage,
}

/// What a host knows a base image by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageLook {
    /// Its size in bytes.
    pub size: u64,
    /// A hash of some of its blocks.
    pub sample: u128,
    /// What changes with the file that it is, if its origin is one.
    pub fingerprint: Option<u128>,
}

/// What a disk is to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskLook {
    /// Its size in bytes, if it is known.
    pub size: Option<u64>,
    /// Whether its blocks are encrypted on the host's flash.
    pub is_encrypted: bool,
    /// What the host is to it.
    pub role: DiskRole,
    /// Who has it by the owner's record that the host reads.
    pub holder: Option<Holder>,
    /// What is in the way of a hand-over at the host.
    pub obstacles: Vec<Obstacle>,
    /// What it is known by, if it is a base image that is served.
    pub image: Option<Box<ImageLook>>,
    /// What its origin lacks, and what becomes of that at the host; none if it is not under write-back there.
    pub dirty: Option<DirtyLook>,
}

/// What the origin of a disk lacks, and what becomes of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirtyLook {
    /// How many bytes it lacks that the host has.
    pub bytes: u64,
    /// For how many bytes the host has room.
    pub room: u64,
    /// Whether they go along with the disk, as far as the host is asked.
    pub goes_along: bool,
}

/// What a host is to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskRole {
    /// It has the disk.
    Owner,
    /// Another host has it, or nobody.
    Standby,
    /// A hand-over is under way, or who has the disk is not known: an obstacle says so.
    Between,
}

/// Whom an owner's record names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The host.
    pub host: String,
    /// In which epoch.
    pub epoch: u64,
}

/// What is in the way of a hand-over, for an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obstacle {
    code: String,
    detail: String,
    remedy: String,
}

impl Obstacle {
    /// An obstacle of this kind, a word for scripts, with what there is and what to do about it. What is too long is
    /// cut off.
    pub fn new(code: &str, detail: &str, remedy: &str) -> Self {
        let text = |text: &str| {
            let shown = text.chars().map(|c| if c.is_control() { ' ' } else { c });
            let mut kept = String::new();
            for c in shown {
                if kept.len() + c.len_utf8() > OBSTACLE_TEXT_MAX {
                    break;
                }
                kept.push(c);
            }
            kept
        };
        Self {
            code: text(code),
            detail: text(detail),
            remedy: text(remedy),
        }
    }

    /// The word for scripts.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// What there is.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// What to do about it.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }

    fn is_within_limits(&self) -> bool {
        let mut texts = [&self.code, &self.detail, &self.remedy].into_iter();
        texts.all(|text| text.len() <= OBSTACLE_TEXT_MAX && !text.chars().any(char::is_control))
    }
}

impl DiskLook {
    fn is_within_limits(&self) -> bool {
        let holder = self.holder.as_ref();
        self.obstacles.len() <= OBSTACLES_MAX
            && self.obstacles.iter().all(Obstacle::is_within_limits)
            && holder.is_none_or(|holder| {
                holder.host.len() <= HOST_NAME_MAX && !holder.host.chars().any(char::is_control)
            })
    }
}

impl Message {
    /// Whether it keeps to the limits that its types do not express.
    pub(crate) fn is_within_limits(&self) -> bool {
        match self {
            Self::List { unit, disks } => {
                let rises = disks.windows(2).all(|pair| pair[0] < pair[1]);
                is_name(unit) && (1..=UNIT_DISKS_MAX).contains(&disks.len()) && rises
            }
            Self::Unlist { unit }
            | Self::Client { unit, .. }
            | Self::Announce { unit }
            | Self::Withdraw { unit }
            | Self::Claim { unit, .. }
            | Self::Grant { unit, .. }
            | Self::Refuse { unit, .. }
            | Self::Stopped { unit } => is_name(unit),
            Self::Traced {
                unit, trace, span, ..
            } => is_name(unit) && *trace != 0 && *span != 0,
            Self::Look { look } => look.is_within_limits(),
            Self::Read { offset, length, .. } => {
                *length > 0
                    && *length as usize <= DATA_MAX
                    && offset.checked_add(u64::from(*length)).is_some()
            }
            Self::Demand { curve, .. } => {
                let rises = curve.windows(2).all(|pair| pair[0].0 < pair[1].0);
                let are_parts = curve.iter().all(|(_, hits)| *hits <= HITS_OF);
                curve.len() <= CURVE_POINTS_MAX && rises && are_parts
            }
            Self::AskBlocks { first, count, .. } => {
                (1..=BLOCKS_MAX).contains(count) && is_run(*first, *count)
            }
            // Numbers of records rise from what the origin has to what is written next.
            Self::Records {
                first, base, end, ..
            } => base <= first && first <= end,
            Self::AskLook { .. }
            | Self::AskImage { .. }
            | Self::AskRecords { .. }
            | Self::AskContents { .. }
            | Self::Contents { .. }
            | Self::AskWatch { .. }
            | Self::AskWatchOrigin { .. }
            | Self::Watched { .. }
            | Self::AskStale { .. }
            | Self::Stale
            | Self::Bytes
            | Self::NotServed { .. }
            | Self::Alive => true,
        }
    }

    /// Whether it answers a question, whose number its frame has. Who asks numbers the questions: those of two hosts may
    /// have the same numbers.
    pub const fn is_answer(&self) -> bool {
        match self {
            Self::Look { .. }
            | Self::Bytes
            | Self::NotServed { .. }
            | Self::Contents { .. }
            | Self::Watched { .. }
            | Self::Records { .. }
            | Self::Stale => true,
            Self::List { .. }
            | Self::Unlist { .. }
            | Self::Client { .. }
            | Self::Announce { .. }
            | Self::Claim { .. }
            | Self::Grant { .. }
            | Self::Refuse { .. }
            | Self::Stopped { .. }
            | Self::AskLook { .. }
            | Self::Read { .. }
            | Self::Alive
            | Self::AskContents { .. }
            | Self::AskBlocks { .. }
            | Self::AskWatch { .. }
            | Self::AskWatchOrigin { .. }
            | Self::AskStale { .. }
            | Self::AskRecords { .. }
            | Self::Demand { .. }
            | Self::AskImage { .. }
            | Self::Traced { .. }
            | Self::Withdraw { .. } => false,
        }
    }

    /// Whether data may come with it.
    pub(crate) const fn has_data(&self) -> bool {
        matches!(
            self,
            Self::Bytes | Self::Contents { .. } | Self::Stale | Self::Records { .. }
        )
    }
}

fn is_name(unit: &str) -> bool {
    (1..=UNIT_NAME_MAX).contains(&unit.len())
}
