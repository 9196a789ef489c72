//! A VM moves between two hosts again and again, played by clients that do what QEMU does, while the link is cut
//! and daemons are killed. What is read is compared with what was written.
//!
//! ```text
//!   the VM runs here:   write, flush, read
//!   the VM moves:       there: connect, a few reads    here: flush, silence     (over NBD, see `vm.rs`)
//!                       faults, at any time            there: write
//!   or it does not:     there: disconnect              here: write
//!   or runs twice:      there: many reads, write       here: write
//!   afterwards:         everything is read where the VM runs; the old client gets errors
//! ```

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::vm::Vm;
use crate::{Lab, RoamingPair, RoamingSettings, block};

const BLOCK: u64 = 4096;
/// Blocks that are written: few, so that each is written often.
const BLOCKS: u64 = 512;
/// How long an incoming client waits at least before its VM is handed over.
const INCOMING_WAITS: Duration = Duration::from_millis(1_050);
/// Reads of a VM that boots: more than of one that comes by a live migration.
const READ_BY_A_BOOT: u64 = 100;
/// How long a VM that was started twice waits for its disk over vhost-user, where nothing tells it that it waits in vain.
const MISTAKE_WAITS: Duration = Duration::from_secs(2);
/// How long a VM waits for its disk, whatever happens, once everything runs again.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a block may hold.
#[derive(Clone, Debug)]
struct Held {
    /// What is there whatever happens.
    kept: u8,
    /// What was written, or may have been, since the last flush, in order.
    later: Vec<u8>,
    /// Whether one of `later` may be there instead of the last one: a write without an answer, or a crash.
    is_open: bool,
}

/// What a disk may hold: each block has the number of the write that it is from.
struct Model {
    blocks: Vec<Held>,
}

impl Model {
    fn new() -> Self {
        let held = Held {
            kept: 0,
            later: Vec::new(),
            is_open: false,
        };
        let blocks = vec![held; usize::try_from(BLOCKS).unwrap_or_default()];
        Self { blocks }
    }

    fn at(&mut self, number: u64) -> &mut Held {
        &mut self.blocks[usize::try_from(number).unwrap_or(usize::MAX)]
    }

    /// A write was sent. Unless it was answered it may have happened, or happen.
    fn written(&mut self, number: u64, round: u8, is_answered: bool) {
        let held = self.at(number);
        held.later.push(round);
        held.is_open |= !is_answered;
    }

    /// A flush was answered.
    fn flushed(&mut self) {
        for held in &mut self.blocks {
            if let (Some(last), false) = (held.later.last(), held.is_open) {
                held.kept = *last;
                held.later.clear();
            }
        }
    }

    /// A daemon was killed: of what was not flushed any may be lost.
    fn crashed(&mut self) {
        for held in &mut self.blocks {
            held.is_open |= !held.later.is_empty();
        }
    }

    /// A block was read.
    fn read(&mut self, number: u64, bytes: &[u8]) -> anyhow::Result<()> {
        let round = bytes[1];
        ensure!(
            bytes == block(number, round),
            "block {number} is torn, or lost"
        );
        let held = self.at(number);
        let is_last = *held.later.last().unwrap_or(&held.kept) == round;
        let may_be = held.is_open && (held.kept == round || held.later.contains(&round));
        ensure!(
            is_last || may_be,
            "block {number} is of round {round}: {held:?}"
        );
        if held.is_open {
            // It holds that from now on, but what was written may be lost once more.
            held.later = vec![round];
            held.is_open = false;
        }
        Ok(())
    }
}

/// What happened.
#[derive(Debug, Default)]
pub struct Moved {
    /// Moves that were completed.
    pub moves: u64,
    /// Moves that were given up.
    pub cancelled: u64,
    /// Cuts of the link.
    pub cuts: u64,
    /// VMs that were started a second time by mistake while the first one ran, and were refused.
    pub mistakes: u64,
    /// Daemons that were killed, at the source and at the destination.
    pub kills: [u64; 2],
    /// First writes at the destination that failed, and were made again: amid which fault, and why.
    pub failed: Vec<String>,
    /// From when the guest stops to the answer of its first write at the destination, without faults: half, and the longest.
    pub pauses: [Duration; 2],
}

struct Player {
    pair: RoamingPair,
    model: Model,
    dice: u64,
    round: u8,
    moved: Moved,
    pauses: Vec<Duration>,
}

