//! No move exists: the host's shares scale in proportion, and the operator learns how much flash is missing.

use crate::load::HostLoad;
use crate::plan::Short;
use crate::shares;
use units::Bytes;
use units::number::{count_up, real};

/// What a host with this demand is short of.
pub(super) fn of(host: &HostLoad, demand: Bytes) -> Short {
    let capacity = Bytes::new(count_up(real(demand.get()) / host.load_max()));
    Short {
        host: host.host.clone(),
        load: host.load_of(demand),
        missing: capacity.saturating_sub(host.capacity),
        scale: shares::scale(host.capacity, demand),
    }
}

#[cfg(test)]
mod tests {
    use crate::testkit::{fleet, host, vm};
    use crate::{Rules, plan};
    use units::{Bytes, Instant};

    #[test]
    fn a_host_without_a_plan_says_how_much_flash_is_missing() {
        let hosts = [host("a", 90, &[vm("v", 60), vm("w", 48)])];
        let plan = plan(&fleet(&hosts), &Rules::hearth(), Instant::ZERO);
        assert!(plan.moves.is_empty());
        let short = &plan.short[0];
        // 108 GiB are 90 % of 120 GiB.
        assert_eq!(short.missing, Bytes::gib(30));
        assert!((short.load - 1.2).abs() < 1e-12);
        assert!((short.scale - 90.0 / 108.0).abs() < 1e-12);
    }
}
