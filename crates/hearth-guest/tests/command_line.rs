//! The agent's command line as its user meets it: what is wrong is refused before anything is watched.

use std::process::{Command, Output};

fn agent(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth-guest"));
    command.args(options).output().expect("the program starts")
}

fn assert_refused(options: &[&str], words: &str) {
    let output = agent(options);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{options:?}: {said}");
    assert!(said.contains(words), "{options:?}: {said}");
}

#[test]
fn numbers_that_make_no_sense_are_refused_with_those_that_do() {
    assert_refused(&["--epoch", "0s"], "write 100ms or more");
    assert_refused(&["--hint-interval", "1us"], "write 100ms or more");
    assert_refused(&["--epoch", "often"], "write a whole number and a unit");
    assert_refused(&["--usage-threshold", "0"], "0 is not in 1..");
    assert_refused(
        &["--drop", "--memory-threshold", "101"],
        "101 is not in 1..=100",
    );
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    assert_refused(&["--no-hints", "--read-ahead"], "cannot be used with");
    assert_refused(&["--memory-threshold", "20"], "--drop");
}

#[test]
fn the_program_says_its_version_and_every_option() {
    let version = agent(&["--version"]);
    let said = String::from_utf8_lossy(&version.stdout).into_owned();
    assert_eq!(
        said.trim(),
        concat!("hearth-guest ", env!("CARGO_PKG_VERSION"))
    );
    let help = agent(&["--help"]);
    let said = String::from_utf8_lossy(&help.stdout).into_owned();
    for option in [
        "--state-dir",
        "--epoch",
        "--no-preload",
        "--read-ahead",
        "--temporary",
        "--port",
    ] {
        assert!(said.contains(option), "{option}: {said}");
    }
}
