//! What of a trace is replayed: one volume's requests, and of them those that change nothing unless writes were
//! asked for.
//!
//! The trace is read twice: once to find out what is in it, and once to replay it.

use super::args::ReplayArgs;
use crate::terminal::Progress;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::quantity::count;
use crate::traces::{is_regular, needs_a_file, ruins, unopened};
use load::{Asked, Kind, Requests, Survey};
use std::io;
use std::path::Path;
use trace::info::{Collector, Info, Severity};
use trace::{Op, Record, Records, Volume, VolumeIndex, Volumes};
use units::number::real;
use units::{Duration, Map};

/// Volumes that an error names.
const VOLUMES_NAMED: usize = 10;

/// What a pass over the trace has found.
pub(super) struct Selected {
    /// The volume whose requests are replayed.
    pub(super) volume: Volume,
    /// What they are like.
    pub(super) info: Info,
    /// Requests of that volume that are left out: they change bytes, or have none.
    pub(super) left_out: u64,
    /// For the replay.
    pub(super) survey: Survey,
}

/// Which requests of a trace are meant.
#[derive(Clone, Debug)]
struct Choice {
    vm: Option<String>,
    volume: Option<String>,
    writes: bool,
}

impl Choice {
    fn has(&self, volume: &Volume) -> bool {
        let is = |wanted: &Option<String>, name| wanted.as_ref().is_none_or(|want| want == name);
        is(&self.vm, &volume.vm) && is(&self.volume, &volume.name)
    }

    fn replays(&self, record: &Record) -> bool {
        let changes = record.op != Op::Read;
        let is_empty = record.length.is_zero() && record.op != Op::Flush;
        !is_empty && (self.writes || !changes)
    }
}

/// A volume's requests.
struct Rows<'a> {
    choice: &'a Choice,
    /// Requests of each volume that was chosen, in order of first appearance.
    found: Map<VolumeIndex, u64>,
    left_out: u64,
    survey: Survey,
}

impl Rows<'_> {
    /// Those of a batch that are replayed.
    fn add(&mut self, batch: &Records, volumes: &Volumes, chosen: &mut Records) {
        chosen.clear();
        for record in batch {
            let volume = volumes.get(record.volume);
            if !volume.is_some_and(|volume| self.choice.has(volume)) {
                continue;
            }
            *self.found.entry(record.volume).or_insert(0) += 1;
            if !self.choice.replays(&record) {
                self.left_out += 1;
                continue;
            }
            self.survey.requests += 1;
            self.survey.writes |= record.op != Op::Read;
            if record.op != Op::Flush {
                let end = record.offset.get().saturating_add(record.length.get());
                self.survey.end_bytes = self.survey.end_bytes.max(end);
            }
            if record.op.carries_data() {
                let longest = self.survey.longest_bytes.max(record.length.get());
                self.survey.longest_bytes = longest;
            }
            chosen.push(record);
        }
    }
}

/// Reads the trace once.
///
/// # Errors
/// If it cannot be read, or says not which of several volumes is meant, or has nothing that would be replayed.
pub(super) fn select(path: &Path, asked: &ReplayArgs) -> Result<Selected, CliError> {
    if !path.to_string_lossy().starts_with(trace::generate::PREFIX) && !is_regular(path) {
        return Err(needs_a_file(path, "a replay reads a trace twice", None));
    }
    let choice = Choice::of(asked);
    let reading = asked.reading();
    let mut opened = trace::open(path, &reading.options()).map_err(|error| unopened(&error))?;
    let mut collector = Collector::new(reading.known(opened.format), reading.block);
    let mut rows = Rows {
        choice: &choice,
        found: Map::default(),
        left_out: 0,
        survey: Survey::default(),
    };
    let failed = |error: &dyn std::error::Error| CliError::of(Exit::Failed, error);
    let mut progress = Progress::new("reading the trace");
    let (mut batch, mut chosen, mut read) = (Records::new(), Records::new(), 0);
    while opened
        .reader
        .read_batch(&mut batch)
        .map_err(|error| failed(&error))?
    {
        let volumes = opened.reader.volumes();
        rows.add(&batch, volumes, &mut chosen);
        let added = collector.add(&chosen, volumes);
        added.map_err(|error| failed(&error))?;
        read += batch.len() as u64;
        progress.count_of(read, "requests");
    }
    drop(progress);
    let volumes = opened.reader.volumes();
    let volume = the_one(path, &choice, &rows.found, volumes)?;
    if rows.survey.requests == 0 {
        let message = format!("{}: {volume} has nothing to replay", path.display());
        let remedy = "--write, if its requests are writes; what is in it says hearth trace info";
        return Err(CliError::new(Exit::Usage, message).with_remedy(remedy));
    }
    let (left_out, survey) = (rows.left_out, rows.survey);
    let info = collector.finish(volumes);
    let ruined = info.warnings.iter();
    let ruined = ruined.filter(|warning| warning.severity == Severity::Ruins);
    ruins::tell(
        &path.display().to_string(),
        &ruined.cloned().collect::<Vec<_>>(),
    );
    Ok(Selected {
        volume,
        info,
        left_out,
        survey,
    })
}

