//! A sample of a trace for simulations of caches that look at neighbours: whole extents, by hash.
//!
//! A sample of single blocks would cut the sequential runs and the regions that admission looks at. So either all
//! accesses to an extent of a volume are in the sample or none, and a cache in the same proportion stands for the whole
//! one, as in miniature simulation.
//!
//! Paper: C. Waldspurger, T. Saemundsson, I. Ahmad and N. Park, *Cache Modeling and Optimization using Miniature
//! Simulations*, USENIX ATC 2017.

use trace::{ReadError, Reader, Record, Records, Volumes};
use units::number::{count_near, real};
use units::{Bytes, Offset, hash_of};

/// Length of an extent: admission's regions and what it calls a long run fit in.
pub const EXTENT: Bytes = Bytes::mib(1);

/// Every access of a trace to some of its extents.
pub struct Extents {
    reader: Box<dyn Reader>,
    /// Hashes up to this are in the sample.
    highest: u64,
    seed: u64,
    read: Records,
}

impl Extents {
    /// About that part of all extents, above 0 and at most 1. `seed` decides which.
    pub fn new(reader: Box<dyn Reader>, rate: f64, seed: u64) -> Self {
        Self {
            reader,
            highest: count_near(rate * real(u64::MAX)),
            seed,
            read: Records::new(),
        }
    }

    fn has(&self, record: &Record, extent: u64) -> bool {
        hash_of((self.seed, record.volume.get(), extent)) <= self.highest
    }

    /// The parts of a record that lie in extents of the sample, neighbours together. A flush has no place: it stays.
    fn parts(&self, record: &Record, parts: &mut Records) {
        if record.length.is_zero() {
            parts.push(*record);
            return;
        }
        let extent = EXTENT.get();
        let (mut at, end) = (
            record.offset.get(),
            record.offset.get().saturating_add(record.length.get()),
        );
        let mut part: Option<Record> = None;
        while at < end {
            let next = (at / extent + 1).saturating_mul(extent).min(end);
            if self.has(record, at / extent) {
                let part = part.get_or_insert(Record {
                    offset: Offset::new(at),
                    ..*record
                });
                part.length = Bytes::new(next - part.offset.get());
            } else {
                parts.extend(part.take());
            }
            at = next;
        }
        parts.extend(part);
    }
}

impl Reader for Extents {
    fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
        records.clear();
        // A batch of which nothing is in the sample is not the end.
        while records.is_empty() {
            let mut read = std::mem::take(&mut self.read);
            let more = self.reader.read_batch(&mut read);
            for record in &read {
                self.parts(&record, records);
            }
            self.read = read;
            if !more? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn volumes(&self) -> &Volumes {
        self.reader.volumes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::{Op, Volume, VolumeIndex};

    struct Fixed(Vec<Record>, Volumes);

    impl Reader for Fixed {
        fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
            records.clear();
            records.extend(self.0.drain(..self.0.len().min(64)));
            Ok(!records.is_empty())
        }

        fn volumes(&self) -> &Volumes {
            &self.1
        }
    }

    fn sampled(records: Vec<Record>, rate: f64) -> Vec<Record> {
        let mut volumes = Volumes::new();
        volumes.intern(&Volume {
            vm: String::new(),
            name: "a".to_owned(),
        });
        let mut extents = Extents::new(Box::new(Fixed(records, volumes)), rate, 7);
        let (mut all, mut batch) = (Vec::new(), Records::new());
        while extents.read_batch(&mut batch).unwrap() {
            all.extend(&batch);
        }
        all
    }

    fn read(offset: u64, length: u64) -> Record {
        let (offset, length) = (Offset::new(offset), Bytes::new(length));
        Record::new(5, VolumeIndex::new(0), Op::Read, offset, length)
    }

    #[test]
    fn the_whole_is_what_it_was() {
        let records = vec![read(4096, 3 * EXTENT.get()), read(0, 0), read(512, 512)];
        assert_eq!(sampled(records.clone(), 1.0), records);
    }

    #[test]
    fn an_extent_is_in_the_sample_at_every_access_or_at_none() {
        let extent = EXTENT.get();
        let twice = (0..4000).chain(0..4000);
        let records = twice.map(|at| read(at * extent + 4096, 4096)).collect();
        let all = sampled(records, 0.25);
        let (first, second) = all.split_at(all.len() / 2);
        assert_eq!(first, second);
        assert!((900..1100).contains(&first.len()), "{}", first.len());
    }

    #[test]
    fn a_long_request_keeps_its_parts_in_the_sample() {
        let extent = EXTENT.get();
        let whole = sampled(vec![read(0, 64 * extent)], 0.5);
        let bytes: u64 = whole.iter().map(|part| part.length.get()).sum();
        assert!((16..48).contains(&(bytes / extent)), "{bytes}");
        assert!(whole.len() < 30, "neighbours go together");
    }
}
