//! What a hit saves: the time that a read of each tenant's origin takes, less that of a read of the flash.

use units::{Duration, TenantSlot};

/// How long reads took since the last window ended.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: u64,
    count: u64,
}

impl Mean {
    #[inline]
    fn add(&mut self, time: Duration) {
        self.sum = self.sum.saturating_add(time.as_nanos());
        self.count += 1;
    }

    fn take(&mut self) -> Option<u64> {
        let Self { sum, count } = std::mem::take(self);
        sum.checked_div(count)
    }
}

/// The reads of the running window.
#[derive(Default)]
pub(crate) struct Saved {
    flash: Mean,
    /// By tenant.
    origins: Vec<Mean>,
}

impl Saved {
    #[inline]
    pub(crate) fn flash_took(&mut self, time: Duration) {
        self.flash.add(time);
    }

    pub(crate) fn origin_took(&mut self, tenant: TenantSlot, time: Duration) {
        if self.origins.len() <= tenant.index() {
            self.origins.resize(tenant.index() + 1, Mean::default());
        }
        self.origins[tenant.index()].add(time);
    }

    /// What a hit of each tenant whose origin was read has saved in the window that ends.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (TenantSlot, Duration)> {
        let flash = self.flash.take().unwrap_or(0);
        let origins = self.origins.iter_mut().zip((0..).map(TenantSlot::new));
        origins.filter_map(move |(origin, tenant)| {
            let saved = origin.take()?.saturating_sub(flash);
            Some((tenant, Duration::from_nanos(saved)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_saves_the_mean_of_its_origin_less_that_of_the_flash() {
        let mut saved = Saved::default();
        let (one, other) = (TenantSlot::new(0), TenantSlot::new(2));
        for nanos in [100, 300] {
            saved.flash_took(Duration::from_nanos(nanos));
            saved.origin_took(other, Duration::from_nanos(10 * nanos));
        }
        saved.origin_took(one, Duration::from_nanos(50));
        let taken: Vec<_> = saved.take().collect();
        let nanos = Duration::from_nanos;
        assert_eq!(taken, [(one, nanos(0)), (other, nanos(1800))]);
        assert_eq!(saved.take().count(), 0, "a window begins with nothing");
    }
}
