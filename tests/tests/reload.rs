//! `hearth reload`: what can change without a restart changes, the rest is named with exit code 4, and a wrong file changes nothing.

use anyhow::{Context, ensure};
use e2e::{DiskSettings, Flash, Hearth, HearthSettings, Image, hearth_program, nbdsh, scenario};
use serde_json::{Value, json};
use std::process::{Command, Output};

/// Runs `hearth reload` and gives its exit code and its answer.
fn reload(hearth: &Hearth, words: &[&str]) -> anyhow::Result<(i32, Value, String)> {
    let output: Output = Command::new(hearth_program()?)
        .arg("--socket")
        .arg(hearth.admin_socket())
        .args(["--json", "reload"])
        .args(words)
        .output()
        .context("running hearth")?;
    let answer = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output.status.code().context("it ended by a signal")?;
    Ok((code, answer, complaint))
}

/// What came of each difference.
fn outcomes(answer: &Value) -> Vec<(String, String)> {
    let changes = answer["changes"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    changes
        .map(|change| (text(&change["key"]), text(&change["outcome"])))
        .collect()
}

fn is(answer: &Value, wanted: &[(&str, &str)]) -> anyhow::Result<()> {
    let wanted = wanted
        .iter()
        .map(|(key, outcome)| ((*key).to_owned(), (*outcome).to_owned()));
    ensure!(outcomes(answer) == wanted.collect::<Vec<_>>(), "{answer}");
    Ok(())
}

fn metric(hearth: &Hearth, name: &str) -> anyhow::Result<String> {
    let metrics = hearth.metrics()?;
    let line = metrics
        .lines()
        .find(|line| line.starts_with(&format!("{name} ")));
    let value = line.and_then(|line| line.rsplit(' ').next());
    Ok(value.context(name.to_owned())?.to_owned())
}

#[test]
fn what_can_change_changes_and_the_rest_is_named() {
    scenario(&[], |lab| {
        let images = ["old", "same", "new"].map(|name| Image::new(lab, name, 16));
        let [old, same, new] = images;
        let (old, same, new) = (old?, same?, new?);
        let flash = Flash::format(lab, "flash.img", 128)?;
        let on = |name: &str, image: &Image| DiskSettings::on_file(name, image.path());
        let before = HearthSettings::new(&flash)
            .disk(&on("old", &old))
            .disk(&on("same", &same))
            .vm("same", "weight = 200");
        let hearth = Hearth::start(lab, &before)?;
        let (code, answer, _) = reload(&hearth, &[])?;
        ensure!(code == 0, "{answer}");
        is(&answer, &[])?;

        let wanted = HearthSettings::new(&flash)
            .log("debug")
            .daemon_key("stop_timeout = '20s'")
            .policy_key("reuses = 2")
            .disk(&on("same", &same).key("write_policy = 'around'"))
            .disk(&on("new", &new))
            .vm("same", "weight = 300");
        wanted.write(lab)?;
        let expected = [
            ("daemon.log", "applied"),
            ("cache[flash].policy", "applied"),
            ("disk[new]", "applied"),
            ("vm[same]", "applied"),
            ("disk[same].write_policy, write_back and limits", "applied"),
            ("disk[old]", "applied"),
            ("daemon.stop_timeout", "needs-restart"),
        ];
        let (code, answer, _) = reload(&hearth, &["--dry-run"])?;
        ensure!(code == 4 && answer["dry_run"] == true, "{answer}");
        is(&answer, &expected)?;
        let disks = hearth.json(&["disk", "list"])?;
        ensure!(
            disks["disks"][0]["name"] == "old",
            "a dry run changed it: {disks}"
        );

        let (code, answer, complaint) = reload(&hearth, &[])?;
        ensure!(code == 4, "{answer}");
        ensure!(complaint.contains("systemctl reload hearth"), "{complaint}");
        is(&answer, &expected)?;
        let disks = hearth.json(&["disk", "list"])?;
        let names: Vec<_> = disks["disks"]
            .as_array()
            .context("disks")?
            .iter()
            .map(|disk| &disk["name"])
            .collect();
        ensure!(names == [&json!("new"), &json!("same")], "{disks}");
        ensure!(hearth.json(&["disk", "show", "same"])?["write_policy"] == "around");
        ensure!(hearth.json(&["vm", "show", "same"])?["settings"]["weight"] == 300);
        let caches = &hearth.json(&["status"])?["caches"];
        ensure!(caches[0]["policy"]["settings"]["reuses"] == 2, "{caches}");
        ensure!(metric(&hearth, "hearth_config_last_reload_successful")? == "1");
        ensure!(metric(&hearth, "hearth_config_reload_pending")? == "1");
        // What is left is said again, and nothing else.
        let (_, answer, _) = reload(&hearth, &[])?;
        is(&answer, &[("daemon.stop_timeout", "needs-restart")])
    });
}

#[test]
fn a_wrong_file_changes_nothing() {
    scenario(&[], |lab| {
        let image = Image::new(lab, "image.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let disk = DiskSettings::on_file("web", image.path());
        let before = HearthSettings::new(&flash).disk(&disk);
        let hearth = Hearth::start(lab, &before)?;
        let read = metric(
            &hearth,
            "hearth_config_last_reload_success_timestamp_seconds",
        )?;
        let wrong = HearthSettings::new(&flash).section("\n[[disk]]\nname = 'x'\n");
        wrong.write(lab)?;
        let (code, answer, complaint) = reload(&hearth, &[])?;
        ensure!(code == 2, "exit code {code}: {answer}");
        ensure!(complaint.contains("disk[0].origin"), "{complaint}");
        ensure!(complaint.contains("hearth.toml:"), "{complaint}");
        ensure!(metric(&hearth, "hearth_config_last_reload_successful")? == "0");
        let later = metric(
            &hearth,
            "hearth_config_last_reload_success_timestamp_seconds",
        )?;
        ensure!(read == later, "{read} {later}");
        ensure!(hearth.json(&["disk", "show", "web"])?["name"] == "web");
        let events = hearth.json(&["events"])?.to_string();
        ensure!(events.contains("reload-refused"), "{events}");
        Ok(())
    });
}

#[test]
fn a_disk_whose_origin_lacks_bytes_stays_and_says_why() {
    scenario(&["nbdsh"], |lab| {
        let image = Image::new(lab, "image.raw", 16)?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let disk = DiskSettings::on_file("web", image.path()).keeping_dirty(16);
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash).disk(&disk))?;
        nbdsh(
            Some(&hearth.uri("web")),
            "h.pwrite(b'x' * 4096, 0); h.flush()",
        )?;
        HearthSettings::new(&flash).write(lab)?;
        let (code, answer, _) = reload(&hearth, &[])?;
        ensure!(code == 4, "{answer}");
        is(&answer, &[("disk[web]", "refused")])?;
        ensure!(
            answer["changes"][0]["detail"]
                .to_string()
                .contains("hearth disk"),
            "{answer}"
        );
        hearth.command(&["disk", "flush", "web", "--wait"])?;
        let (code, answer, _) = reload(&hearth, &[])?;
        ensure!(code == 0, "{answer}");
        is(&answer, &[("disk[web]", "applied")])
    });
}