/// The volume that is meant.
fn the_one(
    path: &Path,
    choice: &Choice,
    found: &Map<VolumeIndex, u64>,
    volumes: &Volumes,
) -> Result<Volume, CliError> {
    let path = path.display();
    let mut counted: Vec<(&Volume, u64)> = volumes
        .iter()
        .filter_map(|(index, volume)| Some((volume, *found.get(&index)?)))
        .collect();
    if let [(only, _)] = counted[..] {
        return Ok(only.clone());
    }
    if counted.is_empty() {
        let there = volumes.iter().map(|(_, volume)| named(volume));
        let message = format!("{path}: no request is of such a VM and volume");
        let remedy = format!("one of: {}", listed(there, volumes.len()));
        return Err(CliError::new(Exit::NotFound, message).with_remedy(remedy));
    }
    counted.sort_by_key(|(_, requests)| std::cmp::Reverse(*requests));
    let with_counts = counted.iter().map(|(volume, requests)| {
        format!("{} ({} requests)", named(volume), count(real(*requests)))
    });
    let message = format!(
        "{path}: is of {} volumes, and one is replayed",
        counted.len()
    );
    let option = if choice.vm.is_some() { "" } else { "--vm and " };
    let remedy = format!(
        "{option}--volume, one of: {}",
        listed(with_counts, counted.len())
    );
    Err(CliError::new(Exit::Usage, message).with_remedy(remedy))
}

/// The options that choose a volume.
fn named(volume: &Volume) -> String {
    match (volume.vm.as_str(), volume.name.as_str()) {
        ("", name) => format!("--volume '{name}'"),
        (vm, name) => format!("--vm '{vm}' --volume '{name}'"),
    }
}

fn listed(names: impl Iterator<Item = String>, all: usize) -> String {
    let mut text = names.take(VOLUMES_NAMED).collect::<Vec<_>>().join(", ");
    if all > VOLUMES_NAMED {
        text.push_str(", and more");
    }
    text
}

impl Choice {
    fn of(asked: &ReplayArgs) -> Self {
        Self {
            vm: asked.vm.clone(),
            volume: asked.volume.clone(),
            writes: asked.write,
        }
    }
}

/// The requests of the trace, read once more.
///
/// # Errors
/// If the trace can no longer be opened.
pub(super) fn requests(path: &Path, asked: &ReplayArgs) -> Result<Requests, CliError> {
    let options = asked.reading().options();
    let opened = trace::open(path, &options).map_err(|error| unopened(&error))?;
    Ok(Box::new(Again {
        reader: opened.reader,
        choice: Choice::of(asked),
        batch: Records::new(),
        ready: Vec::new().into_iter(),
        first_us: None,
    }))
}

/// The second reading.
struct Again {
    reader: Box<dyn trace::Reader>,
    choice: Choice,
    batch: Records,
    ready: std::vec::IntoIter<Asked>,
    /// When the first request that is replayed came.
    first_us: Option<u64>,
}

impl Again {
    /// Takes in the next batch; false at the trace's end.
    fn read(&mut self) -> io::Result<bool> {
        let read = self.reader.read_batch(&mut self.batch);
        let is_more = read.map_err(io::Error::other)?;
        let volumes = self.reader.volumes();
        let chosen = self.batch.iter().filter(|record| {
            let volume = volumes.get(record.volume);
            volume.is_some_and(|volume| self.choice.has(volume)) && self.choice.replays(record)
        });
        let first_us = &mut self.first_us;
        let asked = chosen.map(|record| {
            let first_us = *first_us.get_or_insert(record.time_us);
            let after_us = record.time_us.saturating_sub(first_us);
            Asked {
                at: Duration::from_nanos(after_us.saturating_mul(1000)),
                kind: kind(record.op),
                offset: record.offset.get(),
                length: record.length.get(),
            }
        });
        self.ready = asked.collect::<Vec<_>>().into_iter();
        Ok(is_more)
    }
}

impl Iterator for Again {
    type Item = io::Result<Asked>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(asked) = self.ready.next() {
                return Some(Ok(asked));
            }
            match self.read() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn kind(op: Op) -> Kind {
    match op {
        Op::Read => Kind::Read,
        Op::Write => Kind::Write,
        Op::Flush => Kind::Flush,
        Op::Discard => Kind::Discard,
        Op::WriteZeroes => Kind::WriteZeroes,
    }
}
