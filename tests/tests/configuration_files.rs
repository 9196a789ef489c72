//! Files of `conf.d` add disks to a daemon, contradictions name both places, and variables stand over files.

use anyhow::{Context, ensure};
use e2e::{DiskSettings, Flash, Hearth, HearthSettings, Image, hearth_program, scenario};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn hearth(words: &[&str], config: &Path, variables: &[(&str, &str)]) -> anyhow::Result<Output> {
    let mut command = Command::new(hearth_program()?);
    command.args(words).arg("--config").arg(config);
    command.envs(variables.iter().copied());
    command.output().context("running hearth")
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_disk_of_another_file_is_served_and_its_place_is_shown() {
    scenario(&[], |lab| {
        let image = Image::new(lab, "image.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let settings =
            HearthSettings::new(&flash).disk(&DiskSettings::on_file("web", image.path()));
        std::fs::create_dir(lab.path("conf.d"))?;
        let other = Image::new(lab, "other.raw", 16)?;
        let text = format!(
            "[[disk]]\nname = 'db'\norigin.file = '{}'\n",
            other.path().display()
        );
        lab.write("conf.d/20-db.toml", &text)?;
        let hearth_daemon = Hearth::start(lab, &settings)?;
        let disks = hearth_daemon.json(&["disk", "list"])?;
        ensure!(
            disks["disks"].as_array().map(Vec::len) == Some(2),
            "{disks}"
        );

        let config = lab.path("hearth.toml");
        let shown = hearth(&["config", "show", "--json"], &config, &[])?;
        let rows: Vec<Value> = serde_json::from_slice(&shown.stdout)?;
        let from = |key: &str| {
            let row = rows.iter().find(|row| row["key"] == key);
            row.map(|row| row["from"].to_string()).unwrap_or_default()
        };
        ensure!(
            from("disk[1].name").ends_with("conf.d/20-db.toml:2\""),
            "{rows:?}"
        );
        ensure!(from("web.address") == "\"default\"", "{rows:?}");
        Ok(())
    });
}

#[test]
fn faults_name_the_file_or_variable_that_they_are_in() {
    scenario(&[], |lab| {
        let flash = Flash::format(lab, "flash.img", 128)?;
        let config = HearthSettings::new(&flash).write(lab)?;
        std::fs::create_dir(lab.path("conf.d"))?;
        let check = ["serve", "--check-config"];

        let variable = [("HEARTH_WEB__ADDRESS", "localhost")];
        let output = hearth(&check, &config, &variable)?;
        ensure!(output.status.code() == Some(2), "{output:?}");
        let said = complaint(&output);
        ensure!(
            said.contains("HEARTH_WEB__ADDRESS: web.address: "),
            "{said}"
        );
        let output = hearth(&check, &config, &[("HEARTH_WEB_ADRESS__", "off")])?;
        let said = complaint(&output);
        ensure!(said.contains("did you mean HEARTH_WEB__ADDRESS?"), "{said}");

        lab.write("conf.d/1.toml", "\n[daemon]\nlog = 'debug'\n")?;
        let output = hearth(&check, &config, &[])?;
        ensure!(output.status.code() == Some(2), "{output:?}");
        let said = complaint(&output);
        ensure!(
            said.contains("conf.d/1.toml:3: daemon.log: differs"),
            "{said}"
        );
        ensure!(said.contains("hearth.toml:5 gives"), "{said}");
        // A variable does not settle what two files say.
        let output = hearth(&check, &config, &[("HEARTH_DAEMON__LOG", "warn")])?;
        ensure!(output.status.code() == Some(2), "{output:?}");

        lab.write("conf.d/1.toml", "[daemon]\nlog = 'info'\n")?;
        let output = hearth(&check, &config, &[("HEARTH_DAEMON__LOG", "warn")])?;
        ensure!(output.status.success(), "{}", complaint(&output));
        Ok(())
    });
}
