//! One pass over a trace: settings in, curves and facts out.

use mrc::{Counted, Curve, FixedRate, FixedSize, Miniature, MiniatureError, Spatial, Writes};
use policy::replacement::Spec;
use trace::{ReadError, Reader, Records, SplitError, Volume, Volumes};
use units::Bytes;

use crate::exact::ExactPass;
use crate::facts::Facts;
use crate::sampled::SampledPass;

/// How a curve is found.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// Every access counts.
    Exact,
    /// SHARDS at a fixed rate.
    FixedRate {
        /// Part of all blocks that are sampled, above 0 and at most 1.
        rate: f64,
        /// Which ones.
        seed: u64,
    },
    /// SHARDS of a fixed size.
    FixedSize {
        /// Blocks in the sample, at most.
        blocks_max: usize,
        /// Which ones.
        seed: u64,
    },
    /// Miniature simulation of any policy, at some sizes.
    Miniature {
        /// The policy.
        policy: Spec,
        /// The sizes, growing, in blocks.
        sizes: Vec<u64>,
        /// Part of all blocks that are sampled; 1 simulates everything.
        rate: f64,
        /// Which ones.
        seed: u64,
    },
}

/// What is asked of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How the curves are found.
    pub method: Method,
    /// What a write does to the cache.
    pub writes: Writes,
    /// The unit of caching.
    pub block: Bytes,
    /// A curve for each volume as well.
    pub per_volume: bool,
}

/// Curves of a whole trace, or of a volume by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// Over reads and writes.
    pub all: Curve,
    /// Over reads alone.
    pub reads: Curve,
    /// Block accesses, reads and writes.
    pub accesses: u64,
    /// Block accesses that are reads.
    pub reads_count: u64,
    /// Distinct blocks accessed; estimated if sampled.
    pub footprint_blocks: u64,
    /// Distinct blocks that the curves are made from.
    pub sampled_blocks: u64,
    /// Part of all blocks that was sampled at the end; 1 if exact.
    pub rate: f64,
    /// Memory that the method held for these curves, the splitter's not included.
    pub memory_bytes: usize,
}

impl Curves {
    /// The curve over what is counted.
    pub const fn of(&self, counted: Counted) -> &Curve {
        match counted {
            Counted::All => &self.all,
            Counted::Reads => &self.reads,
        }
    }
}

/// A volume's curves.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeCurves {
    /// Which volume.
    pub volume: Volume,
    /// As if it had a cache to itself.
    pub curves: Curves,
}

/// What one pass found.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Of all volumes in one cache, which has each block of a base image once.
    pub total: Curves,
    /// Of each volume by itself, in order of appearance; empty if not asked for.
    pub volumes: Vec<VolumeCurves>,
    /// What the trace contains.
    pub facts: Facts,
}

