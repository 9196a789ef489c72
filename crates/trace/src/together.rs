//! Several files as one trace: parts one after the other, or machines merged by time.
//!
//! Volumes of the same VM and name are one volume, whichever file they come from; give each file a VM of its
//! own to keep them apart.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::path::{Path, PathBuf};

use crate::error::ReadError;
use crate::generate::PREFIX;
use crate::limits::BATCH_RECORDS;
use crate::open::{OpenError, Opened, Options, open};
use crate::record::{Record, Volume, VolumeIndex, Volumes};
use crate::records::{Reader, Records};

/// One of several files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The file.
    pub path: PathBuf,
    /// The VM that its volumes belong to, instead of what the format or [`Options::vm`] says. A VM that the
    /// trace itself names goes into the volume's name, so that the disks of two VMs in a file stay two.
    pub vm: Option<String>,
}

/// How the records of several files become one trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// All of the first file, then all of the second: a trace that was published in parts.
    OneAfterOther,
    /// By time, the earlier file first where times are equal. Each file should be sorted.
    ByTime {
        /// Every file starts at time zero, whatever its clock says: traces that were taken at other times.
        from_zero: bool,
    },
}

/// Opens several files as one trace. Unless the options name a format for all, parts of one trace have the format of the
/// first, and of machines merged by time each file is recognised by itself; a file in which nothing is recognised is
/// read as the first one.
///
/// # Errors
/// If one of them does not exist, or the first one cannot be opened (or any, to be merged by time).
///
/// # Panics
/// If there is no part.
pub fn open_together(
    parts: &[Part],
    arrangement: Arrangement,
    options: &Options,
) -> Result<Opened, OpenError> {
    let (first, others) = parts.split_first().expect("at least one file");
    let is_file =
        |path: &Path| path != Path::new("-") && !path.to_string_lossy().starts_with(PREFIX);
    for part in others.iter().filter(|part| is_file(&part.path)) {
        // Days of reading should not end at a misspelt name.
        std::fs::metadata(&part.path).map_err(|source| ReadError::Input {
            file: part.path.display().to_string(),
            unpacked_bytes: 0,
            remedy: "check the path and the permissions",
            source,
        })?;
    }
    let mut opened = open(&first.path, options)?;
    let as_first = Options {
        format: Some(opened.format),
        ..options.clone()
    };
    opened.reader = match arrangement {
        Arrangement::OneAfterOther => Box::new(Parts {
            current: Some(Source::new(opened.reader, first.vm.clone())),
            rest: others.iter().cloned().collect(),
            options: as_first,
            volumes: Volumes::new(),
        }),
        Arrangement::ByTime { from_zero } => {
            let mut lanes = vec![Lane::new(opened.reader, first.vm.clone())];
            for part in others {
                let reader = open_machine(&part.path, options, &as_first)?.reader;
                lanes.push(Lane::new(reader, part.vm.clone()));
            }
            Box::new(Merged {
                lanes,
                order: None,
                from_zero,
                volumes: Volumes::new(),
            })
        }
    };
    Ok(opened)
}

/// Opens the trace of another machine: in its own format, or as the first one if it does not tell.
fn open_machine(path: &Path, given: &Options, as_first: &Options) -> Result<Opened, OpenError> {
    match open(path, given) {
        Err(
            OpenError::Unknown { .. } | OpenError::Ambiguous { .. } | OpenError::NoColumns { .. },
        ) => open(path, as_first),
        opened => opened,
    }
}

/// A reader whose volumes are translated into the whole trace's.
struct Source {
    reader: Box<dyn Reader>,
    /// By the reader's place, the place in the whole.
    places: Vec<VolumeIndex>,
    /// The VM of all of them, if given.
    vm: Option<String>,
}

impl Source {
    fn new(reader: Box<dyn Reader>, vm: Option<String>) -> Self {
        Self {
            reader,
            places: Vec::new(),
            vm,
        }
    }

