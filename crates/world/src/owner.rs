//! Who has a disk, as recorded with its origin; what may follow from it; and what the operator does
//! when the bytes that the origin lacks are gone.
//!
//! The record is the world's own knowledge: it is durable when the state directory says so, and a
//! crash may find it half-way. What the cache asks to be recorded is held against what the origin
//! holds at that moment, and every refusal of a command against the record.

use crate::back::look_at_origin_alone;
use crate::commands::What;
use crate::disk::Standing;
use crate::host::Software;
use crate::phases::name_of;
use crate::violation::Violation;
use crate::world::World;
use block_io::Token;
use cache::{Command, ControlError, Mode, OwnerRecord, WriteBack, WritePolicy};
use units::{Bytes, DiskId, Duration, Instant, SECTOR_BYTES};

/// A record on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owning {
    token: Token,
    record: OwnerRecord,
    pub(crate) until: Instant,
    recorded: bool,
}

impl World {
    /// The cache asks to record who has a disk.
    pub(crate) fn record_owner(
        &mut self,
        token: Token,
        id: DiskId,
        record: OwnerRecord,
    ) -> Result<(), Violation> {
        self.count_operation();
        if self.crashed {
            return Ok(());
        }
        let fails = self.run.settings().back.map_or(0, |back| back.own_fails);
        let fails = self.run.one_in(fails);
        let until = self.run.now() + Duration::from_micros(1 + self.run.below(20_000));
        self.run.event(&[18, record.epoch], || {
            format!("own {} {id:?} {record:?}, fails: {fails}", token.0)
        });
        let uuid = self.device.uuid();
        let Some(disk) = self.disks.iter().find(|disk| disk.id == id) else {
            return Err(Violation::new("I4", format!("a record for {id:?}")));
        };
        // A host without flash has no cache to name.
        let nobody = record.cache == 0 && !record.open && self.is_bypassed();
        if record.cache != uuid && !nobody {
            return Err(Violation::new(
                "I5",
                format!("cache {uuid:x} asks to record {record:?}"),
            ));
        }
        if let Some(before) = disk.owner
            && (record.epoch < before.epoch || (before.open && before.cache != uuid))
        {
            return Err(Violation::new(
                "I5",
                format!("{id:?} goes from {before:?} to {record:?}"),
            ));
        }
        if !record.open && disk.is_open() && !disk.back.dropping {
            self.run.hit("owner's record closed");
            let now = self.run.current_moment();
            let disk = self.disks.iter().find(|disk| disk.id == id);
            disk.expect("it was just there").origin_has(now)?;
        }
        let disk = self.disks.iter_mut().find(|disk| disk.id == id);
        disk.expect("it was just there").owning.push_back(Owning {
            token,
            record,
            until,
            recorded: !fails,
        });
        Ok(())
    }

    /// The first record on its way is durable, or could not be made.
    pub(crate) fn record_is_made(&mut self, number: usize) {
        let Some(owning) = self.disks[number].owning.pop_front() else {
            return;
        };
        // The answer may be lost where the record is not. One that is open then keeps others away, and no more;
        // and what was to be dropped then is there still, until the cache dies.
        let may_stand = !owning.record.open && !self.disks[number].back.dropping;
        if owning.recorded || (may_stand && self.run.one_in(2)) {
            let now = self.run.current_moment();
            self.disks[number].recorded(owning.record, now);
        }
        if !owning.recorded {
            self.run.hit("owner not recorded");
        }
        self.run.event(&[19, u64::from(owning.recorded)], || {
            format!("disk {number} recorded: {owning:?}")
        });
        if let Software::Cache(cache) = &mut self.host.software {
            cache.owned(owning.token, owning.recorded, self.run.now());
        }
    }

    /// The process has died: a record that was on its way is there or not.
    pub(crate) fn owners_at_a_crash(&mut self) {
        let now = self.run.current_moment();
        for disk in &mut self.disks {
            for owning in std::mem::take(&mut disk.owning) {
                if self.run.one_in(2) {
                    disk.recorded(owning.record, now);
                }
            }
        }
    }

