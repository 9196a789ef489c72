//! Whether a disk's limits make sense.

use crate::fault::Fault;
use crate::limits::BURST_MAX;
use crate::model::DiskConfig;

pub(super) fn disk_faults(disk: &DiskConfig) -> Option<Fault> {
    let burst = disk.limits.burst.0;
    (burst > BURST_MAX).then(|| {
        let message = format!("{burst} is too long: the longest burst is {BURST_MAX}");
        Fault::new("limits.burst", message)
    })
}

#[cfg(test)]
mod tests {
    use crate::{DiskConfig, FileOrigin, Text, disk_faults};
    use units::Duration;

    #[test]
    fn a_burst_has_an_end() {
        let mut disk = DiskConfig::new("d".parse().unwrap(), FileOrigin::new("/o".into()).into());
        disk.limits.burst = Text(Duration::from_secs(3600));
        assert_eq!(disk_faults(&disk), []);
        disk.limits.burst = Text(Duration::from_secs(3601));
        assert_eq!(disk_faults(&disk)[0].key, "limits.burst");
    }
}
