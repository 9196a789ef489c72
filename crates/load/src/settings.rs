//! What is to be done to which target.

use crate::LoadError;
use crate::limits::{BUFFER_BYTES_MAX, DEPTH_MAX, JOBS_MAX};
use crate::target::{Address, Geometry};
use units::{Bytes, Duration};
use workload::{BlockSizes, Plan, Region, Shape, Spread, SyncEvery};

/// Not faster than this, each job and each direction by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Bytes a second.
    pub bytes: Option<u64>,
    /// Requests a second.
    pub requests: Option<u64>,
}

/// How data are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verify {
    /// Bytes of a checked block; the smallest request if there is no number.
    pub interval: Option<u64>,
    /// Whether what was written is read back at the end.
    pub read_back: bool,
}

/// A load: fio's parameters.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the report's jobs.
    pub name: String,
    /// What is loaded.
    pub target: Address,
    /// Directions and order.
    pub shape: Shape,
    /// How long requests are.
    pub sizes: BlockSizes,
    /// Requests of a job in flight.
    pub iodepth: usize,
    /// Jobs, each a thread with a connection, queue or descriptor of its own.
    pub numjobs: usize,
    /// Where a job's region begins, in bytes.
    pub offset: u64,
    /// How much further the next job's region begins, in bytes.
    pub offset_increment: u64,
    /// A job's region, in bytes; to the target's end if there is no number.
    pub size: Option<u64>,
    /// Bytes that a job moves; as many as its region has if there is no number.
    pub io_size: Option<u64>,
    /// When it ends at the latest, warm-up not counted.
    pub runtime: Option<Duration>,
    /// Whether to go on until `runtime` has passed, again and again through the region.
    pub time_based: bool,
    /// What is not counted, at the beginning.
    pub ramp_time: Duration,
    /// How often which place is drawn.
    pub spread: Spread,
    /// Whether random places may come again before all have come.
    pub norandommap: bool,
    /// Of mixed loads, the share of reads in percent.
    pub rwmixread: u64,
    /// Not faster than this.
    pub rates: Rates,
    /// Syncs between writes.
    pub sync: Option<SyncEvery>,
    /// How data are checked, if they are.
    pub verify: Option<Verify>,
    /// The dice.
    pub randseed: u64,
}

