//! The daemons of two hosts are killed at each step of a move between them, and at any moment. No write that was
//! answered is lost, the hosts never both have the disk, and the guest at the destination goes on once they run
//! again.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{
    Expected, Lab, Obstacle, RoamingPair, RoamingSettings, SHORT, Session, block, scenario,
    wait_until,
};

const BLOCK: u64 = 4096;
/// What the source logs when the destination has what the origin lacks.
const SHIPPED: &str = "what the origin lacks has gone to the other host";
/// How long a guest that is about to come waits at least, with some time for the word of it to get through.
const INCOMING_WAITS: Duration = Duration::from_millis(1300);
/// How long a guest that has been stopped is silent at least.
const SILENCE: Duration = Duration::from_millis(30);
/// How long a client that has gone may take to connect again, with some time for the word of it to get through.
const RECONNECTS: Duration = Duration::from_millis(1200);
/// For a message to get as far as it does not go on.
const ON_ITS_WAY: Duration = Duration::from_millis(200);
/// What the guest at the destination writes when it asks for the disk.
const ASKED: u64 = 50;

/// Where a move from host 0 to host 1 stands still when daemons are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Still {
    /// The claim is on the link.
    Claimed,
    /// The source cannot note its decision.
    Deciding,
    /// The decision is noted, and the source cannot open the origin to lock it.
    Recording,
    /// The record names the destination, and the grant is on the link.
    Granted,
    /// The grant has arrived, and the destination cannot write its record.
    Taking,
    /// The destination has answered its guest's write.
    Taken,
}

fn wait_for_log(pair: &RoamingPair, at: usize, words: &str) -> anyhow::Result<()> {
    wait_until(&format!("host {at} to log '{words}'"), SHORT, || {
        Ok(pair.log(at)?.contains(words))
    })
}

impl Still {
    /// Before the destination asks.
    fn prepare(self, pair: &RoamingPair, dirty: &str) -> anyhow::Result<Option<Obstacle>> {
        match self {
            Self::Claimed => pair.wire.hold(0),
            // What the origin lacks goes over the link, so that is held later. The record stays open, and is not written before.
            Self::Recording | Self::Granted | Self::Taking if dirty == "ship" => {
                return Obstacle::before(&pair.record_path()).map(Some);
            }
            Self::Granted | Self::Taking => pair.wire.hold(1),
            Self::Deciding => return Obstacle::before(&pair.decision_path(0)).map(Some),
            Self::Recording => return Obstacle::hide(pair.image.path()).map(Some),
            Self::Taken => {}
        }
        Ok(None)
    }

    /// Waits until the move has got here.
    fn reach(
        self,
        pair: &RoamingPair,
        before: &mut Option<Obstacle>,
    ) -> anyhow::Result<Option<Obstacle>> {
        if let (Self::Granted | Self::Taking, Some(_)) = (self, &before) {
            wait_for_log(pair, 0, "who has the disk now is not recorded yet")?;
            pair.wire.hold(1);
            *before = None;
        }
        match self {
            Self::Claimed => std::thread::sleep(ON_ITS_WAY),
            Self::Deciding => wait_for_log(pair, 0, "the decision cannot be noted")?,
            Self::Recording => {
                wait_for_log(pair, 0, "who has the disk now is not recorded yet")?;
                ensure!(pair.decision_path(0).is_file(), "nothing was decided");
                ensure!(pair.record()?.0 == RoamingPair::NAMES[0], "it is recorded");
            }
            Self::Granted => pair.wait_until_recorded(1)?,
            Self::Taking => {
                pair.wait_until_recorded(1)?;
                let obstacle = Obstacle::before(&pair.record_path())?;
                pair.wire.mend();
                wait_for_log(pair, 1, "the disk cannot be taken yet")?;
                return Ok(Some(obstacle));
            }
            Self::Taken => {}
        }
        Ok(None)
    }

    /// Whether the source may still keep the disk.
    fn is_undecided(self) -> bool {
        matches!(self, Self::Claimed | Self::Deciding)
    }
}

