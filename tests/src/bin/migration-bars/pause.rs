//! How long a VM waits for its disk when it moves, which without Hearth it would not.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use e2e::{Expected, Lab, RoamingPair, RoamingSettings, scenario};

/// How long QEMU waits at the destination before the VM comes: a second, which a client has to have been there when the guest
/// flushes for the last time, and as long as that flush may take.
const INCOMING_WAITS: Duration = Duration::from_millis(1500);
/// Blocks that a guest writes before each move.
const WRITTEN: u64 = 400;

/// Moves a disk so many times there and back, under each policy, and says how long its guest waited.
pub(crate) fn measure(moves: u32) {
    println!(
        "| written | moves | waited, half | 99 of 100 | most | of these held by the source, half | 99 of 100 |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (policy, dirty) in [("through", "drain"), ("back", "drain"), ("back", "ship")] {
        scenario(RoamingPair::TOOLS, |lab| moved(lab, (policy, dirty), moves));
    }
}

fn moved(
    lab: &Lab,
    (write_policy, dirty): (&'static str, &'static str),
    moves: u32,
) -> anyhow::Result<()> {
    let settings = RoamingSettings {
        write_policy,
        dirty,
        ..RoamingSettings::default()
    };
    let mut pair = RoamingPair::start(lab, settings)?;
    let mut expected = Expected::of(&pair.image)?;
    let mut source = pair.client(0)?;
    let mut round = 0_u8;
    let (mut waited, mut held) = (Vec::new(), Vec::new());
    for number in 0..moves {
        let here = number as usize % 2;
        let mut destination = pair.client(1 - here)?;
        let began = Instant::now();

        while began.elapsed() < INCOMING_WAITS {
            round = round.wrapping_add(1);
            let blocks = (u64::from(round) % 7..WRITTEN).step_by(7);
            expected.write(&mut source, blocks, round)?;
            source.flush()?;
        }
        // The VM has stopped: its QEMU flushes, and is silent. It goes on when its memory has come.
        std::thread::sleep(Duration::from_millis(30));
        let goes_on = Instant::now();
        expected.write(&mut destination, 0..1, round.wrapping_add(1))?;
        waited.push(goes_on.elapsed());
        pair.wait_until_owned_by(1 - here)?;
        let shown = pair
            .host(here)
            .json(&["migrate", "show", RoamingPair::DISK])?;
        let seconds = shown["last_hand_over"]["held_seconds"].as_f64();
        let seconds = seconds.context("how long requests were held")?;
        held.push(Duration::from_secs_f64(seconds));
        source.close()?;
        source = destination;
    }
    expected.check("the guest", &mut source)?;
    source.close()?;
    let name = match write_policy {
        "through" => "through".to_owned(),
        policy => format!("{policy}, {dirty}"),
    };
    let [half, most_of_hundred, most] = ranks(&mut waited);
    let [held_half, held_most_of_hundred, _] = ranks(&mut held);
    println!(
        "| {name} | {moves} | {half:.1} ms | {most_of_hundred:.1} ms | {most:.1} ms | {held_half:.1} ms | {held_most_of_hundred:.1} ms |"
    );
    pair.stop_both()
}

/// The median, the slowest of a hundred, and the slowest, in milliseconds.
fn ranks(times: &mut [Duration]) -> [f64; 3] {
    times.sort_unstable();
    [50, 99, 100].map(|of_hundred| {
        let rank = (times.len() * of_hundred).div_ceil(100).max(1);
        let time = times.get(rank - 1).copied().unwrap_or_default();
        time.as_secs_f64() * 1000.0
    })
}
