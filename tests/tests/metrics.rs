//! What the daemon counts agrees with what the origin and the clients saw; counters never go back as long as
//! their disk or cache is there, and what disks have adds up to what their cache has.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use e2e::{
    Back, DiskSettings, Flash, Hearth, HearthSettings, Image, Stack, StackSettings, nbdsh,
    scenario, writes,
};

/// The value of each series.
type Scrape = BTreeMap<String, f64>;

fn scrape(hearth: &Hearth) -> anyhow::Result<Scrape> {
    let answer = hearth.metrics()?;
    let lines = answer.lines().filter(|line| line.starts_with("hearth_"));
    let values = lines.map(|line| {
        let (series, value) = line.rsplit_once(' ').context("a value")?;
        Ok((series.to_owned(), value.parse()?))
    });
    values.collect()
}

/// Whether a series only grows: a counter, or a part of a histogram.
fn only_grows(series: &str) -> bool {
    let name = series.split('{').next().unwrap_or(series);
    ["_total", "_bucket", "_count", "_sum"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// No counter is smaller than it was before, and none is missing, of those that `concerns` picks.
fn compare(before: &Scrape, now: &Scrape, concerns: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    let counters = before
        .iter()
        .filter(|(series, _)| only_grows(series) && concerns(series));
    for (series, before) in counters {
        let now = now
            .get(series)
            .with_context(|| format!("{series} is gone"))?;
        ensure!(now >= before, "{series} was {before} and is {now}");
    }
    Ok(())
}

fn value(scrape: &Scrape, name: &str) -> anyhow::Result<f64> {
    let mut found = scrape
        .iter()
        .filter(|(series, _)| series.split('{').next() == Some(name));
    let (_, value) = found.next().with_context(|| format!("no {name}"))?;
    Ok(*value)
}

#[test]
fn counters_of_a_disk_never_go_back_while_it_is_attached() {
    scenario(&["nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", Back::IMAGE_MIB)?;
        let flash = Flash::format(lab, "flash.img", Back::FLASH_MIB)?;
        let disk = DiskSettings::on_file(Back::DISK, image.path())
            .key("write_policy = 'back'")
            .key("write_back = { dirty_max = '16MiB', age_max = '1000s', rate = '4MiB/s' }");
        let settings = HearthSettings::new(&flash).disk(&disk);
        let mut hearth = Hearth::start(lab, &settings)?;
        let uri = hearth.uri(Back::DISK);
        // More than the log holds: some writes wait.
        nbdsh(Some(&uri), &writes(0, 6000, 1))?;
        let mut before = scrape(&hearth)?;
        ensure!(value(&before, "hearth_disk_stalled_writes_total")? > 0.0);
        ensure!(value(&before, "hearth_disk_destaged_bytes_total")? > 0.0);
        for policy in ["through", "back", "around", "back", "through"] {
            hearth.command(&["disk", "set", Back::DISK, "--policy", policy])?;
            nbdsh(Some(&uri), &writes(0, 50, 2))?;
            let now = scrape(&hearth)?;
            compare(&before, &now, |_| true).context(policy)?;
            before = now;
        }
        // Those of a disk begin with its attachment, those of its cache do not.
        let of_cache = |series: &str| !series.contains("disk=") && !series.contains("vm=");
        hearth.command(&["disk", "detach", Back::DISK, "--flush"])?;
        let gone = scrape(&hearth)?;
        compare(&before, &gone, of_cache)?;
        ensure!(!gone.keys().any(|series| series.contains("disk=\"disk\"")));
        let path = image.path().display().to_string();
        hearth.command(&["disk", "attach", Back::DISK, "--origin", &path])?;
        nbdsh(Some(&uri), &writes(0, 50, 3))?;
        let again = scrape(&hearth)?;
        compare(&gone, &again, of_cache)?;
        let written = value(&again, "hearth_disk_written_bytes_total")?;
        ensure!((written - 50.0 * 4096.0).abs() < 0.5, "{written}");
        let requests = "hearth_cache_guest_request_seconds_count{cache=\"flash\",op=\"write\"}";
        ensure!(again[requests] >= gone[requests] + 50.0, "{again:?}");
        // Everything begins anew with the daemon.
        hearth.renew()?;
        let renewed = scrape(&hearth)?;
        nbdsh(Some(&uri), &writes(0, 50, 4))?;
        compare(&renewed, &scrape(&hearth)?, |_| true)?;
        hearth.stop().map(drop)
    });
}

#[test]
fn what_disks_have_cached_adds_up_under_load() {
    scenario(&["nbdsh"], |lab| {
        // Smaller than the disks, so that blocks leave meanwhile.
        let flash = Flash::format(lab, "flash.img", 64)?;
        let mut settings = HearthSettings::new(&flash);
        for name in ["one", "two", "three"] {
            let image = Image::new(lab, &format!("{name}.raw"), 64)?;
            let disk = DiskSettings::on_file(name, image.path());
            settings = settings.disk(&if name == "three" {
                disk.key("write_policy = 'back'").key(
                    "write_back = { dirty_max = '16MiB', age_max = '50ms', idle_after = '10ms' }",
                )
            } else {
                disk
            });
        }
        let hearth = Hearth::start(lab, &settings)?;
        let load = |name: &str| {
            let uri = hearth.uri(name);
            let script = "import random\nrandom.seed(1)\nfor n in range(4000):\n    \
                b = random.randrange(16000) * 4096\n    \
                h.pread(65536, min(b, (64 << 20) - 65536)) if n % 3 else h.pwrite(b'x' * 4096, b)";
            std::thread::spawn(move || nbdsh(Some(&uri), script).map(drop))
        };
        let loads = ["one", "two", "three"].map(load);
        let mut looks = 0;
        while !loads.iter().all(std::thread::JoinHandle::is_finished) {
            let now = scrape(&hearth)?;
            let of = |name: &str| {
                let series = now
                    .iter()
                    .filter(move |(series, _)| series.split('{').next() == Some(name));
                series.map(|(_, value)| value).sum::<f64>()
            };
            let (disks, cache) = (
                of("hearth_disk_cached_blocks"),
                of("hearth_cache_cached_blocks"),
            );
            ensure!(
                (disks - cache).abs() < 0.5,
                "{disks} of disks, {cache} of the cache"
            );
            looks += 1;
        }
        for load in loads {
            load.join().map_err(|_| anyhow::anyhow!("a thread"))??;
        }
        ensure!(looks > 1, "the load was over at once");
        hearth.stop().map(drop)
    });
}

#[test]
fn hits_and_misses_are_counted_a_block_each() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let uri = stack.uri();
        nbdsh(
            Some(&uri),
            "h.pread(1 << 20, 0)\nh.pread(1 << 20, 0)\nh.pwrite(b'x' * 8192, 0)",
        )?;
        let disk = stack.hearth().json(&["disk", "show", Stack::DISK])?;
        let counter = |name: &str| {
            disk["counters"][name]
                .as_u64()
                .with_context(|| format!("{name} in {disk}"))
        };
        ensure!(counter("read_block_misses")? == 256, "{disk}");
        ensure!(counter("read_block_hits")? == 256, "{disk}");
        ensure!(counter("read_bytes")? == 2 << 20, "{disk}");
        ensure!(counter("written_bytes")? == 8192, "{disk}");
        let from_origin: u64 = stack
            .origin
            .reads_since(0)?
            .iter()
            .map(|request| request.length)
            .sum();
        ensure!(
            counter("origin_read_bytes")? == from_origin,
            "the origin counted {from_origin}: {disk}"
        );
        ensure!(counter("failed_requests")? == 0, "{disk}");
        Ok(())
    });
}
