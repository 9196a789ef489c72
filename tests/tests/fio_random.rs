//! Random writes of 4 KiB by fio at depth 32 with both write policies, every block checked.

use e2e::{Fio, Stack, StackSettings, scenario};

fn random_writes_read_back_right(write_policy: &'static str) {
    scenario(&["fio", "nbdkit", "nbdcopy"], |lab| {
        let mut stack = Stack::start(
            lab,
            &StackSettings {
                write_policy,
                ..StackSettings::default()
            },
        )?;
        let job = |uri: &str| {
            Fio::new(lab, "random", uri)
                .with("bs=4k")
                .with("iodepth=32")
                .with("size=32m")
                .with("rw=randwrite")
                .verified()
        };
        // The second run overwrites blocks that the first one's verification brought into the cache.
        job(&stack.uri()).run()?;
        job(&stack.uri()).with("randseed=7").run()?;
        stack.check_disk_equals_origin(lab)
    });
}

#[test]
fn random_writes_read_back_right_with_write_through() {
    random_writes_read_back_right("through");
}

#[test]
fn random_writes_read_back_right_with_write_around() {
    random_writes_read_back_right("around");
}
