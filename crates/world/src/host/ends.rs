//! How a life of the process ends, and what befalls flash and origins until the next.

use super::Host;
use crate::disks::Disks;
use crate::owner_records;
use crate::process::Process;
use crate::run::Run;
use crate::settings::End;
use crate::violation::Violation;

impl Host {
    /// The process ends; it has `died` if it did not come to its end by itself.
    ///
    /// # Errors
    /// A violation if an origin must not hold what it holds now.
    pub(crate) fn end(
        &mut self,
        died: bool,
        run: &mut Run,
        disks: &mut Disks,
    ) -> Result<(), Violation> {
        run.event(&[13, u64::from(died)], || {
            format!("=== the process ends, died: {died}")
        });
        self.life.process.count_marks(run);
        if died {
            run.hit("crash");
        }
        self.bay.in_use().mark_writes_in_flight(run);
        let end = self.life.settings.end;
        let power_cut = end == End::PowerCut;
        self.life.leave_emptied_flash(disks);
        let lands = run.one_in(2);
        // The power may go after a clean stop, too: to flash that does not lie it would make no difference.
        let lies = self.bay.in_use().lies_about_durability();
        let stopped = end == End::CleanStop && !died;
        let flash_cut = power_cut || (lies && stopped && run.one_in(2));
        if flash_cut && lies {
            let committed = self.life.process.committed();
            self.bay
                .in_use_mut()
                .spare_what_leaves_no_trace(committed, run);
        }
        self.life.state_directory.end(lands, self.bay.in_use_mut());
        owner_records::end(&mut self.life.process, disks, run);
        if flash_cut {
            run.hit("power cut");
        }
        self.bay.in_use_mut().end(flash_cut);
        let origins_cut = power_cut && run.settings().origin_loses_power;
        let handles = self.life.process.take_origins();
        for (disk, handle) in disks.iter_mut().zip(handles) {
            disk.origin_mut().end(handle, origins_cut, run);
        }
        let now = run.next_moment();
        for disk in disks.iter_mut() {
            disk.history_mut().crashed(now);
        }
        let process = Process::new(disks.count(), None);
        let dead = std::mem::replace(&mut self.life.process, process);
        self.look_at_origins(&dead, power_cut, origins_cut, run, disks)?;
        disks.strangers_write(|_| true, run);
        self.bay.in_use_mut().put_back_an_old_copy(run);
        self.bay.in_use_mut().rot_at_rest(run);
        self.bay.change(run, disks);
        Ok(())
    }

    /// What the origins hold after a crash is what counts from now on. `dead` is the process that died.
    fn look_at_origins(
        &self,
        dead: &Process,
        power_cut: bool,
        origins_cut: bool,
        run: &mut Run,
        disks: &mut Disks,
    ) -> Result<(), Violation> {
        let now = run.next_moment();
        let suspect = self.bay.in_use().is_suspect() || run.settings().rates.blame_the_flash();
        for (number, disk) in disks.iter_mut().enumerate() {
            let attachment = dead.disk(number);
            if !attachment.is_away() {
                disk.torn_away();
            }
            if attachment.is_dropping() && !disk.is_open() {
                disk.go_on_from_origin(run)?;
            } else {
                disk.look_after_crash(origins_cut, power_cut || suspect, now)?;
            }
        }
        Ok(())
    }
}
