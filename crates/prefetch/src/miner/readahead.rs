//! Sequential streams, several at a time, each read ahead by a window that doubles as long as it is right.
//!
//! ```text
//!   stream      read so far        │◄──── window ────►│
//!   ───────────────────────────────►next ░░░░░░░░░░░░░░►ahead
//!                                        half read: the next window, twice as long, is asked for from `ahead` on
//! ```
//!
//! As Linux reads ahead in files and Open `CAS` on disks: a stream is what goes on where a read ended; the window
//! doubles to 32 blocks, or to a sixteenth of the memory if that is less; the next one is asked for when half of
//! the last is read. A window of 256 blocks wastes more at the end of each stream: in 8 MiB it has .075 of web2d's
//! reads and 32 blocks .120. Sixteen streams of a disk are told apart; a new one takes the place of the one that was lengthened
//! longest ago. Unlike both, a stream is told when a window was refused, and when what it fetched was overwritten:
//! it asks for that again instead of believing that it is there.

use super::{Guess, Miner, Setup, part};
use crate::run::Run;
use policy::replacement::{About, BadValue, Parameter, Settings, parse_count};
use units::{BlockIndex, Bytes};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "readahead",
    other_names: &["streams"],
    paper: "as Linux (mm/readahead.c) and Open CAS find streams",
    queues: &[],
    parameters: &[Parameter {
        name: "window",
        meaning: "blocks that are read ahead of a stream at most",
        takes: "a number from 4 to 256",
    }],
    knows_future: false,
};

/// Streams of a disk, as many as admission tells apart.
const STREAMS: usize = 16;

/// The first window of a stream that was read by single blocks.
const WINDOW_MIN: u64 = 4;

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Blocks ahead at most.
    pub window: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { window: 32 }
    }
}

impl Settings for Config {
    fn set(&mut self, _name: &str, value: &str) -> Result<(), BadValue> {
        self.window = parse_count(value, 4, 256)?;
        Ok(())
    }

    fn get(&self, _name: &str) -> String {
        self.window.to_string()
    }
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Where the next read of it begins.
    next: u64,
    /// Up to where it was asked for.
    ahead: u64,
    window: u64,
    /// Reads that belong to it.
    reads: u64,
}

impl Stream {
    /// Whether a read belongs to it: it begins where the last one ended, in the same block if that did not end
    /// with its block, or within what was asked for; and it ends further on.
    fn takes(&self, run: Run) -> bool {
        let first = run.first().get();
        (self.next..=self.ahead + 1).contains(&(first + 1)) && run.end() > self.next
    }
}

/// The streams of a disk.
#[derive(Clone, Debug)]
pub struct Readahead {
    /// The one that was lengthened last first.
    streams: [Option<Stream>; STREAMS],
    window_max: u64,
    setup: Setup,
}

impl Readahead {
    /// No stream yet.
    pub fn new(config: &Config, setup: Setup) -> Self {
        let window_max = u64::from(config.window).min(setup.memory_blocks / 16);
        Self {
            streams: [None; STREAMS],
            window_max: window_max.max(WINDOW_MIN),
            setup,
        }
    }

    /// The stream of a read, made the newest; one that begins with it if there was none.
    fn stream(&mut self, run: Run) -> &mut Stream {
        let takes = |stream: &Option<Stream>| stream.is_some_and(|stream| stream.takes(run));
        let known = self.streams.iter().position(takes);
        self.streams[..=known.unwrap_or(STREAMS - 1)].rotate_right(1);
        let stream = &mut self.streams[0];
        if known.is_none() {
            *stream = None;
        }
        let stream = stream.get_or_insert(Stream {
            next: run.end(),
            ahead: run.end(),
            window: 0,
            reads: 0,
        });
        stream.next = stream.next.max(run.end());
        stream.ahead = stream.ahead.max(run.end());
        stream.reads += 1;
        stream
    }
}