/// Moves a VM so often, with faults of this seed. `say` hears how far it is.
///
/// # Errors
///
/// When something is lost, wrong, or does not end.
pub fn moves(
    lab: &Lab,
    count: u64,
    seed: u64,
    settings: RoamingSettings,
    say: &mut dyn FnMut(String),
) -> anyhow::Result<Moved> {
    let mut pair = RoamingPair::new(lab, settings)?;
    pair.start_host(0)?;
    if settings.roams {
        pair.wait_until_owned_by(0)?;
    }
    pair.start_host(1)?;
    let mut player = Player {
        pair,
        model: Model::new(),
        dice: seed.wrapping_mul(2) | 1,
        round: 0,
        moved: Moved::default(),
        pauses: Vec::new(),
    };
    let mut here = 0;
    let mut running = Vm::waits(&mut player.pair, here)?;
    running.boot()?;
    let all: Vec<u8> = (0..BLOCKS).flat_map(|number| block(number, 0)).collect();
    let written = running.try_write(0, &all)?;
    written.map_err(|refused| anyhow::anyhow!("the first write failed with {}", refused.0))?;
    running.flush()?;
    while player.moved.moves < count {
        let at = player.moved.moves;
        let moving = player.move_once(here, running);
        (here, running) = moving.with_context(|| format!("after {at} moves, seed {seed}"))?;
        if at != player.moved.moves && player.moved.moves.is_multiple_of(50) {
            say(format!("{:?}", player.moved));
        }
    }
    player.check(&mut running)?;
    drop(running);
    player.pair.stop_both()?;
    player.pauses.sort();
    let half = player.pauses.get(player.pauses.len() / 2).copied();
    let longest = player.pauses.last().copied();
    player.moved.pauses = [half.unwrap_or_default(), longest.unwrap_or_default()];
    Ok(player.moved)
}

