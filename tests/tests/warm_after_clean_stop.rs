//! After a clean stop the cache is as warm as before: the origin is asked for nothing that it was
//! asked for already.

use anyhow::ensure;
use e2e::{Request, Stack, StackSettings, scenario};

#[test]
fn a_clean_restart_reads_nothing_from_the_origin_twice() {
    scenario(&["nbdcopy", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        stack.read_disk(lab)?;
        stack.stop_hearth()?;
        let before = stack.origin.requests()?.len();
        ensure!(
            Request::blocks(&stack.origin.reads_since(0)?).len() == 64 << 8,
            "the first copy read all of it"
        );
        stack.start_hearth(lab)?;
        stack.check_disk_equals_origin(lab)?;
        let again = Request::blocks(&stack.origin.reads_since(before)?);
        ensure!(
            again.is_empty(),
            "{} blocks were read from the origin again: {again:?}",
            again.len()
        );
        Ok(())
    });
}