/// Two hosts, of which the first has what the origin lacks, and a guest that has come to the other.
fn with_guest_at_both(
    lab: &Lab,
    dirty: &'static str,
) -> anyhow::Result<(RoamingPair, Expected, Session)> {
    let settings = RoamingSettings {
        dirty,
        ..RoamingSettings::default()
    };
    let mut pair = RoamingPair::start(lab, settings)?;
    let mut expected = Expected::of(&pair.image)?;
    let mut old = pair.client(0)?;
    expected.write(&mut old, (0..400).step_by(3), 1)?;
    old.flush()?;
    expected.write(&mut old, (1..400).step_by(7), 101)?;
    old.flush()?;
    old.close()?;
    let mut new = pair.client(1)?;
    new.read(0, BLOCK)?;
    std::thread::sleep(RECONNECTS);
    Ok((pair, expected, new))
}

fn move_over_kills(
    lab: &Lab,
    still: Still,
    (victims, dirty): (&[usize], &'static str),
) -> anyhow::Result<()> {
    let (mut pair, mut expected, mut new) = with_guest_at_both(lab, dirty)?;
    let mut before = still.prepare(&pair, dirty)?;
    let asking = std::thread::spawn(move || {
        let written = new.try_write(ASKED * BLOCK, &block(ASKED, 2))?;
        if written.is_ok() {
            new.flush()?;
        }
        anyhow::Ok(written.is_ok())
    });
    let there = still.reach(&pair, &mut before)?;
    if still == Still::Taken {
        wait_until("the write to be answered", SHORT, || {
            Ok(asking.is_finished())
        })?;
    }
    ensure!(
        asking.is_finished() == (still == Still::Taken),
        "the write was answered"
    );
    if dirty == "ship" && still != Still::Claimed {
        ensure!(pair.log(0)?.contains(SHIPPED), "it was not shipped");
    }
    for victim in victims {
        pair.kill(*victim)?;
    }
    drop((before, there));
    pair.wire.mend();
    if still.is_undecided() && victims.contains(&0) {
        std::thread::sleep(ON_ITS_WAY);
        ensure!(
            pair.record()?.0 == RoamingPair::NAMES[0],
            "the destination took what nobody gave"
        );
    }
    for victim in victims {
        pair.start_host(*victim)?;
    }
    let answered = asking.join().map_err(|_| anyhow::anyhow!("a panic"))?;
    let is_written = matches!(answered, Ok(true));
    if !victims.contains(&1) {
        ensure!(is_written, "the guest of the destination: {answered:?}");
    }
    let mut new = pair.client(1)?;
    // One that was not answered may have been carried out.
    let found = new.read(ASKED * BLOCK, BLOCK)?;
    let written = block(ASKED, 2);
    if is_written || found == written {
        expected.put(ASKED * BLOCK, &written);
    }
    expected.check("the destination, before it writes again", &mut new)?;
    expected.write(&mut new, (2..400).step_by(11), 3)?;
    new.flush()?;
    pair.wait_until_owned_by(1)?;
    expected.check("the destination", &mut new)?;
    let mut old = pair.client(0)?;
    expected.check("the source", &mut old)?;
    pair.flush_and_compare(&expected)?;
    // And back.
    new.close()?;
    expected.write(&mut old, 60..80, 4)?;
    pair.wait_until_owned_by(0)?;
    expected.check("the source, which has it back", &mut old)?;
    old.flush()?;
    pair.flush_and_compare(&expected)?;
    pair.stop_both()
}

fn at_each_kill(still: Still) {
    for dirty in ["drain", "ship"] {
        for victims in [&[0][..], &[1], &[0, 1]] {
            scenario(RoamingPair::TOOLS, |lab| {
                move_over_kills(lab, still, (victims, dirty))
                    .with_context(|| format!("{dirty}, {victims:?} killed"))
            });
        }
    }
}

#[test]
fn before_the_source_has_heard_the_claim() {
    at_each_kill(Still::Claimed);
}

#[test]
fn before_the_source_has_decided() {
    at_each_kill(Still::Deciding);
}

#[test]
fn between_the_decision_and_the_record() {
    at_each_kill(Still::Recording);
}

#[test]
fn between_the_record_and_the_grant() {
    at_each_kill(Still::Granted);
}

#[test]
fn before_the_destination_has_recorded_that_it_has_the_disk() {
    at_each_kill(Still::Taking);
}

#[test]
fn when_the_destination_has_answered_its_guest() {
    at_each_kill(Still::Taken);
}

/// The QEMU that the guest came from stays, so that all that says that the guest has stopped is what its host has seen
/// of it before.
#[test]
fn before_the_destination_has_heard_its_guest() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        let mut expected = Expected::of(&pair.image)?;
        let mut old = pair.client(0)?;
        expected.write(&mut old, (0..400).step_by(3), 1)?;
        let mut new = pair.client(1)?;
        new.read(0, BLOCK)?;
        std::thread::sleep(INCOMING_WAITS);
        old.flush()?;
        std::thread::sleep(SILENCE);
        pair.kill(1)?;
        drop(new);
        pair.start_host(1)?;
        let mut new = pair.client(1)?;
        expected.write(&mut new, 100..120, 2)?;
        pair.wait_until_owned_by(1)?;
        expected.check("the destination", &mut new)?;
        ensure!(old.try_write(0, &block(0, 3))?.is_err(), "two guests write");
        new.flush()?;
        pair.flush_and_compare(&expected)?;
        pair.stop_both()
    });
}

