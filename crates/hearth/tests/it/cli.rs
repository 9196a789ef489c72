//! The command line without a daemon: exit codes, errors with remedies, generated files.

use crate::rig::{Rig, hearth, run, stderr, stdout};

#[test]
fn wrong_usage_ends_with_2() {
    for words in [
        &[][..],
        &["frobnicate"],
        &["disk", "show", "a/b"],
        &["disk", "set", "x"],
    ] {
        assert_eq!(
            run(hearth().args(words)).status.code(),
            Some(2),
            "{words:?}"
        );
    }
    let top = run(hearth().args(["top", "--interval", "1ms", "--once"]));
    assert_eq!(top.status.code(), Some(2));
    assert!(stderr(&top).contains("--interval is at least 100ms"));
}

#[test]
fn help_tells_the_exit_codes() {
    let help = run(hearth().arg("--help"));
    assert_eq!(help.status.code(), Some(0));
    assert!(stdout(&help).contains("3  the daemon cannot be reached"));
}

#[test]
fn a_daemon_that_is_not_there_ends_with_3_and_a_remedy() {
    for words in [
        &["status"][..],
        &["disk", "list", "--json"],
        &["top", "--once"],
    ] {
        let output = run(hearth()
            .args(["--socket", "/nonexistent/admin.sock"])
            .args(words));
        assert_eq!(output.status.code(), Some(3), "{words:?}");
        let error = stderr(&output);
        let (begin, remedy) = if words.contains(&"--json") {
            ("{", "systemctl status hearth")
        } else {
            ("error: ", "\n  try: systemctl status hearth")
        };
        assert!(error.starts_with(begin), "{error}");
        assert!(
            error.contains("cannot reach the daemon at /nonexistent/admin.sock"),
            "{error}"
        );
        assert!(error.contains(remedy), "{error}");
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn the_socket_can_be_named_by_the_environment() {
    let output = run(hearth()
        .env("HEARTH_SOCKET", "/nonexistent/env.sock")
        .arg("status"));
    assert!(stderr(&output).contains("/nonexistent/env.sock"));
}

#[test]
fn a_faulty_configuration_ends_with_2_and_every_fault_with_its_line() {
    let rig = Rig::new();
    let text = rig.config("[[disk]]\nname = 'a'\norigin = { fil = '/x' }\nreadonly = true\n");
    let config = rig.write_config(&text);
    for words in [&["serve"][..], &["serve", "--check-config"]] {
        let output = run(hearth().args(words).arg("--config").arg(&config));
        assert_eq!(output.status.code(), Some(2));
        let error = stderr(&output);
        assert!(
            error.contains("hearth.toml:13: disk[0].origin.fil: unknown key; did you mean 'file'?"),
            "{error}"
        );
        assert!(
            error.contains(
                "hearth.toml:14: disk[0].readonly: unknown key; did you mean 'read_only'?"
            ),
            "{error}"
        );
    }
}

#[test]
fn one_check_reports_faults_of_form_and_of_values() {
    let rig = Rig::new();
    let text =
        rig.config("[[disk]]\nname = 'a'\norigin = { fil = 'x' }\nsize = '1000B'\ncache = 'no'\n");
    let config = rig.write_config(&text);
    let check = ["serve", "--check-config", "--config"];
    let output = run(hearth().args(check).arg(&config));
    assert_eq!(output.status.code(), Some(2));
    let error = stderr(&output);
    for said in [
        "13: disk[0].origin.fil: unknown key; did you mean 'file'?",
        "13: disk[0].origin.file: 'x' is not an absolute path",
        "14: disk[0].size: 1000B is not a positive multiple of 512B",
        "15: disk[0].cache: there is no cache 'no'",
    ] {
        assert!(error.contains(said), "{said} is not in:\n{error}");
    }
}

#[test]
fn checking_a_configuration_finds_what_the_machine_lacks_and_changes_nothing() {
    let rig = Rig::new();
    let disks = rig.disk("a", "a.raw") + &rig.disk("twin", "a.raw") + &rig.disk("gone", "c.raw");
    let config = rig.write_config(&rig.config(&disks));
    let flash = std::fs::read(rig.path("flash")).unwrap();
    let check = || {
        run(hearth()
            .args(["serve", "--check-config", "--config"])
            .arg(&config))
    };
    let output = check();
    assert_eq!(output.status.code(), Some(2));
    let error = stderr(&output);
    assert!(
        error.contains("hearth.toml:3: daemon.state_dir: "),
        "{error}"
    );
    assert!(
        error.contains("disk[1].origin: is the origin of disk[0], 'a', too"),
        "{error}"
    );
    assert!(
        error.contains("c.raw: No such file or directory"),
        "{error}"
    );
    assert!(!rig.path("state").exists());

    std::fs::create_dir(rig.path("state")).unwrap();
    std::fs::write(rig.path("flash"), vec![0; 1 << 20]).unwrap();
    let error = stderr(&check());
    assert!(
        error.contains("cache[0].path: this is not a Hearth cache"),
        "{error}"
    );
    std::fs::write(rig.path("flash"), &flash).unwrap();
    rig.write_config(&rig.config(&rig.disk("a", "a.raw")));
    let output = check();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).ends_with("hearth.toml is sound: 1 cache, 1 disk\n"));
    assert!(flash == std::fs::read(rig.path("flash")).unwrap());
    assert_eq!(std::fs::read_dir(rig.path("state")).unwrap().count(), 0);
}

#[test]
fn manual_pages_and_completions_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let man = run(hearth().arg("man").arg("--dir").arg(dir.path().join("man")));
    assert!(man.status.success(), "{}", stderr(&man));
    assert!(dir.path().join("man/man1/hearth-disk-attach.1").exists());
    let script = run(hearth().args(["completions", "bash"]));
    assert!(stdout(&script).contains("--check-config"));
}
