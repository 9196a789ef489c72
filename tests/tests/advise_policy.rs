//! `hearth advise --policy` advises by the policy's own simulation.

use anyhow::{Context, ensure};
use e2e::{hearth, scenario};

#[test]
fn the_advice_about_the_daemon_has_the_counts_of_its_simulation() {
    scenario(&[], |lab| {
        let trace = lab.path("zipf.csv").display().to_string();
        let kind = "zipf,requests=60000,blocks=20000,theta=0.9,reads=0.8";
        ensure!(hearth(&["trace", "generate", kind, "--output", &trace])?.code == 0);
        let sizes = ["--policy", "daemon", "--json"];
        let advise = [&["advise", &trace, "--sizes", "40MiB,60MiB"][..], &sizes].concat();
        let advice = hearth(&advise)?.json()?;
        let advice = &advice[0];
        let sim = [&["sim", &trace, "--size", "40MiB,60MiB"][..], &sizes].concat();
        let runs = hearth(&sim)?.json()?;
        let assumed = &advice["assumed"];
        ensure!(assumed["policy"] == "daemon", "{assumed}");
        ensure!(assumed["write_amplification"] == 1.0, "{assumed}");
        for run in runs.as_array().context("runs are an array")? {
            let sizes = advice["sizes"].as_array().context("sizes are an array")?;
            let outlook = sizes
                .iter()
                .find(|outlook| outlook["size_blocks"] == run["size_blocks"])
                .context("the size is compared")?;
            let count = |key: &str| run[key].as_f64().context("a count is a number");
            let hits = count("read_hits")? / count("reads")?;
            let advised = outlook["read_hit_ratio"].as_f64().context("a ratio")?;
            ensure!(
                hits > 0.1 && (advised - hits).abs() < 1e-9,
                "{outlook} {run}"
            );
            let written = count("flash_writes_blocks")? * 4096.0;
            ensure!(
                written > 0.0 && outlook["flash_bytes"] == written,
                "{outlook} {run}"
            );
        }
        Ok(())
    });
}

#[test]
fn writes_that_the_origin_does_not_keep_up_with_are_not_advised_to_go_back() {
    scenario(&[], |lab| {
        let trace = lab.path("writes.csv").display().to_string();
        let kind = "uniform,requests=20000,blocks=4M,reads=0.1,rate=2000";
        ensure!(hearth(&["trace", "generate", kind, "--output", &trace])?.code == 0);
        let back = [
            "advise",
            &trace,
            "--sizes",
            "40MiB",
            "--write-policy",
            "back",
        ];
        let mean = |words: &[&str]| {
            let advice = hearth(&[&back[..], words, &["--json"]].concat())?.json()?;
            ensure!(advice[0]["assumed"]["queues"] == true, "{advice}");
            let sizes = advice[0]["sizes"].as_array().context("sizes")?;
            let of = sizes.iter().find(|size| size["size_blocks"] == 10_240);
            let size = of.context("the size is compared")?;
            size["write_us"].as_f64().context("a time")
        };
        // A log of 16 MiB takes 4,096 of 18,000 writes; the disk takes 125 a second of the others.
        let disk = mean(&["--origin", "disk"])?;
        ensure!(disk > 1e6, "{disk}");
        let fast = mean(&["--origin", "nvme"])?;
        ensure!(fast < 1_000.0, "{fast}");
        let said = hearth(&[&back[..], &["--origin", "disk"]].concat())?.stdout;
        ensure!(said.contains("does not keep up"), "{said}");
        Ok(())
    });
}

#[test]
fn a_policy_that_cannot_be_advised_about_is_refused_with_the_way_out() {
    scenario(&[], |lab| {
        let trace = lab.write("keys.txt", "1\n2\n1\n3\n")?.display().to_string();
        let refusals: [(&[&str], &str); 5] = [
            (&["--policy", "belady"], "hearth sim"),
            (&["--policy", "daemon"], "--policy lru"),
            (
                &["--policy", "daemon", "--sizes", "10blk"],
                "larger --sizes",
            ),
            (&["--samples", "100"], "--sample 0.1"),
            (&["--policy", "no-such"], "not a policy"),
        ];
        for (words, remedy) in refusals {
            let answer = hearth(&[&["advise", &trace], words].concat())?;
            ensure!(answer.code == 2, "{words:?}: {}", answer.code);
            ensure!(
                answer.stderr.contains(remedy),
                "{words:?}: {}",
                answer.stderr
            );
        }
        Ok(())
    });
}

#[test]
fn memory_in_front_is_advised_by_its_simulation() {
    scenario(&[], |lab| {
        let trace = lab.path("zipf.csv").display().to_string();
        let kind = "zipf,requests=60000,blocks=20000,theta=1.1,reads=0.9";
        ensure!(hearth(&["trace", "generate", kind, "--output", &trace])?.code == 0);
        let memory = ["--ram", "4MiB,400KiB", "--ram-policy", "lru"];
        let words = [&["advise", &trace, "--policy", "lru"][..], &memory].concat();
        let advice = hearth(&[&words[..], &["--json"]].concat())?.json()?;
        let (advised, tried) = (&advice[0]["advised"], &advice[0]["memory"]);
        let size = format!("{}blk", advised["size_blocks"]);
        let sim = [
            &["sim", &trace, "--policy", "lru", "--size", &size, "--json"][..],
            &memory,
        ]
        .concat();
        let runs = hearth(&sim)?.json()?;
        for (place, blocks) in [(0, 100), (1, 1024)] {
            ensure!(tried[place]["size_blocks"] == blocks, "growing: {tried}");
            let mut runs = runs.as_array().context("runs are an array")?.iter();
            let run = runs
                .find(|run| run["ram_blocks"] == blocks)
                .context("the size is simulated")?;
            let count = |key: &str| run[key].as_f64().context("a count is a number");
            let hits = count("ram_read_hits")? / count("reads")?;
            let advised = tried[place]["read_hit_ratio"].as_f64().context("a ratio")?;
            ensure!(
                hits > 0.05 && (advised - hits).abs() < 1e-9,
                "{tried} {run}"
            );
        }
        let said = hearth(&words)?.stdout;
        ensure!(said.contains("Memory in front of it pays from"), "{said}");
        let looping = lab.path("loop.csv").display().to_string();
        ensure!(
            hearth(&[
                "trace",
                "generate",
                "loop,blocks=5000,requests=20000",
                "--output",
                &looping
            ])?
            .code
                == 0
        );
        let said = hearth(&["advise", &looping, "--policy", "lru", "--ram", "1MiB"])?.stdout;
        ensure!(
            said.contains("Memory in front of it does not pay"),
            "{said}"
        );
        let alone = hearth(&["advise", &looping, "--ram-policy", "lru"])?;
        ensure!(
            alone.code == 2 && alone.stderr.contains("--ram"),
            "{}",
            alone.stderr
        );
        Ok(())
    });
}
