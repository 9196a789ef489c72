//! The link between two hosts is lost during a move, and comes back: a guest whose hosts can speak again within its
//! patience sees no error, and one whose hosts cannot gets one. Nothing that was answered is lost.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::{Expected, Lab, RoamingPair, RoamingSettings, Session, block, scenario};

const BLOCK: u64 = 4096;
/// How long a client that has gone may take to connect again, with some time for the word of it to get through.
const RECONNECTS: Duration = Duration::from_millis(1200);
/// For a message to get as far as it does not go on.
const ON_ITS_WAY: Duration = Duration::from_millis(200);

/// Two hosts: the guest of host 0 has written and gone, and one of host 1 is there.
struct Moving {
    pair: RoamingPair,
    expected: Expected,
    guest: Session,
}

impl Moving {
    fn start(lab: &Lab) -> anyhow::Result<Self> {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        let mut expected = Expected::of(&pair.image)?;
        let mut old = pair.client(0)?;
        expected.write(&mut old, (0..400).step_by(3), 1)?;
        old.flush()?;
        old.close()?;
        let mut guest = pair.client(1)?;
        expected.check("the destination, which reads", &mut guest)?;
        std::thread::sleep(RECONNECTS);
        Ok(Self {
            pair,
            expected,
            guest,
        })
    }

    /// The guest of host 1 writes while `meanwhile` is done: whether it is answered without an error.
    fn writes_while(
        self,
        meanwhile: impl FnOnce(&RoamingPair) -> anyhow::Result<()>,
    ) -> anyhow::Result<(Self, bool)> {
        let Self {
            pair,
            mut expected,
            mut guest,
        } = self;
        let writing = std::thread::spawn(move || {
            let written = guest.try_write(50 * BLOCK, &block(50, 2))?;
            anyhow::Ok((guest, written.is_ok()))
        });
        meanwhile(&pair)?;
        let (guest, is_written) = writing.join().map_err(|_| anyhow::anyhow!("a panic"))??;
        if is_written {
            expected.put(50 * BLOCK, &block(50, 2));
        }
        let moving = Self {
            pair,
            expected,
            guest,
        };
        Ok((moving, is_written))
    }

    fn goes_on(mut self) -> anyhow::Result<()> {
        let (pair, expected) = (&mut self.pair, &mut self.expected);
        expected.check("the destination", &mut self.guest)?;
        expected.write(&mut self.guest, (2..400).step_by(11), 3)?;
        pair.wait_until_owned_by(1)?;
        let mut old = pair.client(0)?;
        expected.check("the source", &mut old)?;
        pair.flush_and_compare(expected)?;
        self.guest.close()?;
        expected.write(&mut old, 60..80, 4)?;
        pair.wait_until_owned_by(0)?;
        expected.check("the source, which has it back", &mut old)?;
        pair.flush_and_compare(expected)?;
        self.pair.stop_both()
    }
}

#[test]
fn a_claim_that_is_lost_with_the_link_is_made_again() {
    scenario(RoamingPair::TOOLS, |lab| {
        let moving = Moving::start(lab)?;
        moving.pair.wire.hold(0);
        let (moving, is_written) = moving.writes_while(|pair| {
            std::thread::sleep(ON_ITS_WAY);
            pair.wire.cut();
            std::thread::sleep(ON_ITS_WAY);
            pair.wire.mend();
            Ok(())
        })?;
        ensure!(is_written, "the guest saw the link's loss");
        moving.goes_on()
    });
}

#[test]
fn a_grant_that_is_lost_with_the_link_is_made_again() {
    scenario(RoamingPair::TOOLS, |lab| {
        let moving = Moving::start(lab)?;
        moving.pair.wire.hold(1);
        let (moving, is_written) = moving.writes_while(|pair| {
            pair.wait_until_recorded(1)?;
            std::thread::sleep(ON_ITS_WAY);
            pair.wire.cut();
            std::thread::sleep(ON_ITS_WAY);
            pair.wire.mend();
            Ok(())
        })?;
        ensure!(is_written, "the guest saw the link's loss");
        moving.goes_on()
    });
}

#[test]
fn a_link_that_is_cut_again_and_again_during_moves_loses_nothing() {
    scenario(RoamingPair::TOOLS, |lab| {
        let Moving {
            mut pair,
            mut expected,
            mut guest,
        } = Moving::start(lab)?;
        for round in 1..=12_u8 {
            let there = usize::from(round % 2 == 0);
            std::thread::sleep(RECONNECTS);
            // At another place of the move in each round.
            let cut_after = Duration::from_millis(u64::from(round) * 13 % 41);
            let writing = std::thread::spawn(move || {
                expected.write(&mut guest, (0..300).step_by(7), 100 + round)?;
                anyhow::Ok((guest, expected))
            });
            std::thread::sleep(cut_after);
            pair.wire.cut();
            std::thread::sleep(ON_ITS_WAY / 4);
            pair.wire.mend();
            let written = writing.join().map_err(|_| anyhow::anyhow!("a panic"))?;
            (guest, expected) = written.with_context(|| format!("round {round}"))?;
            pair.wait_until_owned_by(1 - there)?;
            let mut next = pair.client(there)?;
            expected.check("the other host", &mut next)?;
            guest.flush()?;
            guest.close()?;
            guest = next;
        }
        pair.flush_and_compare(&expected)?;
        pair.stop_both()
    });
}

#[test]
fn a_guest_of_hosts_that_cannot_speak_gets_an_error_and_goes_on_when_they_can() {
    scenario(RoamingPair::TOOLS, |lab| {
        let moving = Moving::start(lab)?;
        moving.pair.wire.cut();
        let before = moving.pair.record()?;
        let began = Instant::now();
        let (mut moving, is_written) = moving.writes_while(|_| Ok(()))?;
        let took = began.elapsed();
        ensure!(!is_written, "it was written without a word of the owner");
        let patience = Duration::from_secs(9)..Duration::from_secs(15);
        ensure!(patience.contains(&took), "it waited {took:?}");
        ensure!(moving.pair.record()? == before, "the record has changed");
        // Who has the disk serves on meanwhile.
        let mut old = moving.pair.client(0)?;
        moving.expected.write(&mut old, 20..40, 5)?;
        moving.expected.check("the source", &mut old)?;
        old.flush()?;
        old.close()?;
        moving.pair.wire.mend();
        moving.goes_on()
    });
}
