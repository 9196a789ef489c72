//! NBD's cache command brings a range to flash: reading it afterwards asks the origin for nothing.

use std::fs::File;

use anyhow::ensure;
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, SHORT, Stack, StackSettings, nbdsh,
    scenario, wait_until,
};

#[test]
fn a_prefetched_range_is_read_without_the_origin() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let uri = stack.uri();
        nbdsh(Some(&uri), "h.cache(4 << 20, 8 << 20)")?;
        // The answer does not promise that all of it is there yet.
        wait_until(
            "the prefetched range to be served without the origin",
            SHORT,
            || {
                let before = stack.origin.requests()?.len();
                nbdsh(Some(&uri), "h.pread(4 << 20, 8 << 20)")?;
                Ok(stack.origin.reads_since(before)?.is_empty())
            },
        )?;
        ensure!(stack.hearth().is_running(), "hearth ended");
        Ok(())
    });
}

#[test]
fn a_prefetch_of_gigabytes_takes_little_memory_and_others_are_served() {
    scenario(&["nbdsh"], |lab| {
        let large = lab.path("large.raw");
        File::create(&large)?.set_len(3 << 30)?;
        let small = Image::new(lab, "small.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let settings = HearthSettings::new(&flash)
            .disk(&DiskSettings::on_file("large", &large))
            .disk(&DiskSettings::on_file("small", small.path()));
        let hearth = Hearth::start(lab, &settings)?;
        let before = hearth.peak_mib()?;
        let uri = hearth.uri("large");
        let prefetch =
            std::thread::spawn(move || nbdsh(Some(&uri), "h.cache((3 << 30) - 4096, 0)"));
        small.check_equals_export(lab, &hearth.uri("small"))?;
        match prefetch.join() {
            Ok(done) => done?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let taken = hearth.peak_mib()? - before;
        ensure!(taken < 512, "a prefetch took {taken} MiB");
        let shown = hearth.json(&["status"])?["caches"][0].clone();
        ensure!(
            shown["state"] == "serving",
            "{} {}",
            shown["state"],
            shown["reason"]
        );
        hearth.stop().map(drop)
    });
}
