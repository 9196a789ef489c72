//! Results do not depend on how many threads there are.

use std::fmt::Write;

use anyhow::ensure;
use e2e::{hearth, scenario};

#[test]
fn one_thread_and_many_print_the_same() {
    scenario(&[], |lab| {
        let mut rows = String::new();
        for step in 0..60_000_u64 {
            let block = (step * step * 31 + step / 7) % 9000;
            let op = if step % 3 == 0 { "Write" } else { "Read" };
            let volume = step % 5;
            let _ = writeln!(
                rows,
                "{},web,{volume},{op},{},8192,100",
                128_166_372_003_061_629 + step * 10_000,
                block * 4096
            );
        }
        let trace = lab.write("web.csv", &rows)?.display().to_string();
        let simulate = |threads: &str| {
            hearth(&[
                "sim",
                &trace,
                "--format",
                "msr",
                "--policy",
                "lru,random,segment-clock,belady",
                "--size",
                "5%,20%,50%",
                "--interval",
                "10s",
                "--latency",
                "--flash",
                "read=lognormal:80us:300us",
                "--threads",
                threads,
                "--json",
            ])
        };
        let one = simulate("1")?;
        ensure!(one.json()?[0]["accesses"] == 120_000, "{}", one.stderr);
        ensure!(
            one.json()?[0]["volumes"]
                .as_array()
                .is_some_and(|volumes| volumes.len() == 5)
        );
        for threads in ["2", "7"] {
            ensure!(
                simulate(threads)?.stdout == one.stdout,
                "{threads} threads differ"
            );
        }
        Ok(())
    });
}
