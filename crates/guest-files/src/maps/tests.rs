use super::*;
use proptest::prelude::*;

fn handle(number: u64) -> Handle {
    Handle::new(1, 1, &number.to_le_bytes()).unwrap()
}

fn settings(files_max: usize) -> Settings {
    Settings {
        files_max,
        ..Settings::default()
    }
}

/// The files of a map from its oldest position to its most recent one.
fn order(maps: &Maps, map: &BTreeMap<u64, usize>) -> Vec<Handle> {
    map.values()
        .map(|id| maps.files[*id].handle.clone())
        .collect()
}

impl Maps {
    fn self_check(&self) {
        assert!(self.files.len() <= self.settings.files_max);
        assert_eq!(self.by_handle.len(), self.files.len());
        assert_eq!(self.by_use.len(), self.files.len());
        for (id, file) in &self.files {
            assert_eq!(self.by_handle[&file.handle], id);
            assert!(self.by_use.contains(&(file.uses, file.position, id)));
            let (is, other) = match file.last_use {
                Use::Read => (&self.read, &self.write),
                Use::Write => (&self.write, &self.read),
            };
            assert_eq!(is.get(&file.position) == Some(&id), file.is_mapped);
            assert_eq!(other.get(&file.position), None);
        }
        let mapped = self.files.iter().filter(|(_, file)| file.is_mapped).count();
        assert_eq!(self.read.len() + self.write.len(), mapped);
    }
}

/// Algorithm 1 line by line, over lists.
#[derive(Default)]
struct Printed {
    uses: BTreeMap<u64, (u32, u64)>,
    read: Vec<u64>,
    write: Vec<u64>,
    epoch: u64,
}

impl Printed {
    fn used(&mut self, file: u64, what: Use) {
        let (uses, counted) = self.uses.entry(file).or_insert((0, u64::MAX));
        if *counted != self.epoch {
            *counted = self.epoch;
            *uses += 1;
        }
        if *uses < Settings::default().usage_threshold {
            return;
        }
        let (own, other) = match what {
            Use::Read => (&mut self.read, &mut self.write),
            Use::Write => (&mut self.write, &mut self.read),
        };
        own.retain(|one| *one != file);
        other.retain(|one| *one != file);
        own.push(file);
    }

    fn end_epoch(&mut self, sizes: impl Fn(u64) -> u64, memory: u64) -> (Vec<u64>, Vec<u64>) {
        self.epoch += 1;
        let sections = (self.write.len() / 2, self.read.len() / 4);
        let (mut d, mut b) = (Vec::new(), Vec::new());
        let fits = |read: &[u64], write: &[u64]| {
            let all = read.iter().chain(write).map(|file| sizes(*file));
            all.sum::<u64>() * 2 <= memory
        };
        while !fits(&self.read, &self.write) && d.len() < sections.0 {
            d.push(self.write.remove(0));
        }
        while !fits(&self.read, &self.write) && b.len() < sections.1 {
            b.push(self.read.remove(0));
        }
        (d, b)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Used(u64, bool),
    EndEpoch(u64),
    Removed(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..24_u64, any::<bool>()).prop_map(|(file, is_write)| Step::Used(file, is_write)),
        2 => (0..2000_u64).prop_map(Step::EndEpoch),
        1 => (0..24_u64).prop_map(Step::Removed),
    ]
}

fn what(is_write: bool) -> Use {
    if is_write { Use::Write } else { Use::Read }
}

proptest! {
    #[test]
    fn the_maps_are_those_of_the_printed_algorithm(
        steps in proptest::collection::vec(step(), 0..300),
    ) {
        let (mut maps, mut printed) = (Maps::new(settings(64)), Printed::default());
        let size = |file: u64| file * 7 % 50;
        for step in steps {
            match step {
                Step::Used(file, is_write) => {
                    maps.used(&handle(file), what(is_write));
                    maps.measured(&handle(file), size(file));
                    printed.used(file, what(is_write));
                }
                Step::EndEpoch(memory) => {
                    let leaving = maps.end_epoch(memory);
                    let (d, b) = printed.end_epoch(size, memory);
                    let named = |files: Vec<u64>| files.into_iter().map(handle).collect();
                    prop_assert_eq!(leaving, Leaving { write_out: named(d), drop: named(b) });
                }
                Step::Removed(file) => {
                    maps.removed(&handle(file));
                    printed.uses.remove(&file);
                    printed.read.retain(|one| *one != file);
                    printed.write.retain(|one| *one != file);
                }
            }
            maps.self_check();
            let named = |files: &[u64]| files.iter().copied().map(handle).collect::<Vec<_>>();
            prop_assert_eq!(order(&maps, &maps.read), named(&printed.read));
            prop_assert_eq!(order(&maps, &maps.write), named(&printed.write));
        }
    }

    #[test]
    fn the_history_never_grows_beyond_its_bound(
        steps in proptest::collection::vec(step(), 0..300), most in 1..9_usize,
    ) {
        let mut maps = Maps::new(settings(most));
        for step in steps {
            match step {
                Step::Used(file, is_write) => maps.used(&handle(file), what(is_write)),
                Step::EndEpoch(memory) => drop(maps.end_epoch(memory)),
                Step::Removed(file) => maps.removed(&handle(file)),
            }
            maps.self_check();
        }
    }
}

fn use_in_epochs(maps: &mut Maps, file: u64, epochs: u32, what: Use) {
    for _ in 0..epochs {
        maps.used(&handle(file), what);
        maps.end_epoch(u64::MAX);
    }
}

#[test]
fn many_uses_in_one_epoch_count_once() {
    let mut maps = Maps::new(settings(8));
    for _ in 0..100 {
        maps.used(&handle(1), Use::Read);
    }
    assert_eq!(maps.kept().count(), 0);
    maps.end_epoch(u64::MAX);
    maps.used(&handle(1), Use::Read);
    assert_eq!(maps.kept().count(), 1);
}

#[test]
fn three_quarters_of_what_is_read_are_kept_and_half_of_what_is_written() {
    let mut maps = Maps::new(settings(64));
    for file in 0..8 {
        use_in_epochs(&mut maps, file, 2, Use::Read);
    }
    for file in 8..12 {
        use_in_epochs(&mut maps, file, 2, Use::Write);
    }
    let kept: Vec<Handle> = maps.kept().map(|(handle, _)| handle.clone()).collect();
    let expected = [7, 6, 5, 4, 3, 2, 11, 10].map(handle);
    assert_eq!(kept, expected);
}

#[test]
fn the_least_used_file_makes_way() {
    let mut maps = Maps::new(settings(2));
    use_in_epochs(&mut maps, 1, 3, Use::Read);
    use_in_epochs(&mut maps, 2, 1, Use::Read);
    maps.used(&handle(3), Use::Read);
    assert!(maps.by_handle.contains_key(&handle(1)));
    assert!(!maps.by_handle.contains_key(&handle(2)));
}

#[test]
fn what_was_used_much_long_ago_makes_way_at_last() {
    let mut maps = Maps::new(settings(2));
    use_in_epochs(&mut maps, 1, 8, Use::Read);
    for file in 10..40 {
        use_in_epochs(&mut maps, file, 2, Use::Read);
    }
    assert!(!maps.by_handle.contains_key(&handle(1)));
}
