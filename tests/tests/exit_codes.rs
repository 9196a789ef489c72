//! The command line says by its exit code what kind of failure it was, and in words what to do.

use std::process::Command;

use anyhow::{Context, ensure};
use e2e::{Flash, Hearth, HearthSettings, hearth_program, scenario};

/// Runs the program and gives its exit code and what it complained about.
fn hearth(words: &[&str]) -> anyhow::Result<(i32, String)> {
    let output = Command::new(hearth_program()?)
        .args(words)
        .output()
        .context("running hearth")?;
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((
        output.status.code().context("it ended by a signal")?,
        complaint,
    ))
}

#[test]
fn a_mistyped_key_is_named_with_its_line() {
    scenario(&[], |lab| {
        let config = lab.write(
            "typo.toml",
            "[daemon]\nadmin_socket = '/run/x'\nstate_dri = '/var/x'\n",
        )?;
        let (code, complaint) = hearth(&[
            "serve",
            "--check-config",
            "--config",
            &config.display().to_string(),
        ])?;
        ensure!(code == 2, "exit code {code}: {complaint}");
        ensure!(
            complaint.contains("state_dri"),
            "the key is not named: {complaint}"
        );
        ensure!(
            complaint.contains(":3"),
            "the line is not named: {complaint}"
        );
        Ok(())
    });
}

#[test]
fn a_daemon_that_is_not_there_is_exit_code_3() {
    scenario(&[], |lab| {
        let socket = lab.path("nobody.sock").display().to_string();
        let (code, complaint) = hearth(&["--socket", &socket, "status"])?;
        ensure!(code == 3, "exit code {code}: {complaint}");
        ensure!(
            complaint.contains("nobody.sock"),
            "the socket is not named: {complaint}"
        );
        Ok(())
    });
}

#[test]
fn a_disk_that_does_not_exist_is_exit_code_6() {
    scenario(&[], |lab| {
        let flash = Flash::format(lab, "flash.img", 128)?;
        let _daemon = Hearth::start(lab, &HearthSettings::new(&flash))?;
        let socket = lab.path("admin.sock").display().to_string();
        let (code, complaint) = hearth(&["--socket", &socket, "disk", "show", "nothing"])?;
        ensure!(code == 6, "exit code {code}: {complaint}");
        Ok(())
    });
}

#[test]
fn formatting_over_a_cache_needs_force() {
    scenario(&[], |lab| {
        let flash = Flash::format(lab, "flash.img", 128)?;
        let path = flash.path().display().to_string();
        let (code, complaint) = hearth(&["cache", "format", &path, "--size", "128MiB"])?;
        ensure!(code == 4 || code == 2, "exit code {code}: {complaint}");
        ensure!(
            complaint.contains("--force"),
            "the way out is not named: {complaint}"
        );
        let (code, complaint) = hearth(&["cache", "format", &path, "--size", "128MiB", "--force"])?;
        ensure!(code == 0, "exit code {code}: {complaint}");
        Ok(())
    });
}
