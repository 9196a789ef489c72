//! A wrong policy, size, format or trace: what is wrong, where, what to do, and the exit code of its kind.

use anyhow::ensure;
use e2e::{hearth, scenario};

#[test]
fn wrong_words_are_named_with_what_could_be_written() {
    scenario(&[], |lab| {
        let trace = lab.write("keys.txt", "1\n2\n1\n")?.display().to_string();
        for (words, expected) in [
            (
                ["--policy", "lruu", "--size", "1blk"],
                "did you mean 'lru'?",
            ),
            (["--policy", "lru", "--size", "4096"], "27000blk"),
            (["--policy", "lru", "--size", "0blk"], "holds no block"),
            (
                ["--policy", "segment-clock", "--size", "20blk"],
                "a larger --size",
            ),
            (["--size", "1blk", "--format", "tape"], "'tape'"),
            (["--size", "1blk", "--block", "3000"], "power of two"),
            (["--size", "1blk", "--speed", "2x"], "--depth"),
            (["--size", "1blk", "--flash", "floppy"], "nvme"),
        ] {
            let answer = hearth(&[&["sim", &trace], &words[..]].concat())?;
            ensure!(
                answer.code == 2,
                "{words:?}: exit code {}: {}",
                answer.code,
                answer.stderr
            );
            ensure!(
                answer.stderr.contains(expected),
                "{words:?}: {}",
                answer.stderr
            );
            ensure!(answer.stdout.is_empty(), "{words:?} printed a result");
        }
        Ok(())
    });
}

#[test]
fn a_trace_that_is_not_there_or_is_none_is_named() {
    scenario(&[], |lab| {
        let missing = lab.path("nowhere.csv").display().to_string();
        let answer = hearth(&["sim", &missing, "--size", "1blk", "--policy", "lru"])?;
        ensure!(
            answer.code == 1,
            "exit code {}: {}",
            answer.code,
            answer.stderr
        );
        ensure!(answer.stderr.contains("nowhere.csv"), "{}", answer.stderr);
        let junk = lab
            .write("junk", "\u{1}\u{2}\u{3} this is no trace")?
            .display()
            .to_string();
        let answer = hearth(&["sim", &junk, "--size", "1blk", "--policy", "lru"])?;
        ensure!(
            answer.code == 2,
            "exit code {}: {}",
            answer.code,
            answer.stderr
        );
        ensure!(answer.stderr.contains("--format"), "{}", answer.stderr);
        Ok(())
    });
}