impl Settings {
    /// Finds what contradicts itself, whatever the target is.
    ///
    /// # Errors
    /// [`LoadError::Unfit`].
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        let within = |name: &str, value: usize, most: usize| {
            if (1..=most).contains(&value) {
                return Ok(());
            }
            let what = format!("{name} is {value}");
            Err(LoadError::unfit(what, format!("--{name} 1 to {most}")))
        };
        within("iodepth", self.iodepth, DEPTH_MAX)?;
        within("numjobs", self.numjobs, JOBS_MAX)?;
        if self.time_based && self.runtime.is_none() {
            return Err(LoadError::unfit(
                "a load that goes by time has no time",
                "--runtime SECONDS",
            ));
        }
        if self.rates.bytes == Some(0) || self.rates.requests == Some(0) {
            return Err(LoadError::unfit(
                "at a rate of zero nothing happens",
                "a rate from 1 on, or none",
            ));
        }
        if self.sync.is_some_and(|sync| sync.writes == 0) {
            return Err(LoadError::unfit(
                "a sync after every 0 writes never ends",
                "--fsync 1 or more",
            ));
        }
        let requests = self.iodepth.saturating_mul(self.numjobs) as u64;
        let buffers = self.sizes.largest().saturating_mul(requests);
        if buffers > BUFFER_BYTES_MAX {
            let what = format!("the requests' buffers would take {}", Bytes::new(buffers));
            let remedy = "a smaller --iodepth, --numjobs or --bs: at most 4GiB together";
            return Err(LoadError::unfit(what, remedy));
        }
        self.check_verification()
    }

    fn check_verification(&self) -> Result<(), LoadError> {
        let Some(verify) = self.verify else {
            return Ok(());
        };
        let unit = self.sizes.smallest();
        let interval = verify.interval.unwrap_or(unit);
        let sound = interval >= workload::limits::UNIT_BYTES_MIN
            && interval.is_multiple_of(8)
            && unit.is_multiple_of(interval);
        if !sound {
            let what =
                format!("requests of {unit} bytes do not consist of checked blocks of {interval}");
            let remedy = "--verify_interval 512 or more, a divisor of the smallest --bs";
            return Err(LoadError::unfit(what, remedy));
        }
        let apart =
            self.numjobs == 1 || self.size.is_some_and(|size| self.offset_increment >= size);
        if !apart && !matches!(self.shape, Shape::Read | Shape::RandRead) {
            return Err(LoadError::unfit(
                "jobs that write to the same region cannot verify it",
                "--size SIZE --offset_increment SIZE, so that each job has its own; or --numjobs 1",
            ));
        }
        Ok(())
    }

    /// The region of a job on a target, cut to whole requests.
    ///
    /// # Errors
    /// [`LoadError::Unfit`] if it is not on the target.
    fn region(&self, job: usize, geometry: &Geometry) -> Result<Region, LoadError> {
        let device = Bytes::new(geometry.size);
        let step = self.offset_increment.checked_mul(job as u64);
        let offset = step.and_then(|step| step.checked_add(self.offset));
        let offset = offset.filter(|offset| *offset < geometry.size);
        let Some(offset) = offset else {
            let what = format!("job {job} begins behind the target's end ({device})");
            return Err(LoadError::unfit(
                what,
                "a smaller --offset or --offset_increment",
            ));
        };
        let length = self.size.unwrap_or(geometry.size - offset);
        if length > geometry.size - offset {
            let what = format!(
                "job {job} ends behind the target's end: {} from {} on, of {device}",
                Bytes::new(length),
                Bytes::new(offset)
            );
            return Err(LoadError::unfit(what, "a smaller --size, or none"));
        }
        let unit = self.sizes.smallest();
        if length < unit {
            let what = format!("a request of {unit} bytes is longer than its region of {length}");
            return Err(LoadError::unfit(what, "a larger --size or a smaller --bs"));
        }
        let length = length - length % unit;
        let grain = u64::from(geometry.unit);
        if !unit.is_multiple_of(grain) || !offset.is_multiple_of(grain) {
            let what = format!("the target serves multiples of {grain} bytes only");
            return Err(LoadError::unfit(
                what,
                format!("--bs and --offset in multiples of {grain}"),
            ));
        }
        Ok(Region { offset, length })
    }

    /// What a job does on a target.
    ///
    /// # Errors
    /// [`LoadError::Unfit`] if the target cannot.
    pub(crate) fn plan(&self, job: usize, geometry: &Geometry) -> Result<Plan, LoadError> {
        if geometry.read_only && (self.shape.writes() || self.shape.trims()) {
            return Err(LoadError::unfit(
                "the target can only be read",
                "--rw read or randread, or a target that can be written",
            ));
        }
        if self.shape.trims() && !geometry.can_trim {
            return Err(LoadError::unfit("the target cannot trim", "another --rw"));
        }
        if self.sync.is_some() && self.shape.writes() && !geometry.can_flush {
            return Err(LoadError::unfit(
                "the target cannot flush",
                "no --fsync or --fdatasync",
            ));
        }
        if self.sizes.largest() > u64::from(geometry.request_max) {
            let most = Bytes::new(u64::from(geometry.request_max));
            let what = format!("the target takes requests of at most {most}");
            return Err(LoadError::unfit(what, "a smaller --bs"));
        }
        if self.iodepth > geometry.depth_max {
            let most = geometry.depth_max;
            let what = format!("a queue of the target holds {most} requests");
            let remedy = format!("--iodepth {most} or less, and more --numjobs");
            return Err(LoadError::unfit(what, remedy));
        }
        let region = self.region(job, geometry)?;
        Ok(Plan {
            shape: self.shape,
            sizes: self.sizes.clone(),
            spread: self.spread.clone(),
            each_once: !self.norandommap,
            region,
            read_percent: self.rwmixread,
            sync: self.sync,
            bytes: (!self.time_based).then(|| self.io_size.unwrap_or(region.length)),
            // Jobs differ, and a job's dice do not depend on how many there are.
            seed: self.randseed ^ (job as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn settings() -> Settings {
        Settings {
            name: "test".to_owned(),
            target: Address::File {
                path: "disk".into(),
                direct: true,
            },
            shape: Shape::RandRead,
            sizes: "4k".parse().unwrap(),
            iodepth: 1,
            numjobs: 1,
            offset: 0,
            offset_increment: 0,
            size: None,
            io_size: None,
            runtime: None,
            time_based: false,
            ramp_time: Duration::ZERO,
            spread: Spread::Uniform,
            norandommap: false,
            rwmixread: 50,
            rates: Rates::default(),
            sync: None,
            verify: None,
            randseed: 1,
        }
    }

    const GEOMETRY: Geometry = Geometry {
        size: 1 << 20,
        unit: 512,
        request_max: 1 << 20,
        erase_max: 1 << 20,
        depth_max: 341,
        read_only: false,
        can_trim: true,
        can_zero: true,
        can_flush: true,
    };

    fn remedy(error: LoadError) -> String {
        match error {
            LoadError::Unfit { remedy, .. } => remedy.0,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_job_has_the_rest_of_the_target_unless_told_otherwise() {
        let offset = Settings {
            offset: 512 << 10,
            ..settings()
        };
        let plan = offset.plan(0, &GEOMETRY).unwrap();
        assert_eq!(
            (plan.region.offset, plan.region.length),
            (512 << 10, 512 << 10)
        );
        assert_eq!(plan.bytes, Some(512 << 10));
        let forever = Settings {
            time_based: true,
            runtime: Some(Duration::from_secs(1)),
            ..settings()
        };
        assert_eq!(forever.plan(0, &GEOMETRY).unwrap().bytes, None);
    }

    #[test]
    fn jobs_have_dice_of_their_own_and_regions_apart_if_told_so() {
        let two = Settings {
            numjobs: 2,
            size: Some(256 << 10),
            offset_increment: 512 << 10,
            ..settings()
        };
        let (first, second) = (
            two.plan(0, &GEOMETRY).unwrap(),
            two.plan(1, &GEOMETRY).unwrap(),
        );
        assert_eq!((first.region.offset, second.region.offset), (0, 512 << 10));
        assert_eq!(first.seed, 1);
        assert_ne!(first.seed, second.seed);
        assert!(two.plan(2, &GEOMETRY).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_would() {
        let change = |change: fn(&mut Settings)| {
            let mut settings = settings();
            change(&mut settings);
            let checked = settings.check().and_then(|()| settings.plan(0, &GEOMETRY));
            remedy(checked.map(drop).unwrap_err())
        };
        assert!(change(|s| s.iodepth = 0).contains("--iodepth"));
        assert!(change(|s| s.iodepth = 342).contains("--numjobs"));
        assert!(change(|s| s.size = Some(2 << 20)).contains("--size"));
        assert!(change(|s| s.offset = 1 << 20).contains("--offset"));
        assert!(change(|s| s.offset = 100).contains("multiples of 512"));
        assert!(change(|s| s.time_based = true).contains("--runtime"));
        assert!(change(|s| s.sizes = "2m".parse().unwrap()).contains("--bs"));
        assert!(change(|s| s.rates.bytes = Some(0)).contains("rate"));
        assert!(
            change(|s| {
                s.numjobs = 2;
                s.shape = Shape::RandWrite;
                s.verify = Some(Verify {
                    interval: None,
                    read_back: true,
                });
            })
            .contains("--offset_increment")
        );
        assert!(
            change(|s| {
                s.verify = Some(Verify {
                    interval: Some(3000),
                    read_back: true,
                });
            })
            .contains("--verify_interval")
        );
    }

    #[test]
    fn a_read_only_target_is_not_written() {
        let geometry = Geometry {
            read_only: true,
            ..GEOMETRY
        };
        let writes = Settings {
            shape: Shape::RandRw,
            ..settings()
        };
        assert!(writes.plan(0, &geometry).is_err());
        assert!(settings().plan(0, &geometry).is_ok());
    }
}
