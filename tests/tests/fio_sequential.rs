//! Sequential writes and reads by fio, every block checked, cold and warm.

use e2e::{Fio, Stack, StackSettings, scenario};

#[test]
fn sequential_writes_read_back_right() {
    scenario(&["fio", "nbdkit", "nbdcopy"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let job = |name: &str, uri: &str| {
            Fio::new(lab, name, uri)
                .with("bs=64k")
                .with("iodepth=8")
                .with("size=48m")
                .verified()
        };
        job("fill", &stack.uri()).with("rw=write").run()?;
        // What fio wrote is read twice more: misses first, then hits.
        job("fill", &stack.uri()).with("rw=read").run()?;
        job("fill", &stack.uri()).with("rw=read").run()?;
        stack.check_disk_equals_origin(lab)
    });
}
