//! Examining a cache: superblocks, tables, journal, descriptors and, if asked, every block.

use super::OfflineError;
use super::format::{Present, present};
use super::tables::Tables;
use daemon::{page, superblock};
use device::uring::FlashFile;
use flash_format::{
    ChunkHeader, Descriptor, DirtyChunkHeader, DirtyRecord, FooterPage, PAGE_BYTES, PageBytes,
    SegmentEntry, SegmentIndex, SegmentState, Superblock, checksum,
};
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use units::{Bytes, DiskSlot};

/// Faults that are listed one by one; more are only counted.
const FAULTS_LISTED_MAX: usize = 100;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// The flash.
    pub path: String,
    /// Whether nothing is wrong.
    pub sound: bool,
    /// What is on it, unless it is no cache that can be opened.
    pub cache: Option<Checked>,
    /// Whether it is a cache, be it one that cannot be opened.
    pub is_cache: bool,
    /// What it is instead, if it is no cache and that is recognised.
    pub looks_like: Option<&'static str>,
    /// What is wrong.
    pub faults: Vec<String>,
    /// How much is wrong, listed or not.
    pub fault_count: u64,
    /// What is remarkable and not wrong, such as the torn end of a journal after a power cut.
    pub notes: Vec<String>,
}

/// What is on a cache that can be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Version of its format.
    pub format_version: u32,
    /// Which cache: 32 hexadecimal digits.
    pub uuid: String,
    /// How often everything on it was given up.
    pub incarnation: u64,
    /// Size of the flash when it was formatted.
    pub flash_bytes: u64,
    /// Size of a segment.
    pub segment_bytes: u64,
    /// Whether the last daemon stopped cleanly.
    pub clean: bool,
    /// Number of the latest checkpoint.
    pub checkpoint: u64,
    /// Journal pages on top of it.
    pub journal_pages: u64,
    /// Segments that are used.
    pub segments_used: u64,
    /// Segments in all.
    pub segments: u64,
    /// Blocks of 4096 bytes that would be served.
    pub blocks: u64,
    /// Trusted slots without a descriptor that says what they hold: lost.
    pub blocks_lost: u64,
    /// The disks that it knows.
    pub disks: Vec<DiskReport>,
    /// What reading every block found, if it was asked for.
    pub data: Option<DataReport>,
}

/// A disk that a cache knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiskReport {
    /// What it is called.
    pub name: String,
    /// Its identity.
    pub id: String,
    /// Its size.
    pub size_bytes: u64,
    /// Its blocks that would be served.
    pub blocks: u64,
}

/// What reading every block found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DataReport {
    /// Blocks whose checksum is right.
    pub blocks_good: u64,
    /// Blocks whose checksum is wrong; they would be fetched from the origin.
    pub blocks_bad: u64,
}

/// What is wrong, and what is remarkable.
#[derive(Default)]
pub(super) struct Faults {
    listed: Vec<String>,
    count: u64,
    notes: Vec<String>,
}

impl Faults {
    pub(super) fn add(&mut self, fault: String) {
        self.count += 1;
        if self.listed.len() < FAULTS_LISTED_MAX {
            self.listed.push(fault);
        }
    }

    pub(super) fn note(&mut self, note: String) {
        if self.notes.len() < FAULTS_LISTED_MAX {
            self.notes.push(note);
        }
    }
}

