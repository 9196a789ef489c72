//! Sizes are bytes, blocks or a part of the trace's distinct blocks.

use std::fmt::Write;

use anyhow::ensure;
use e2e::{hearth, scenario};

fn keys(distinct: u32) -> String {
    (0..distinct).fold(String::new(), |mut text, key| {
        let _ = writeln!(text, "{key}");
        text
    })
}

#[test]
fn every_way_to_write_a_size_gives_its_blocks() {
    scenario(&[], |lab| {
        let trace = lab.write("keys.txt", &keys(500))?.display().to_string();
        let sizes = "4MiB,10%,27000blk,40KiB";
        let runs =
            hearth(&["sim", &trace, "--policy", "lru", "--size", sizes, "--json"])?.json()?;
        let blocks: Vec<_> = (0..4)
            .map(|place| runs[place]["size_blocks"].as_u64())
            .collect();
        ensure!(
            blocks == [Some(1024), Some(50), Some(27000), Some(10)],
            "{blocks:?}"
        );
        let block = ["--block", "64KiB"];
        let words = ["sim", &trace, "--policy", "lru", "--size", "4MiB", "--json"];
        let runs = hearth(&[&words[..], &block].concat())?.json()?;
        ensure!(runs[0]["size_blocks"] == 64, "{}", runs[0]["size_blocks"]);
        Ok(())
    });
}

#[test]
fn what_needs_a_pipe_twice_is_refused_with_the_way_out() {
    scenario(&[], |_| {
        let needs: [(&[&str], &str); 2] = [
            (&["--size", "10%"], "give sizes in bytes"),
            (
                &["--size", "64KiB", "--memory", "1GiB"],
                "leave --memory out",
            ),
        ];
        for (words, instead) in needs {
            let answer = hearth(&[&["sim", "-", "--policy", "lru"], words].concat())?;
            ensure!(
                answer.code == 2,
                "exit code {}: {}",
                answer.code,
                answer.stderr
            );
            let remedy = format!("save it as a file, or {instead}");
            ensure!(answer.stderr.contains(&remedy), "{}", answer.stderr);
        }
        Ok(())
    });
}