    fn read_batch(
        &mut self,
        records: &mut Records,
        volumes: &mut Volumes,
    ) -> Result<bool, ReadError> {
        let more = self.reader.read_batch(records);
        for (_, volume) in self.reader.volumes().iter().skip(self.places.len()) {
            self.places.push(match &self.vm {
                Some(vm) => volumes.intern(&volume_of(vm, volume)),
                None => volumes.intern(volume),
            });
        }
        records.translate(|volume| self.places[volume.to_usize()]);
        more
    }
}

/// The volume as one of that VM.
fn volume_of(vm: &str, volume: &Volume) -> Volume {
    // A base image is the same one, whichever file asks for it.
    let name = if volume.vm.is_empty() || volume.is_base_image() {
        volume.name.clone()
    } else {
        format!("{}/{}", volume.vm, volume.name)
    };
    Volume {
        vm: vm.to_owned(),
        name,
    }
}

struct Parts {
    current: Option<Source>,
    rest: VecDeque<Part>,
    options: Options,
    volumes: Volumes,
}

impl Reader for Parts {
    fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
        records.clear();
        while let Some(source) = &mut self.current {
            if source.read_batch(records, &mut self.volumes)? {
                return Ok(true);
            }
            self.current = None;
            while let Some(part) = self.rest.pop_front() {
                match open(&part.path, &self.options) {
                    Ok(opened) => {
                        self.current = Some(Source::new(opened.reader, part.vm));
                        break;
                    }
                    // An hour without a request.
                    Err(OpenError::Empty { .. }) => {}
                    Err(OpenError::Read(error)) => return Err(error),
                    Err(error) => return Err(ReadError::Part(Box::new(error))),
                }
            }
        }
        Ok(false)
    }

    fn volumes(&self) -> &Volumes {
        &self.volumes
    }
}

/// A file and its next records.
struct Lane {
    source: Source,
    batch: Records,
    /// The records of the batch that are left.
    next: VecDeque<Record>,
    /// What is taken off its times.
    zero_us: u64,
}

impl Lane {
    fn new(reader: Box<dyn Reader>, vm: Option<String>) -> Self {
        Self {
            source: Source::new(reader, vm),
            batch: Records::new(),
            next: VecDeque::new(),
            zero_us: 0,
        }
    }

    /// The time of its next record, read if it must be; `None` at its end.
    fn time(&mut self, volumes: &mut Volumes) -> Result<Option<u64>, ReadError> {
        if self.next.is_empty() {
            self.source.read_batch(&mut self.batch, volumes)?;
            self.next.extend(&self.batch);
        }
        let record = self.next.front();
        Ok(record.map(|record| record.time_us.saturating_sub(self.zero_us)))
    }
}

struct Merged {
    lanes: Vec<Lane>,
    /// The next time of each lane; made at the first call.
    order: Option<BinaryHeap<Reverse<(u64, usize)>>>,
    from_zero: bool,
    volumes: Volumes,
}

impl Merged {
    fn begin(&mut self) -> Result<BinaryHeap<Reverse<(u64, usize)>>, ReadError> {
        let mut order = BinaryHeap::new();
        for (place, lane) in self.lanes.iter_mut().enumerate() {
            if let Some(time) = lane.time(&mut self.volumes)? {
                if self.from_zero {
                    lane.zero_us = time;
                }
                order.push(Reverse((time - lane.zero_us, place)));
            }
        }
        Ok(order)
    }
}

impl Reader for Merged {
    fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
        records.clear();
        let mut order = match self.order.take() {
            Some(order) => order,
            None => self.begin()?,
        };
        while records.len() < BATCH_RECORDS {
            let Some(Reverse((_, place))) = order.pop() else {
                break;
            };
            let lane = &mut self.lanes[place];
            if let Some(mut record) = lane.next.pop_front() {
                record.time_us = record.time_us.saturating_sub(lane.zero_us);
                records.push(record);
            }
            if let Some(time) = lane.time(&mut self.volumes)? {
                order.push(Reverse((time, place)));
            }
        }
        self.order = Some(order);
        Ok(!records.is_empty())
    }

    fn volumes(&self) -> &Volumes {
        &self.volumes
    }
}
