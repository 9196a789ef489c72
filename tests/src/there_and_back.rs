//! A disk goes from one host to the other and back, with what its guests have written.

use anyhow::ensure;

use crate::{Expected, RoamingPair};

/// Moves a disk three times. At the host that it goes to its guest reads what the other one has, also what the origin
/// lacks if its writes go there later; then it writes, and the disk is there alone.
///
/// # Errors
///
/// When a byte is another one, or the disk is where it should not be.
pub fn there_and_back(pair: &mut RoamingPair, writes_back: bool) -> anyhow::Result<()> {
    let path = pair.image.path().to_path_buf();
    there_and_back_over(pair, writes_back, &|| Ok(std::fs::read(&path)?))
}

/// The same where the origin's bytes are asked for.
///
/// # Errors
///
/// When a byte is another one, the disk is where it should not be, or the origin's bytes cannot be had.
pub fn there_and_back_over(
    pair: &mut RoamingPair,
    writes_back: bool,
    at_origin: &dyn Fn() -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<()> {
    let mut expected = Expected::of(&pair.image)?;
    for round in 1..=3 {
        let here = usize::from(round % 2 == 0);
        let there = 1 - here;
        let mut source = pair.client(here)?;
        expected.write(&mut source, (0..400).step_by(3), round)?;
        source.flush()?;
        expected.write(&mut source, (1..400).step_by(7), round + 100)?;
        expected.check("the source", &mut source)?;
        pair.wait_until_owned_by(here)?;
        let is_behind = expected.compare("the origin", &at_origin()?).is_err();
        ensure!(is_behind == writes_back, "what the origin has");
        let mut destination = pair.client(there)?;
        expected.check("the destination, before it writes", &mut destination)?;
        // Not written here.
        destination.flush()?;
        pair.wait_until_owned_by(here)?;
        source.close()?;
        expected.write(&mut destination, (2..400).step_by(11), round + 200)?;
        pair.wait_until_owned_by(there)?;
        expected.check("the destination", &mut destination)?;
        destination.flush()?;
        pair.flush_to_origin(there)?;
        expected.compare("the origin", &at_origin()?)?;
        expected.check("the destination, cold or warm", &mut destination)?;
        destination.close()?;
        pair.wait_until_recorded(there)?;
    }
    Ok(())
}
