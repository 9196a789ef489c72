//! Opening the cache: recovery, and what the host does if the flash cannot be used.

use crate::host::Software;
use crate::violation::Violation;
use crate::world::{Stop, World};
use block_io::IoError;
use cache::Cache;

impl World {
    pub(crate) fn open_cache(&mut self) -> Result<Stop, Violation> {
        let recovery = self.device.recovery(&mut self.run);
        self.host.software = Software::Recovery(Box::new(recovery));
        loop {
            if self.host.is_up() {
                return Ok(Stop::Reached);
            }
            let before = self.operations;
            // Looked at after each operation: `finished` gives its answer once.
            let moved = move |world: &Self| world.operations != before;
            if let Software::Recovery(recovery) = &mut self.host.software
                && let Some(finished) = recovery.finished()
            {
                self.cache_is_open(finished);
                continue;
            }
            if self.drive_opening(moved)? == Stop::Crashed {
                self.run.hit("crash while opening");
                return Ok(Stop::Crashed);
            }
        }
    }

    /// Opening has no deadline of its own: flash that stalls is given up by the shell.
    fn drive_opening(&mut self, moved: impl Fn(&Self) -> bool) -> Result<Stop, Violation> {
        self.carry_out_effects()?;
        if self.device.next_deadline().is_none() && !self.crashed {
            self.cache_is_open(Err(cache::OpenError::Io(IoError::TimedOut)));
            return Ok(Stop::Reached);
        }
        self.drive("the cache being opened", moved)
    }

    fn cache_is_open(&mut self, finished: Result<cache::Recovered, cache::OpenError>) {
        self.run.event(&[11], || format!("opened: {finished:?}"));
        let cache = match finished {
            Ok(recovered) => {
                self.run.hit(if recovered.clean {
                    "clean start"
                } else {
                    "start after a crash"
                });
                self.run.hit_many("blocks came back", recovered.blocks);
                self.run.hit_many("descriptors lost", recovered.blocks_lost);
                match recovered.cold {
                    Some(cache::ColdReason::Retired) => self.run.hit("cold: retired"),
                    Some(cache::ColdReason::JournalDamaged) => {
                        self.run.hit("cold: journal damaged");
                    }
                    Some(cache::ColdReason::OlderCopy) => self.run.hit("cold: older copy"),
                    None => {}
                }
                self.device.in_use(recovered.cache.status().incarnation);
                recovered.cache
            }
            Err(error) => {
                self.run.hit("flash could not be opened");
                self.device.not_opened();
                let config = self.run.settings().config.clone();
                Cache::bypassed(
                    config,
                    self.run.pool().clone(),
                    error.to_string(),
                    self.run.now(),
                )
            }
        };
        self.host.software = Software::Cache(Box::new(cache));
    }
}
