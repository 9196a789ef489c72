//! What every part of one run shares: the seed's settings, its dice, the time, the numbers that are given
//! out in order, and the record of what happened.

use crate::checker::{Moment, Tag};
use crate::marks::Marks;
use crate::outcome::Outcome;
use crate::settings::{Settings, Special};
use crate::trace::Trace;
use block_io::BufPool;
use units::{Instant, Prng};

/// See the module's header.
pub(crate) struct Run {
    settings: Settings,
    dice: Prng,
    now: Instant,
    moment: Moment,
    next_id: u64,
    next_tag: Tag,
    trace: Trace,
    marks: Marks,
    pool: BufPool,
    is_last_life: bool,
}

impl Run {
    /// The run of a seed, before anything has happened.
    pub(crate) fn new(seed: u64, trace: Trace) -> Self {
        let mut dice = Prng::new(seed);
        let settings = Settings::of(seed, &mut dice);
        Self::with_settings(settings, dice, trace)
    }

    /// The run of a world like this, from dice that its seed has thrown.
    pub(crate) fn with_settings(settings: Settings, dice: Prng, trace: Trace) -> Self {
        Self {
            settings,
            dice,
            now: Instant::ZERO,
            moment: 1,
            next_id: 1,
            next_tag: 1,
            trace,
            marks: Marks::default(),
            pool: BufPool::new(),
            is_last_life: false,
        }
    }

    /// What is left when the run has ended, whose first life has taken this many operations.
    pub(crate) fn into_outcome(self, operations: u64) -> Outcome {
        Outcome {
            digest: self.trace.digest(),
            marks: self.marks,
            operations,
            trace: self.trace.into_lines(),
        }
    }

    /// What the seed says of the world, now.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What is special about this world.
    pub(crate) fn special(&self) -> Special {
        self.settings.special
    }

    /// From now on nothing goes wrong, and everything has to come to an end.
    pub(crate) fn begin_last_life(&mut self) {
        self.is_last_life = true;
        self.settings.calm_down();
    }

    /// This is the life in which everything has to come to an end.
    pub(crate) fn is_last_life(&self) -> bool {
        self.is_last_life
    }

    /// The time.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// It is `at`, or as late as it was, if that is later.
    pub(crate) fn advance_to(&mut self, at: Instant) {
        self.now = self.now.max(at);
    }

    /// The dice, for what draws more than a number.
    pub(crate) fn dice(&mut self) -> &mut Prng {
        &mut self.dice
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.dice.below(bound)
    }

    /// An index into `count` things.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.dice.below(count as u64)).expect("an index")
    }

    /// True once in so many times; never for 0.
    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.dice.one_in(count)
    }

    /// The number of an event that guests can see.
    pub(crate) fn next_moment(&mut self) -> Moment {
        self.moment += 1;
        self.moment
    }

    /// The number of the latest event that guests can see.
    pub(crate) fn current_moment(&self) -> Moment {
        self.moment
    }

    /// The number of the next request, command or cache.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// What [`Run::next_id`] gives next.
    pub(crate) fn peek_id(&self) -> u64 {
        self.next_id + 1
    }

    /// The first of `count` values that nothing holds yet.
    pub(crate) fn next_tags(&mut self, count: u64) -> Tag {
        let first = self.next_tag;
        self.next_tag += count;
        first
    }

    /// Something happened: its numbers go into the digest, its text into the lines.
    pub(crate) fn event(&mut self, numbers: &[u64], text: impl FnOnce() -> String) {
        self.trace.event(self.now, numbers, text);
    }

    /// The rare branch of this name was reached.
    pub(crate) fn hit(&mut self, name: &'static str) {
        self.marks.hit(name);
    }

    /// It was reached `count` times.
    pub(crate) fn hit_many(&mut self, name: &'static str, count: u64) {
        self.marks.add(name, count);
    }

    /// A command was given to a disk in this phase.
    pub(crate) fn tried(&mut self, command: &'static str, phase: &'static str) {
        self.marks.tried(command, phase);
    }

    /// Memory for requests.
    pub(crate) fn pool(&self) -> &BufPool {
        &self.pool
    }
}