impl Player {
    /// A number below `sides`.
    fn dice(&mut self, sides: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice >> 11) % sides
    }

    fn next_round(&mut self) -> u8 {
        self.round = self.round % 250 + 1;
        self.round
    }

    /// Writes some blocks, and flushes now and then. An error number if one failed.
    fn write(&mut self, guest: &mut Vm, blocks: u64) -> anyhow::Result<()> {
        for _ in 0..blocks {
            let (number, round) = (self.dice(BLOCKS), self.next_round());
            let outcome = guest.try_write(number * BLOCK, &block(number, round));
            let is_answered = matches!(outcome, Ok(Ok(())));
            self.model.written(number, round, is_answered);
            if let Err(refused) = outcome? {
                bail!("a write of the guest that runs failed with {}", refused.0);
            }
            if self.dice(16) == 0 {
                guest.flush()?;
                self.model.flushed();
            }
        }
        Ok(())
    }

    /// Reads some blocks where the guest does not run yet, if its front end can.
    fn read_early(&mut self, there: &mut Vm, blocks: u64) -> anyhow::Result<()> {
        if !there.reads_early() {
            return Ok(());
        }
        for _ in 0..blocks {
            let number = self.dice(BLOCKS);
            let bytes = there.read(number * BLOCK, BLOCK)?;
            self.model.read(number, &bytes)?;
        }
        Ok(())
    }

    /// Reads everything.
    fn check(&mut self, guest: &mut Vm) -> anyhow::Result<()> {
        let bytes = guest.read(0, BLOCKS * BLOCK)?;
        let blocks = bytes.chunks(usize::try_from(BLOCK).unwrap_or_default());
        for (number, bytes) in (0..).zip(blocks) {
            self.model.read(number, bytes)?;
        }
        Ok(())
    }

    /// The VM runs for a while, and moves, or fails to. Where it runs then, and its client there.
    fn move_once(&mut self, here: usize, mut source: Vm) -> anyhow::Result<(usize, Vm)> {
        let there = 1 - here;
        let writes = 5 + self.dice(60);
        self.write(&mut source, writes)?;
        if self.dice(12) == 0 {
            self.mistake(there, &mut source)?;
        }
        if self.dice(8) == 0 {
            source.reset()?;
        }
        let mut destination = Vm::waits(&mut self.pair, there)?;
        self.read_early(&mut destination, 4)?;
        source.begin_move()?;
        std::thread::sleep(INCOMING_WAITS);
        let writes = self.dice(10);
        self.write(&mut source, writes)?;
        let began = Instant::now();
        if source.stop()? {
            self.model.flushed();
        }
        if self.dice(6) == 0 {
            return self.cancel(here, source, destination);
        }
        // QEMU of the source stays connected for a while; or it quits at once.
        let stays = self.dice(3) > 0;
        destination.goes_on_from(&source)?;
        let mut source = stays.then_some(source);
        let fault = self.dice(8);
        if fault == 1 {
            // A client of a daemon that is killed is gone.
            source = None;
        }
        let mut destination = match fault {
            0..3 => self.first_write_amid(fault, there, destination, &mut source)?,
            _ => self.first_write("no fault", there, destination, &mut source)?,
        };
        if fault > 2 && source.is_some() {
            self.pauses.push(began.elapsed());
        }
        if let Some(source) = &mut source
            && self.dice(2) == 0
        {
            // It resumes by mistake: it is told so.
            source.resume()?;
            let number = self.dice(BLOCKS);
            let outcome = source.try_write(number * BLOCK, &block(number, 255));
            ensure!(
                !matches!(outcome, Ok(Ok(()))),
                "the guest that was moved has written"
            );
        }
        self.check(&mut destination)?;
        self.moved.moves += 1;
        Ok((there, destination))
    }

    /// The move fails: the VM goes on where it was.
    fn cancel(
        &mut self,
        here: usize,
        mut source: Vm,
        destination: Vm,
    ) -> anyhow::Result<(usize, Vm)> {
        // The guest may go on before the QEMU that never ran it has ended, or afterwards.
        if self.dice(2) == 0 {
            destination.quits_unused()?;
            source.resume()?;
        } else {
            source.resume()?;
            self.write(&mut source, 5)?;
            destination.quits_unused()?;
        }
        self.write(&mut source, 5)?;
        self.check(&mut source)?;
        self.moved.cancelled += 1;
        Ok((here, source))
    }

    /// The VM is started a second time at the other host while it runs here: it reads what a boot reads, writes, and
    /// is refused. The VM that runs is not disturbed.
    fn mistake(&mut self, there: usize, running: &mut Vm) -> anyhow::Result<()> {
        let mut second = Vm::waits(&mut self.pair, there)?;
        self.read_early(&mut second, READ_BY_A_BOOT)?;
        second.boot()?;
        if !second.reads_early() {
            second.set_patience(MISTAKE_WAITS)?;
        }
        let number = self.dice(BLOCKS);
        let writing =
            std::thread::spawn(move || second.try_write(number * BLOCK, &block(number, 255)));
        // How often it writes meanwhile is a matter of time: what follows is not.
        let dice = self.dice;
        while !writing.is_finished() {
            self.write(running, 8)?;
        }
        self.dice = dice;
        let written = writing.join().map_err(|_| anyhow::anyhow!("a panic"))?;
        ensure!(
            !matches!(written, Ok(Ok(()))),
            "a VM that was started twice has written"
        );
        self.check(running)?;
        self.moved.mistakes += 1;
        Ok(())
    }

    /// The VM's first write at the destination amid a fault: the link is cut (0), or the daemon of the source (1) or
    /// of the destination (2) is killed.
    fn first_write_amid(
        &mut self,
        fault: u64,
        there: usize,
        mut destination: Vm,
        source: &mut Option<Vm>,
    ) -> anyhow::Result<Vm> {
        let (number, round) = (self.dice(BLOCKS), self.next_round());
        let (before, long) = (self.dice(25), self.dice(1_500));
        let [before, long] = [before, long].map(Duration::from_millis);
        let writing = std::thread::spawn(move || {
            let outcome = destination.try_write(number * BLOCK, &block(number, round));
            (destination, outcome)
        });
        std::thread::sleep(before);
        match fault {
            0 => {
                self.moved.cuts += 1;
                self.pair.wire.cut();
                std::thread::sleep(long);
                self.pair.wire.mend();
            }
            1 => self.kill_and_start(1 - there, 0, long)?,
            _ => self.kill_and_start(there, 1, long)?,
        }
        let (destination, outcome) = writing.join().map_err(|_| anyhow::anyhow!("a panic"))?;
        let is_answered = matches!(outcome, Ok(Ok(())));
        self.model.written(number, round, is_answered);
        match outcome {
            // Its daemon was killed, maybe before it was asked.
            _ if fault == 2 => {
                if !destination.reads_early() {
                    // QEMU has connected again, and the write was made.
                    return outcome.map(|_| destination);
                }
                let again = Vm::waits(&mut self.pair, there)?;
                self.first_write("a kill of the destination", there, again, source)
            }
            Ok(Ok(())) => Ok(destination),
            Ok(Err(_)) => {
                let amid = ["a cut", "a kill of the source"][usize::from(fault == 1)];
                self.failed(amid, there, source)?;
                self.first_write(amid, there, destination, source)
            }
            Err(error) => Err(error.context("the destination's client")),
        }
    }

    fn kill_and_start(&mut self, host: usize, place: usize, long: Duration) -> anyhow::Result<()> {
        self.pair.kill(host)?;
        self.model.crashed();
        self.moved.kills[place] += 1;
        std::thread::sleep(long);
        self.pair.start_host(host)
    }

    /// Notes why a first write has failed. QEMU of the source quits.
    fn failed(&mut self, amid: &str, there: usize, source: &mut Option<Vm>) -> anyhow::Result<()> {
        let log = self.pair.log(there)?;
        let refusal = log.lines().rfind(|line| line.contains("the peer refuses"));
        let why = refusal.and_then(|line| line.rsplit_once("why="));
        let why = why.map_or("", |(_, why)| why);
        let stays = source.take().is_some();
        let seen = format!("amid {amid}, source stays {stays}, last refusal '{why}'");
        self.moved.failed.push(seen);
        Ok(())
    }

    /// Writes until a write succeeds. When one has failed, QEMU of the source quits.
    fn first_write(
        &mut self,
        amid: &str,
        there: usize,
        mut destination: Vm,
        source: &mut Option<Vm>,
    ) -> anyhow::Result<Vm> {
        let began = Instant::now();
        loop {
            let (number, round) = (self.dice(BLOCKS), self.next_round());
            let outcome = destination.try_write(number * BLOCK, &block(number, round));
            let outcome = outcome.context("the first write at the destination")?;
            self.model.written(number, round, outcome.is_ok());
            let Err(refused) = outcome else {
                return Ok(destination);
            };
            self.failed(amid, there, source)?;
            ensure!(
                began.elapsed() < PATIENCE,
                "the disk does not come: error {}",
                refused.0
            );
        }
    }
}