impl Miner for Readahead {
    fn read(&mut self, run: Run, _hit: bool, out: &mut Vec<Guess>) {
        let (setup, window_max) = (self.setup, self.window_max);
        let stream = self.stream(run);
        let is_half_read = stream.ahead - stream.next <= stream.window / 2;
        if stream.reads < 2 || !is_half_read {
            return;
        }
        let first = WINDOW_MIN.max(2 * u64::from(run.blocks()));
        let window = first.max(2 * stream.window).min(window_max);
        let end = stream.next + window;
        let Some(run) = setup.on_disk(stream.ahead, end.saturating_sub(stream.ahead)) else {
            return;
        };
        stream.window = window;
        stream.ahead = run.end();
        out.push(Guess {
            run,
            confidence: part(stream.reads, stream.reads + 1),
        });
    }

    fn refused(&mut self, from: BlockIndex) {
        let asked = |stream: &&mut Stream| (stream.next..stream.ahead).contains(&from.get());
        if let Some(stream) = self.streams.iter_mut().flatten().find(asked) {
            stream.ahead = from.get();
        }
    }

    fn changed(&mut self, run: Run) {
        for stream in self.streams.iter_mut().flatten() {
            let gone = run.first().get().max(stream.next);
            if gone < stream.ahead.min(run.end()) {
                stream.ahead = gone;
            }
        }
    }

    fn memory(&self) -> Bytes {
        Bytes::new(size_of::<Self>() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn miner(memory_blocks: u64) -> Readahead {
        let setup = Setup {
            disk_blocks: 100_000,
            memory_blocks,
        };
        Readahead::new(&Config::default(), setup)
    }

    fn read(miner: &mut Readahead, first: u64, blocks: u64) -> Option<(u64, u32)> {
        let mut out = Vec::new();
        miner.read(Run::new(first, blocks).unwrap(), false, &mut out);
        assert!(out.len() < 2);
        let guess = out.first()?;
        Some((guess.run.first().get(), guess.run.blocks()))
    }

    #[test]
    fn the_window_doubles_and_is_asked_for_when_half_is_read() {
        let mut miner = miner(256 * 16);
        assert_eq!(read(&mut miner, 100, 1), None, "one read is no stream");
        assert_eq!(read(&mut miner, 101, 1), Some((102, 4)));
        // 102..106 is there: after 102 three are left, after 103 half.
        assert_eq!(read(&mut miner, 102, 1), None);
        assert_eq!(read(&mut miner, 103, 1), Some((106, 6)), "to 104 + 8");
        assert_eq!(read(&mut miner, 104, 4), Some((112, 12)), "to 108 + 16");
    }

    /// Requests of a guest whose partition is not aligned share a block with the next one.
    #[test]
    fn a_read_that_begins_in_the_last_ones_block_belongs_to_its_stream() {
        let mut miner = miner(4096);
        assert_eq!(read(&mut miner, 0, 9), None);
        assert_eq!(read(&mut miner, 0, 9), None, "the same again is no stream");
        assert_eq!(read(&mut miner, 8, 9), Some((17, 18)));
    }

    #[test]
    fn the_window_is_a_sixteenth_of_memory_at_most() {
        let mut miner = miner(256);
        read(&mut miner, 0, 32);
        assert_eq!(read(&mut miner, 32, 32), Some((64, 16)));
    }

    #[test]
    fn streams_are_told_apart() {
        let mut miner = miner(4096);
        for disk in 0..16 {
            assert_eq!(read(&mut miner, disk * 1000, 2), None);
        }
        for disk in 0..16 {
            let asked = read(&mut miner, disk * 1000 + 2, 2);
            assert_eq!(asked, Some((disk * 1000 + 4, 4)));
        }
        // The seventeenth takes the place of the one that waits longest.
        read(&mut miner, 50_000, 2);
        assert_eq!(read(&mut miner, 4, 2), None);
    }

    /// Without it the stream goes on past the blocks that nobody fetched.
    #[test]
    fn a_refused_window_is_asked_for_again() {
        let mut miner = miner(4096);
        read(&mut miner, 0, 2);
        assert_eq!(read(&mut miner, 2, 2), Some((4, 4)));
        miner.refused(BlockIndex::new(4));
        assert_eq!(read(&mut miner, 4, 2), Some((6, 8)));
    }

    #[test]
    fn what_was_overwritten_is_asked_for_again() {
        let mut miner = miner(4096);
        read(&mut miner, 0, 2);
        assert_eq!(read(&mut miner, 2, 2), Some((4, 4)));
        miner.changed(Run::new(5, 1).unwrap());
        assert_eq!(read(&mut miner, 4, 1), Some((5, 8)));
    }
}
