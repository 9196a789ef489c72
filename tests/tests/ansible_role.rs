//! The Ansible role: `ansible-playbook` accepts the role and its example, and the configuration is checked before a file is
//! replaced.

use anyhow::{Context as _, ensure};
use e2e::{run, scenario};
use std::path::Path;
use std::process::Command;

fn role() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/ansible")
}

#[test]
fn the_example_is_a_playbook_that_ansible_accepts() {
    // Ansible is large, and CI does without it.
    if Command::new("ansible-playbook")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("skipped: ansible-playbook is not installed");
        return;
    }
    scenario(&[], |lab| {
        let mut check = Command::new("ansible-playbook");
        check.args(["--syntax-check", "--inventory", "localhost,", "example.yml"]);
        check.current_dir(role()).env("ANSIBLE_HOME", lab.folder());
        run(&mut check).map(drop)
    });
}

#[test]
fn the_configuration_is_checked_before_a_file_is_replaced() {
    scenario(&[], |_| {
        let tasks = std::fs::read_to_string(role().join("roles/hearth/tasks/main.yml"))?;
        let at = |words: &str| tasks.find(words).with_context(|| format!("no {words}"));
        let checked = at("--check-config")?;
        for replaced in ["storage.conf", "dest: /etc/hearth/hearth.toml"] {
            ensure!(checked < at(replaced)?, "{replaced} is replaced first");
        }
        ensure!(
            at("Caches are made where none is")? < checked,
            "a configuration names caches that are there"
        );
        Ok(())
    });
}