    /// Whether this flash, or what the world does to flashes, can be to blame for bytes that are
    /// lost.
    pub(crate) fn flash_is_suspect(&self) -> bool {
        self.device.is_suspect() || self.run.settings().rates.blame_the_flash()
    }

    pub(crate) fn is_bypassed(&self) -> bool {
        match &self.host.software {
            Software::Cache(cache) => cache.status().mode != Mode::Active,
            Software::Down | Software::Recovery(_) => true,
        }
    }

    /// Whether a command about a disk may be refused so.
    pub(crate) fn judge_refusal(
        &mut self,
        number: usize,
        error: ControlError,
    ) -> Result<(), Violation> {
        let disk = &self.disks[number];
        let suspect = self.flash_is_suspect();
        let ours = disk
            .owner
            .is_some_and(|owner| owner.cache == self.device.uuid());
        let origin_fails = self.run.settings().origins_fail();
        let is_late = matches!(&self.host.software, Software::Cache(cache) if cache.is_in_doubt());
        let (mark, may) = match error {
            ControlError::AlreadyAttached
            | ControlError::NotAttached
            | ControlError::UnsupportedSize
            | ControlError::TooManyDisks
            | ControlError::TooManyTenants
            | ControlError::NotShared
            | ControlError::OnlyGrows
            | ControlError::Shared
            | ControlError::Busy
            | ControlError::RetirementOpen => return Ok(()),
            ControlError::UnalignedSize => ("refused: size", !disk.can_go_back()),
            // Only an attach with another size on purpose may be told this, and is not judged here.
            ControlError::SizeChanged => ("refused: size changed", false),
            // Strangers leave an origin alone of which a cache has newer bytes. But flash that failed
            // while a disk was being detached has the fingerprint of before what it gave to the origin
            // afterwards, and so has an old copy.
            ControlError::OriginChanged => ("refused: origin changed", suspect),
            ControlError::OtherKey => (
                "refused: other key",
                disk.is_open() && disk.key != disk.key_coming,
            ),
            ControlError::NoWriteBack => (
                "refused: no write-back",
                disk.settings.read_only || self.is_bypassed(),
            ),
            ControlError::FlashLate => ("refused: flash late", is_late),
            ControlError::Dirty { bytes } => {
                ("refused: dirty", disk.is_open() && bytes > Bytes::ZERO)
            }
            ControlError::Elsewhere { record } => (
                "refused: elsewhere",
                disk.owner == Some(record) && record.open && (!ours || self.is_bypassed()),
            ),
            ControlError::Lost { record } => (
                "refused: lost",
                disk.owner == Some(record) && record.open && ours && suspect,
            ),
            ControlError::Unrecorded { .. } => ("refused: unrecorded", suspect),
            ControlError::Locked(_) => ("refused: locked", suspect),
            ControlError::NotRecorded => (
                "refused: not recorded",
                self.run
                    .settings()
                    .back
                    .is_some_and(|back| back.own_fails > 0),
            ),
            ControlError::Origin(_) => ("refused: origin", origin_fails),
        };
        self.run.hit(mark);
        if may {
            return Ok(());
        }
        let disk = &self.disks[number];
        Err(Violation::new(
            "commands",
            format!(
                "a command about disk {number} was refused with {error:?}; its owner's record: {:?}",
                disk.owner
            ),
        ))
    }

    /// Whether a disk may be attached that the cache says it has attached.
    pub(crate) fn judge_attached(&self, number: usize) -> Result<(), Violation> {
        let owner = self.disks[number].owner;
        match owner {
            Some(record) if record.open && record.cache != self.device.uuid() => {
                Err(Violation::new(
                    "I5",
                    format!(
                        "disk {number} is served, and {record:?} may have what its origin lacks"
                    ),
                ))
            }
            _ => Ok(()),
        }
    }

