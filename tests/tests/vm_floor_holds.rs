//! A VM with a floor keeps its flash beside a neighbour that reads far more than there is; without one it
//! loses it to a neighbour of much greater weight.

use anyhow::ensure;
use e2e::{
    DiskSettings, Fio, Flash, Hearth, HearthSettings, Image, Lab, Origin, OriginSettings, Request,
    nbdsh, scenario,
};

/// What the quiet VM reads, and the floor that holds it with its segments' own pages.
const QUIET_MIB: u64 = 24;

/// Blocks of the quiet VM that were fetched again after the neighbour's storm.
fn fetched_again(lab: &Lab, quiet: &str) -> anyhow::Result<usize> {
    let quiet_image = Image::new(lab, "quiet.raw", QUIET_MIB)?;
    let greedy_image = Image::new(lab, "greedy.raw", 384)?;
    let origin = Origin::start(lab, &quiet_image, OriginSettings::default())?;
    let flash = Flash::format(lab, "flash.img", 128)?;
    let settings = HearthSettings::new(&flash)
        .cache_key("write_delay = '50ms'")
        .policy_key("admission = 'always'")
        .policy_key("allocation = 'static'")
        .disk(&DiskSettings::on_nbd("quiet", &origin.uri()))
        .disk(&DiskSettings::on_file("greedy", greedy_image.path()))
        .vm("quiet", quiet)
        .vm("greedy", "weight = 10000");
    let hearth = Hearth::start(lab, &settings)?;
    let all = format!("for at in range({QUIET_MIB}):\n  h.pread(1 << 20, at << 20)");
    nbdsh(Some(&hearth.uri("quiet")), &all)?;
    Fio::new(lab, "greedy", &hearth.uri("greedy"))
        .with("rw=randread")
        .with("bs=64k")
        .with("iodepth=16")
        .with("size=384m")
        .with("loops=2")
        .run()?;
    let before = origin.requests()?.len();
    nbdsh(Some(&hearth.uri("quiet")), &all)?;
    let again = Request::blocks(&origin.reads_since(before)?).len();
    hearth.stop()?;
    Ok(again)
}

const BLOCKS: usize = 24 * 256;

#[test]
fn a_floor_holds_against_a_greedy_neighbour() {
    scenario(&["nbdkit", "nbdsh", "fio"], |lab| {
        let lost = fetched_again(lab, "weight = 1\nfloor = '40MiB'")?;
        ensure!(
            lost * 50 <= BLOCKS,
            "{lost} of {BLOCKS} blocks lost in spite of the floor"
        );
        Ok(())
    });
}

#[test]
fn without_a_floor_a_neighbour_of_greater_weight_takes_the_flash() {
    scenario(&["nbdkit", "nbdsh", "fio"], |lab| {
        let lost = fetched_again(lab, "weight = 1")?;
        ensure!(lost * 2 >= BLOCKS, "only {lost} of {BLOCKS} blocks lost");
        Ok(())
    });
}