/// What became of a guest's writes: its connection if that still stands, and the block of a write that was not
/// answered, or not flushed.
type Written = (Expected, Result<Session, u64>);

/// Writes and flushes one block after the other, until the daemon is killed.
fn write_durably(
    mut guest: Session,
    mut expected: Expected,
    blocks: impl Iterator<Item = u64>,
    round: u8,
) -> anyhow::Result<Written> {
    for number in blocks {
        let data = block(number, round);
        let (Ok(written), Ok(flushed)) =
            (guest.try_write(number * BLOCK, &data), guest.try_flush())
        else {
            return Ok((expected, Err(number)));
        };
        ensure!(written.is_ok() && flushed.is_ok(), "the guest saw an error");
        expected.put(number * BLOCK, &data);
    }
    Ok((expected, Ok(guest)))
}

#[test]
fn at_whatever_moment() {
    killed_at_whatever_moment("drain");
}

#[test]
fn at_whatever_moment_of_dirty_data_that_goes_along() {
    killed_at_whatever_moment("ship");
}

fn killed_at_whatever_moment(dirty: &'static str) {
    scenario(RoamingPair::TOOLS, |lab| {
        let settings = RoamingSettings {
            dirty,
            ..RoamingSettings::default()
        };
        let mut pair = RoamingPair::start(lab, settings)?;
        let mut expected = Expected::of(&pair.image)?;
        for round in 1..=16_u8 {
            let there = usize::from(round % 2);
            let victim = usize::from(round / 2 % 2);
            let blocks = move || (u64::from(round)..400).step_by(9);
            let guest = pair.client(there)?;
            std::thread::sleep(RECONNECTS);
            // At another moment of the move in each round.
            let killed_after = Duration::from_millis(u64::from(round) * 13 % 47);
            let before = expected.clone();
            let writing = std::thread::spawn(move || write_durably(guest, before, blocks(), round));
            std::thread::sleep(killed_after);
            pair.kill(victim)?;
            pair.start_host(victim)?;
            let written = writing.join().map_err(|_| anyhow::anyhow!("a panic"))?;
            let written = written.with_context(|| format!("round {round}, {victim} killed"))?;
            expected = written.0;
            let mut guest = match written.1 {
                // It may have written everything before its host was killed.
                Ok(_) if victim == there => pair.client(there)?,
                Ok(guest) => guest,
                Err(unsure) => {
                    let mut guest = pair.client(there)?;
                    let found = guest.read(unsure * BLOCK, BLOCK)?;
                    if found == block(unsure, round) {
                        expected.put(unsure * BLOCK, &found);
                    }
                    expected.check("the guest that is back", &mut guest)?;
                    expected.write(&mut guest, blocks(), round + 100)?;
                    guest
                }
            };
            pair.wait_until_owned_by(there)?;
            expected.check("the guest", &mut guest)?;
            expected.check("the other host", &mut pair.client(1 - there)?)?;
            guest.flush()?;
            guest.close()?;
        }
        pair.flush_and_compare(&expected)?;
        pair.stop_both()
    });
}
