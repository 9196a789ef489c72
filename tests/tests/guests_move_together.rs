//! Two guests of different sizes, which rewrite their memory all the time, move at once over one slow link that is dealt
//! so that both end together: both go on at the other end with every page that they look at.

use anyhow::ensure;
use e2e::waves::{Member, move_wave};
use e2e::{GUEST_TOOLS, GuestKit, scenario};
use groups::{Rate, Split};
use units::Bytes;
use units::number::real;

const LINK: &str = "48MiB/s";
const MEMBERS: [Member; 2] = [
    Member {
        mib: 24,
        kib_a_second: 512,
    },
    Member {
        mib: 64,
        kib_a_second: 2048,
    },
];

#[test]
fn guests_move_at_once_over_a_link_that_is_dealt() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        let link: Rate = LINK.parse()?;
        let moved = move_wave(lab, &kit, &MEMBERS, link, Split::Dealt)?;

        ensure!(moved.lost_pages == 0, "{moved:?}");
        for (member, load) in MEMBERS.iter().zip(&moved.loads) {
            let most = Bytes::mib(member.mib + Member::KERNEL_MIB + 1);
            let is_its_memory = load.size > Bytes::mib(member.mib) && load.size < most;
            ensure!(is_its_memory, "{member:?} counted as {load:?}");
            ensure!(load.dirty > Rate::ZERO, "{member:?} counted as {load:?}");
        }
        // What was counted has crossed the link, which was not faster than it is.
        let bytes: u64 = moved.loads.iter().map(|load| load.size.get()).sum();
        let least_s = real(bytes) / link.bytes_per_second();
        ensure!(
            moved.time().as_secs_f64() > least_s * 0.9,
            "faster than {least_s} s: {moved:?}"
        );
        Ok(())
    });
}
