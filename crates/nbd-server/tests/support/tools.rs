//! Running other people's clients.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Whether a program can be started; a test that needs it says so and ends otherwise.
pub fn has(program: &str) -> bool {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    });
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// Whether Python's `nbd` module is there.
pub fn has_nbdsh() -> bool {
    if !Path::new("/usr/bin/python3").exists() {
        eprintln!("skipped: /usr/bin/python3 is not installed");
        return false;
    }
    let probe = Command::new("/usr/bin/python3")
        .args(["-c", "import nbd"])
        .stderr(Stdio::null())
        .status()
        .unwrap();
    if !probe.success() {
        eprintln!("skipped: python3-libnbd is not installed");
    }
    probe.success()
}

/// Runs a program; it must succeed. Its standard output.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = try_run(program, arguments);
    assert!(
        output.status.success(),
        "{program} {arguments:?} failed:\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a program, which may fail, for a minute at most.
pub fn try_run(program: &str, arguments: &[&str]) -> Output {
    Command::new("timeout")
        .arg("60")
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Runs a script with a libnbd handle `h`, not yet connected.
pub fn nbdsh(script: &str) -> String {
    let script = format!("import nbd, errno\nh = nbd.NBD()\n{script}");
    run("/usr/bin/python3", &["-c", &script])
}
