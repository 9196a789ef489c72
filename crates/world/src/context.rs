//! What the operator and the guests of a host find there: the run, all disks, the flash that is in use,
//! and the process. And what is only known from several of these together.

use crate::device::CacheDevice;
use crate::disk::Disk;
use crate::disks::Disks;
use crate::process::Process;
use crate::run::Run;
use cache::WritePolicy;

/// See the module's header.
pub(crate) struct Context<'a> {
    /// Time, dice and the record.
    pub run: &'a mut Run,
    /// Every disk of the world.
    pub disks: &'a mut Disks,
    /// The flash that is in use.
    pub device: &'a CacheDevice,
    /// The process of this life.
    pub process: &'a mut Process,
}

impl Context<'_> {
    /// Whether this flash, or what the world does to flashes, can be to blame for bytes that are
    /// lost.
    pub(crate) fn flash_is_suspect(&self) -> bool {
        self.device.is_suspect() || self.run.settings().rates.blame_the_flash()
    }

    /// Whether writes of a disk wait on flash: without flash they go to the origin, whatever its
    /// policy is, and its record is closed.
    pub(crate) fn goes_back_now(&self, number: usize) -> bool {
        let is_back = self.process.policy_of(number) == Some(WritePolicy::Back);
        is_back && self.disks[number].is_open()
    }

    /// Whether a disk has to be kept where another cache has it.
    pub(crate) fn belongs_elsewhere(&self, number: usize) -> bool {
        self.disks[number].belongs_elsewhere(self.device.uuid())
    }

    /// Whether a disk that is not served may have bytes on this flash that nobody brings to its origin,
    /// or gives up because another cache had the disk since: they may be all that there is room for.
    pub(crate) fn somebody_absent_waits(&self) -> bool {
        somebody_absent_waits(self.run, self.disks, self.device, self.process)
    }

    /// Somebody else writes disks that are detached and would show it.
    pub(crate) fn strangers_write(&mut self) {
        let process = &*self.process;
        let away = |number| process.disk(number).is_away();
        self.disks.strangers_write(away, self.run);
    }
}

/// See [`Context::somebody_absent_waits`].
pub(crate) fn somebody_absent_waits(
    run: &Run,
    disks: &Disks,
    device: &CacheDevice,
    process: &Process,
) -> bool {
    let moves = run.settings().back.is_some_and(|back| back.two_caches);
    let is_here = |disk: &Disk| disk.is_open_to(device.uuid());
    disks.iter().enumerate().any(|(number, disk)| {
        let is_absent = process.disk(number).served_as().is_none();
        is_absent && disk.owner().is_some() && (moves || is_here(disk))
    })
}