/// Why there is no curve.
#[derive(Debug, thiserror::Error)]
pub enum CurveError {
    /// The trace cannot be read on.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Its requests cannot be split into blocks.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// The policy cannot be simulated so.
    #[error(transparent)]
    Miniature(#[from] MiniatureError),
}

/// What a method does with records and has at the end.
pub(crate) trait Pass {
    /// The next records; `volumes` are those seen so far.
    fn take(&mut self, records: &Records, volumes: &Volumes) -> Result<(), SplitError>;
    fn total(&self) -> Curves;
    /// By place of the volume; `None` for one without reads and writes.
    fn volumes(&self) -> Vec<Option<Curves>>;
}

/// Reads a trace to its end. `progress` hears of the records read so far, every batch.
///
/// # Errors
/// If the trace cannot be read to its end.
///
/// # Panics
/// If the settings are not what their fields allow.
pub fn measure(
    reader: &mut dyn Reader,
    settings: &Settings,
    progress: &mut dyn FnMut(u64),
) -> Result<Measured, CurveError> {
    match &settings.method {
        Method::Exact => drive(reader, &mut ExactPass::new(settings), progress),
        &Method::FixedRate { rate, seed } => {
            let empty = || FixedRate::new(Spatial::new(rate, seed), settings.writes);
            drive(
                reader,
                &mut SampledPass::new(settings, empty(), empty),
                progress,
            )
        }
        &Method::FixedSize { blocks_max, seed } => {
            let empty = || FixedSize::new(blocks_max, seed, settings.writes);
            drive(
                reader,
                &mut SampledPass::new(settings, empty(), empty),
                progress,
            )
        }
        Method::Miniature {
            policy,
            sizes,
            rate,
            seed,
        } => {
            let spatial = Spatial::new(*rate, *seed);
            let empty = || Miniature::new(policy, sizes, spatial, settings.writes);
            // Whether the policy and the sizes will do is known from one.
            let total = empty()?;
            let empty = move || empty().expect("the first one was made of the same");
            drive(
                reader,
                &mut SampledPass::new(settings, total, empty),
                progress,
            )
        }
    }
}

fn drive(
    reader: &mut dyn Reader,
    pass: &mut impl Pass,
    progress: &mut dyn FnMut(u64),
) -> Result<Measured, CurveError> {
    let mut facts = Facts::default();
    let mut records = Records::new();
    while reader.read_batch(&mut records)? {
        facts.add(&records);
        pass.take(&records, reader.volumes())?;
        progress(facts.requests);
    }
    let each = reader.volumes().iter().zip(pass.volumes());
    let volumes = each
        .filter_map(|((_, volume), curves)| {
            Some(VolumeCurves {
                volume: volume.clone(),
                curves: curves?,
            })
        })
        .collect();
    Ok(Measured {
        total: pass.total(),
        volumes,
        facts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::{Op, Record, VolumeIndex};
    use units::Offset;

    /// Two volumes in turn, each a loop of its own; discards at the end of each round of the second.
    struct Loops {
        volumes: Volumes,
        rounds: u64,
        only: Option<u32>,
    }

    impl Loops {
        fn new(only: Option<u32>) -> Self {
            let mut volumes = Volumes::new();
            for name in ["a", "b"] {
                volumes.intern(&Volume {
                    vm: String::new(),
                    name: name.to_owned(),
                });
            }
            Self {
                volumes,
                rounds: 10,
                only,
            }
        }
    }

    impl Reader for Loops {
        fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
            records.clear();
            if self.rounds == 0 {
                return Ok(false);
            }
            self.rounds -= 1;
            let mut add = |volume, op, block: u64, blocks: u64| {
                if self.only.is_none_or(|only| only == volume) {
                    let (offset, length) = (Offset::new(block * 4096), Bytes::new(blocks * 4096));
                    let volume = VolumeIndex::new(volume);
                    records.push(Record::new(self.rounds, volume, op, offset, length));
                }
            };
            for block in 0..10 {
                add(0, Op::Read, block * 3, 3);
                add(1, Op::Write, block * 5, 5);
            }
            add(1, Op::Discard, 0, 25);
            Ok(true)
        }

        fn volumes(&self) -> &Volumes {
            &self.volumes
        }
    }

    fn measured(only: Option<u32>, method: Method) -> Measured {
        let settings = Settings {
            method,
            writes: Writes::Allocate,
            block: Bytes::kib(4),
            per_volume: true,
        };
        measure(&mut Loops::new(only), &settings, &mut |_| {}).unwrap()
    }

    #[test]
    fn a_volume_has_the_curve_that_it_has_alone_by_every_method() {
        let miniature = Method::Miniature {
            policy: "arc".parse().unwrap(),
            sizes: vec![10, 30, 50],
            rate: 1.0,
            seed: 0,
        };
        let seed = 0;
        let methods = [
            Method::Exact,
            Method::FixedRate { rate: 1.0, seed },
            Method::FixedSize {
                blocks_max: 100,
                seed,
            },
            miniature,
        ];
        for method in methods {
            let both = measured(None, method.clone());
            assert_eq!(both.total.accesses, 800);
            assert_eq!(both.total.footprint_blocks, 80);
            let names: Vec<&str> = both.volumes.iter().map(|one| &*one.volume.name).collect();
            assert_eq!(names, ["a", "b"]);
            for (volume, one) in (0..).zip(&both.volumes) {
                let alone = measured(Some(volume), method.clone()).total;
                assert_eq!(one.curves.all, alone.all, "{method:?}");
                assert_eq!(one.curves.reads_count, alone.reads_count);
            }
        }
    }

    #[test]
    fn discarded_blocks_are_missed_again() {
        let curves = measured(Some(1), Method::Exact).total;
        // 50 first accesses, then 25 of 50 in each of nine rounds.
        assert_eq!(curves.all.miss_ratio(50), 275.0 / 500.0);
    }

    /// Two VMs that read the same eight blocks of a base image in turn, five times.
    struct Image(Volumes, u64);

    impl Image {
        fn new() -> Self {
            let mut volumes = Volumes::new();
            for vm in ["a", "b"] {
                volumes.intern(&Volume {
                    vm: vm.to_owned(),
                    name: "base:image".to_owned(),
                });
            }
            Self(volumes, 5)
        }
    }

    impl Reader for Image {
        fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
            records.clear();
            if self.1 == 0 {
                return Ok(false);
            }
            self.1 -= 1;
            for volume in [0, 1].map(VolumeIndex::new) {
                let length = Bytes::kib(32);
                records.push(Record::new(0, volume, Op::Read, Offset::ZERO, length));
            }
            Ok(true)
        }

        fn volumes(&self) -> &Volumes {
            &self.0
        }
    }

    #[test]
    fn a_base_image_is_in_the_cache_once_and_each_vm_alone_has_all_of_it() {
        let seed = 0;
        let methods = [
            Method::Exact,
            Method::FixedRate { rate: 1.0, seed },
            Method::FixedSize {
                blocks_max: 100,
                seed,
            },
            Method::Miniature {
                policy: "lru".parse().unwrap(),
                sizes: vec![8, 16],
                rate: 1.0,
                seed,
            },
        ];
        for method in methods {
            let settings = Settings {
                method,
                writes: Writes::Allocate,
                block: Bytes::kib(4),
                per_volume: true,
            };
            let found = measure(&mut Image::new(), &settings, &mut |_| {}).unwrap();
            let (total, method) = (&found.total, &settings.method);
            assert_eq!(
                (total.accesses, total.footprint_blocks),
                (80, 8),
                "{method:?}"
            );
            assert_eq!(total.all.miss_ratio(8), 8.0 / 80.0, "{method:?}");
            for view in &found.volumes {
                let view = &view.curves;
                assert_eq!(
                    (view.accesses, view.footprint_blocks),
                    (40, 8),
                    "{method:?}"
                );
                assert_eq!(view.all.miss_ratio(8), 8.0 / 40.0, "{method:?}");
            }
        }
    }
}
