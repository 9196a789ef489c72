//! `cargo run -p e2e --bin moves -- [MOVES] [SEED] [POLICY] [FRONT-END] [DIRTY]`: a VM moves between two hosts so often, with faults, see
//! [`e2e::moves`]. It needs `hearth` built with the same profile, or `$HEARTH_BIN`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a report for who runs it")]

use e2e::{RoamingPair, RoamingSettings, Words, moves, scenario};

const MOVES: u64 = 2_000;

fn main() -> anyhow::Result<()> {
    let words = Words::of_process();
    let (count, seed) = (words.number(0, MOVES)?, words.number(1, 1)?);
    let write_policy = match words.word(2, "back") {
        "back" => "back",
        "through" => "through",
        "around" => "around",
        other => anyhow::bail!("'{other}' is no write policy: back, through or around"),
    };
    let vhost_user = match words.word(3, "nbd") {
        "nbd" => false,
        "vhost-user" => true,
        other => anyhow::bail!("'{other}' is no front end: nbd or vhost-user"),
    };
    let dirty = match words.word(4, "ship") {
        "drain" => "drain",
        "ship" => "ship",
        other => anyhow::bail!("'{other}' is not what becomes of dirty data: drain or ship"),
    };
    let front_end = if vhost_user { "vhost-user" } else { "nbd" };
    println!(
        "{count} moves under {write_policy}, seed {seed}, over {front_end}, dirty data: {dirty}"
    );
    scenario(RoamingPair::TOOLS, |lab| {
        let settings = RoamingSettings {
            write_policy,
            vhost_user,
            dirty,
            ..RoamingSettings::default()
        };
        let moved = moves(lab, count, seed, settings, &mut |line| println!("{line}"))?;
        println!("{moved:#?}");
        Ok(())
    });
    Ok(())
}
