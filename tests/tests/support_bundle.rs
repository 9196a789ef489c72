//! `hearth support bundle` of a daemon that answers, hangs, and is stopped: what is there is in it, what is not is said, and no secret is.

use anyhow::{Context, ensure};
use e2e::{DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, hearth_program, scenario};
use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

/// Secrets as they are planted: each must be found where it is written, and nowhere in a bundle.
const DISK_KEY: &str = "5aa5000111222333444555666777888999aaabbbcccdddeeefff000111222333";
const COMMAND_KEY: &str = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00";
const PSK: &str = "beefbeefbeefbeef0123456789abcdef";
const PASSWORD: &str = "correct-horse-battery";

const SECRETS: [&str; 4] = [DISK_KEY, COMMAND_KEY, PSK, PASSWORD];

fn bundle(lab: &Lab, name: &str) -> anyhow::Result<(Vec<u8>, Value)> {
    let file = lab.path(name);
    let output = Command::new(hearth_program()?)
        .arg("--socket")
        .arg(lab.path("admin.sock"))
        .args(["--json", "support", "bundle"])
        .arg(&file)
        .arg("--config")
        .arg(lab.path("hearth.toml"))
        .output()
        .context("running hearth")?;
    ensure!(output.status.success(), "{output:?}");
    let mode = file.metadata()?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "others may read it: {mode:o}");
    Ok((
        std::fs::read(&file)?,
        serde_json::from_slice(&output.stdout)?,
    ))
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

fn is_clean(bytes: &[u8]) -> anyhow::Result<()> {
    for secret in SECRETS {
        ensure!(!has(bytes, secret), "{secret} is in the bundle");
    }
    Ok(())
}

/// Why an item is not there.
fn left_out(answer: &Value, name: &str) -> String {
    let mut items = answer["items"].as_array().into_iter().flatten();
    let item = items.find(|item| item["name"] == name);
    item.and_then(|item| item["left_out"].as_str())
        .unwrap_or_default()
        .to_owned()
}

fn settings(lab: &Lab, flash: &Flash) -> anyhow::Result<HearthSettings> {
    let image = |name: &str| Image::new(lab, name, 16);
    let (one, other) = (image("one.raw")?, image("other.raw")?);
    let key = lab.write("disk.key", DISK_KEY)?;
    let psk = lab.write("keys.psk", &format!("web:{PSK}\n"))?;
    let print = format!("encryption = {{ key_command = ['/bin/echo', '{COMMAND_KEY}'] }}");
    let on = |name: &str, image: &Image| DiskSettings::on_file(name, image.path());
    Ok(HearthSettings::new(flash)
        .nbd_key("[nbd.tls]")
        .nbd_key("mode = 'allow'")
        .nbd_key(&format!("psk_file = '{}'", psk.display()))
        .section(&format!(
            "\n[hypervisor]\nconnect = 'qemu+ssh://admin:{PASSWORD}@host/system'\noptions = ['--password={PASSWORD}']\n"
        ))
        .disk(&on("by-file", &one).key(&format!("encryption = {{ key_file = '{}' }}", key.display())))
        .disk(&on("by-command", &other).key(&print)))
}

#[test]
fn a_bundle_has_what_is_there_and_no_secret_in_each_state() {
    scenario(&[], |lab| {
        let flash = Flash::format(lab, "flash.img", 128)?;
        let hearth = Hearth::start(lab, &settings(lab, &flash)?)?;
        let text = std::fs::read(lab.path("hearth.toml"))?;
        ensure!(
            has(&text, COMMAND_KEY) && has(&text, PASSWORD),
            "nothing is planted"
        );

        let (bytes, answer) = bundle(lab, "up.tar")?;
        is_clean(&bytes)?;
        for wanted in [
            "by-command",
            "hearth_flash_written_bytes_total",
            "daemon-started",
            "cache[0].path",
            "ustar",
        ] {
            ensure!(has(&bytes, wanted), "{wanted} is not in the bundle");
        }
        ensure!(left_out(&answer, "status.json").is_empty(), "{answer}");
        ensure!(!left_out(&answer, "cluster.json").is_empty(), "{answer}");

        hearth.process().pause()?;
        let (bytes, answer) = bundle(lab, "hung.tar")?;
        hearth.process().signal(Signal::CONT)?;
        is_clean(&bytes)?;
        ensure!(
            left_out(&answer, "status.json").contains("has not answered"),
            "{answer}"
        );
        ensure!(
            has(&bytes, "cache[0].path"),
            "the configuration is not in the bundle"
        );

        hearth.stop()?;
        let (bytes, answer) = bundle(lab, "down.tar.zst")?;
        ensure!(!has(&bytes, "ustar"), "it is not packed");
        ensure!(
            left_out(&answer, "status.json").contains("cannot reach"),
            "{answer}"
        );
        let (bytes, _) = bundle(lab, "down.tar")?;
        is_clean(&bytes)?;
        ensure!(
            has(&bytes, "/proc") && has(&bytes, "manifest.json"),
            "the host is not in the bundle"
        );
        Ok(())
    });
}

#[test]
fn a_file_that_is_there_is_not_replaced() {
    scenario(&[], |lab| {
        let file = lab.write("there.tar", "mine")?;
        let output = Command::new(hearth_program()?)
            .args(["support", "bundle"])
            .arg(&file)
            .output()?;
        ensure!(output.status.code() == Some(4), "{output:?}");
        ensure!(std::fs::read_to_string(&file)? == "mine");
        Ok(())
    });
}