    /// The operator gives up what waits on a flash: guests go on from what the origin has.
    pub(crate) fn give_up_what_waits(&mut self, number: usize) -> Result<(), Violation> {
        assert_eq!(self.disks[number].standing, Standing::Away);
        self.run.hit("what waited was given up");
        self.run.event(&[20, number as u64], || {
            format!("what waits of disk {number} is given up")
        });
        self.go_on_from_origin(number)?;
        let disk = &mut self.disks[number];
        // An attach that was cut short may have left an epoch on the flash, and no record.
        disk.owner = Some(OwnerRecord {
            epoch: disk.owner.map_or(0, |owner| owner.epoch) + 1,
            cache: 0,
            open: false,
        });
        Ok(())
    }

    /// What the origin holds is the disk from now on.
    pub(crate) fn go_on_from_origin(&mut self, number: usize) -> Result<(), Violation> {
        look_at_origin_alone(&self.disks[number])?;
        if self.disks[number].back.ordered {
            self.run.hit("went on from the origin alone");
        }
        let now = self.run.next_moment();
        let disk = &mut self.disks[number];
        disk.origin.settle_late();
        let mut bytes = vec![0; disk.size().to_usize()];
        disk.origin.peek(Bytes::ZERO, &mut bytes);
        for (sector, content) in (0..).zip(bytes.chunks_exact(crate::checker::SECTOR)) {
            let tag = crate::checker::tag_of(content).ok_or_else(|| {
                Violation::new("I2", format!("sector {sector} is torn at the origin"))
            })?;
            disk.origin.poke(Bytes::new(sector * SECTOR_BYTES), content);
            let sector = usize::try_from(sector).expect("disks are small");
            disk.history.replaced(sector, tag, now);
        }
        disk.version += 1;
        disk.back.ordered = false;
        Ok(())
    }
}

/// The phase of a disk, in the words of [`crate::PHASES`].
fn phase_of(world: &World, number: usize) -> &'static str {
    let disk = &world.disks[number];
    match disk.standing {
        Standing::Away if disk.is_open() => return "detached with what waits",
        Standing::Away => return "detached",
        Standing::Attaching(_) => return "attaching",
        Standing::Detaching(..) => return "detaching",
        Standing::Served(_) => {}
    }
    if world.is_bypassed() {
        return if disk.is_open() {
            "flash failed"
        } else {
            "bypassed"
        };
    }
    let mut changes = world.commanded.values().filter_map(|command| {
        let What::Policy { was_back, policy } = command.what else {
            return None;
        };
        let to_back = policy == WritePolicy::Back;
        (command.number == number && was_back != to_back).then_some(to_back)
    });
    match changes.next() {
        Some(true) => "entering",
        Some(false) => "leaving",
        None if world.policy_now(number) == Some(WritePolicy::Back) => "back",
        None => "through",
    }
}

/// A command about a disk is about to be given.
pub(crate) fn note_tried(world: &mut World, number: usize, command: &Command) {
    if let Some(name) = name_of(command) {
        let phase = phase_of(world, number);
        world.run.tried(name, phase);
    }
}

/// What attaches a disk as it is.
pub(crate) fn attach_command(
    world: &World,
    number: usize,
    policy: WritePolicy,
    write_back: WriteBack,
    tenant: String,
) -> Command {
    let disk = &world.disks[number];
    Command::Attach {
        disk: disk.id,
        name: format!("disk {number}"),
        size: disk.size(),
        policy,
        read_only: disk.settings.read_only,
        tenant,
        shared: disk.settings.shared,
        fingerprint: disk.fingerprint(),
        owner: disk.owner,
        write_back,
    }
}

/// A disk that is here, is coming or is going is attached once more, which must be refused.
pub(crate) fn attach_again(world: &mut World, number: usize) -> Result<(), Violation> {
    // What has been answered already may have changed that.
    world.carry_out_effects()?;
    if world.crashed || world.disks[number].standing == Standing::Away {
        return Ok(());
    }
    let policy = world.draw_policy(number);
    let write_back = world.draw_write_back();
    let tenant = world.tenant_name(number);
    let command = attach_command(world, number, policy, write_back, tenant);
    note_tried(world, number, &command);
    world.control_disk(number, What::AttachAgain, command);
    Ok(())
}