/// Examines a cache that no daemon is using. With `read_data` every block is read and its
/// checksum verified. `progress` is told bytes done and bytes in all.
///
/// # Errors
/// If the flash is in use or cannot be read. Damage is in the report.
pub fn check(
    path: &Path,
    read_data: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CheckReport, OfflineError> {
    let lock = FlashFile::open(path)?;
    let failed = |source| OfflineError::Io {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let mut faults = Faults::default();
    let cache = examine(
        path,
        &file,
        lock.capacity(),
        read_data,
        &mut faults,
        progress,
    )
    .map_err(failed)?;
    drop(lock);
    let (is_cache, looks_like) = match present(path)? {
        Present::Cache => (true, None),
        Present::Foreign(looks_like) => (cache.is_some(), looks_like),
        Present::Nothing => (cache.is_some(), None),
    };
    Ok(CheckReport {
        path: path.display().to_string(),
        sound: faults.count == 0,
        cache,
        is_cache,
        looks_like,
        faults: faults.listed,
        fault_count: faults.count,
        notes: faults.notes,
    })
}

fn examine(
    path: &Path,
    file: &File,
    capacity: Bytes,
    read_data: bool,
    faults: &mut Faults,
    progress: &mut dyn FnMut(u64, u64),
) -> io::Result<Option<Checked>> {
    let superblock = match superblock(path, capacity)? {
        Ok(superblock) => superblock,
        Err(error) => {
            faults.add(error.to_string());
            return Ok(None);
        }
    };
    let tables = Tables::read(file, &superblock, faults)?;
    let mut walk = Walk {
        file,
        superblock: &superblock,
        per_disk: vec![0; DiskSlot::COUNT],
        lost: 0,
        data: read_data.then(DataReport::default),
        content: Vec::new(),
    };
    let geometry = &superblock.geometry;
    let used = |(_, entry): &(usize, &SegmentEntry)| entry.state != SegmentState::Free;
    let segments_used = tables.segments.iter().enumerate().filter(used).count() as u64;
    let total = segments_used * geometry.segment_bytes().get();
    let mut done = 0;
    if tables.believed {
        for (index, entry) in tables.segments.iter().enumerate().filter(used) {
            let index = u32::try_from(index).map_err(io::Error::other)?;
            if let Err(error) = walk.segment(SegmentIndex::new(index), entry, faults) {
                faults.add(format!("segment {index} cannot be read: {error}"));
            }
            done += geometry.segment_bytes().get();
            progress(done, total);
        }
    }
    let disks = tables.disks.iter().zip(&walk.per_disk);
    Ok(Some(Checked {
        format_version: superblock.version(),
        uuid: format!("{:032x}", superblock.uuid),
        incarnation: superblock.incarnation,
        flash_bytes: geometry.capacity().get(),
        segment_bytes: geometry.segment_bytes().get(),
        clean: superblock.clean_end.is_some(),
        checkpoint: superblock.checkpoint,
        journal_pages: tables.journal_pages,
        segments_used,
        segments: u64::from(geometry.segment_count()),
        blocks: walk.per_disk.iter().sum(),
        blocks_lost: walk.lost,
        disks: disks
            .filter_map(|(disk, blocks)| {
                let disk = disk.as_ref()?;
                Some(DiskReport {
                    name: disk.name.clone(),
                    id: disk.id.to_string(),
                    size_bytes: disk.size.get(),
                    blocks: *blocks,
                })
            })
            .collect(),
        data: walk.data,
    }))
}

/// Goes through the used segments.
struct Walk<'a> {
    file: &'a File,
    superblock: &'a Superblock,
    per_disk: Vec<u64>,
    lost: u64,
    data: Option<DataReport>,
    /// The whole present segment, if its data is to be read anyway.
    content: Vec<u8>,
}

impl Walk<'_> {
    /// Reads the segment if all of it will be looked at.
    fn load(&mut self, segment: SegmentIndex) -> io::Result<()> {
        if self.data.is_some() {
            let geometry = &self.superblock.geometry;
            self.content.resize(geometry.segment_bytes().to_usize(), 0);
            let offset = geometry.segment_offset(segment).get();
            self.file.read_exact_at(&mut self.content, offset)?;
        }
        Ok(())
    }

    /// A page of the present segment.
    fn page(&self, segment: SegmentIndex, number: u32) -> io::Result<PageBytes> {
        let offset = in_segment(number);
        let loaded = self.content.get(offset.to_usize()..);
        match loaded.and_then(|rest| rest.first_chunk::<PAGE_BYTES>()) {
            Some(bytes) => Ok(*bytes),
            None => page(
                self.file,
                self.superblock.geometry.segment_offset(segment) + offset,
            ),
        }
    }

    fn segment(
        &mut self,
        segment: SegmentIndex,
        entry: &SegmentEntry,
        faults: &mut Faults,
    ) -> io::Result<()> {
        let trusted = |page: u32| {
            let byte = entry.trusted.get(SegmentIndex::new(page / 8).index());
            byte.is_some_and(|byte| byte & (1 << (page % 8)) != 0)
        };
        let pages = self.superblock.geometry.segment_pages();
        let expected = (0..pages).filter(|page| trusted(*page)).count() as u64;
        if expected == 0 {
            return Ok(());
        }
        self.load(segment)?;
        let descriptors = match self.footer(segment, entry)? {
            Some(descriptors) => descriptors,
            None => self.chunks(segment, entry)?,
        };
        let mut described = 0;
        for descriptor in descriptors.iter().filter(|d| trusted(d.page)) {
            described += 1;
            self.verify(segment, entry, descriptor, faults)?;
        }
        self.per_disk[entry.disk.index()] += described;
        if described < expected {
            self.lost += expected - described;
            faults.add(format!(
                "segment {}: {} trusted blocks have no descriptor",
                segment.get(),
                expected - described
            ));
        }
        Ok(())
    }

    fn verify(
        &mut self,
        segment: SegmentIndex,
        entry: &SegmentEntry,
        descriptor: &Descriptor,
        faults: &mut Faults,
    ) -> io::Result<()> {
        if self.data.is_none() {
            return Ok(());
        }
        let is_right = checksum(&self.page(segment, descriptor.page)?) == descriptor.checksum;
        if let Some(data) = &mut self.data {
            data.blocks_good += u64::from(is_right);
            data.blocks_bad += u64::from(!is_right);
        }
        if is_right {
            return Ok(());
        }
        let offset = self.superblock.geometry.segment_offset(segment) + in_segment(descriptor.page);
        faults.add(format!(
            "block {} of disk slot {} at {}: checksum mismatch",
            descriptor.block.get(),
            entry.disk.get(),
            offset.get()
        ));
        Ok(())
    }

    /// Every descriptor of a segment from its footer, if that is whole.
    fn footer(
        &self,
        segment: SegmentIndex,
        entry: &SegmentEntry,
    ) -> io::Result<Option<Vec<Descriptor>>> {
        let geometry = &self.superblock.geometry;
        let first = geometry.segment_pages() - geometry.footer_pages();
        let mut descriptors = Vec::new();
        let mut total = 0;
        for part in 0..geometry.footer_pages() {
            let decoded = FooterPage::decode(
                &self.page(segment, first + part)?,
                geometry,
                self.superblock.uuid,
                segment,
                entry.generation,
                part,
            );
            match decoded {
                Ok(footer) if footer.disk == entry.disk => {
                    total = u64::from(footer.total);
                    descriptors.extend(footer.blocks);
                }
                Ok(_) | Err(_) => return Ok(None),
            }
        }
        Ok((descriptors.len() as u64 == total).then_some(descriptors))
    }

    /// The descriptors of a segment that was open at the end, chunk by chunk.
    fn chunks(&self, segment: SegmentIndex, entry: &SegmentEntry) -> io::Result<Vec<Descriptor>> {
        let geometry = &self.superblock.geometry;
        let room = geometry.segment_pages() - geometry.footer_pages();
        let mut descriptors = Vec::new();
        let mut next = 0;
        let (uuid, generation) = (self.superblock.uuid, entry.generation);
        while next < room {
            let page = self.page(segment, next)?;
            let clean = ChunkHeader::decode(&page, geometry, uuid, segment, generation, next);
            let dirty =
                || DirtyChunkHeader::decode(&page, geometry, uuid, segment, generation, next).ok();
            let (disk, blocks) = match clean {
                Ok(header) => (header.disk, header.blocks),
                Err(_) => match dirty() {
                    Some(header) => (header.disk, blocks_of(&header)),
                    None => break,
                },
            };
            if disk != entry.disk {
                break;
            }
            next += 1 + u32::try_from(blocks.len()).map_err(io::Error::other)?;
            descriptors.extend(blocks);
        }
        Ok(descriptors)
    }
}

/// The blocks of a dirty log's chunk: what the origin has of them is served like any other.
fn blocks_of(header: &DirtyChunkHeader) -> Vec<Descriptor> {
    let data = header.records.iter().filter_map(|record| match record {
        DirtyRecord::Data(at) => Some(*at),
        DirtyRecord::Erasure(_) => None,
    });
    data.collect()
}

/// Where a page of a segment begins within it.
fn in_segment(page: u32) -> Bytes {
    Bytes::new(u64::from(page) * units::BLOCK_BYTES)
}
