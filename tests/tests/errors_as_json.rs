//! With `--json` every error is an object on standard error, whoever found it: the command line's
//! parser, the command, the daemon. Standard output stays empty.

use anyhow::{Context, ensure};
use e2e::{Flash, Hearth, HearthSettings, hearth, scenario};
use serde_json::Value;

fn error_of(words: &[&str]) -> anyhow::Result<Value> {
    let answer = hearth(words)?;
    ensure!(
        answer.stdout.is_empty(),
        "{words:?} printed {}",
        answer.stdout
    );
    let error: Value = serde_json::from_str(&answer.stderr).context(answer.stderr.clone())?;
    ensure!(
        error["exit_code"] == answer.code,
        "{error}, and it ended with {}",
        answer.code
    );
    for member in ["kind", "detail"] {
        let text = error[member].as_str().unwrap_or_default();
        ensure!(!text.is_empty(), "{words:?} has no {member}: {error}");
    }
    Ok(error)
}

#[test]
fn errors_that_need_no_daemon_are_objects() {
    scenario(&[], |lab| {
        let nobody = lab.path("nobody.sock").display().to_string();
        let missing = lab.path("missing").display().to_string();
        let config = lab.write("hearth.toml", "[cache]\nname = 'a'\npath = '/a'\n")?;
        let config = config.display().to_string();
        for (words, kind, said) in [
            (&["--json", "disk", "shw"][..], "usage", "'shw'"),
            (&["disk", "show", "--json"], "usage", "<NAME>"),
            (&["--json"], "usage", "no command"),
            (
                &["--json", "--socket", &nobody, "status"],
                "unreachable",
                "nobody.sock",
            ),
            (
                &["--json", "sim", &missing, "--size", "1blk"],
                "failed",
                "missing",
            ),
            (&["--json", "cache", "check", &missing], "failed", "missing"),
            (
                &["--json", "bench", &missing, "--rw=read"],
                "unreachable",
                "missing",
            ),
            (
                &["--json", "serve", "--check-config", "--config", &config],
                "usage",
                "write [[cache]]",
            ),
            (
                &["--json", "disk", "attach", "x", "--origin", "http://host/x"],
                "usage",
                "nbd://host:port/export",
            ),
        ] {
            let error = error_of(words)?;
            ensure!(error["kind"] == kind, "{words:?}: {error}");
            let detail = error["detail"].as_str().unwrap_or_default();
            ensure!(detail.contains(said), "{words:?}: {error}");
        }
        Ok(())
    });
}

#[test]
fn what_the_daemon_refuses_keeps_its_kind_and_remedy() {
    scenario(&[], |lab| {
        let flash = Flash::format(lab, "flash.img", 128)?;
        let _daemon = Hearth::start(lab, &HearthSettings::new(&flash))?;
        let socket = lab.path("admin.sock").display().to_string();
        let error = error_of(&["--json", "--socket", &socket, "disk", "show", "web"])?;
        ensure!(error["kind"] == "no-such-disk", "{error}");
        ensure!(error["remedy"] == "hearth disk list", "{error}");
        ensure!(error["exit_code"] == 6, "{error}");
        let error = error_of(&[
            "--json", "--socket", &socket, "vm", "set", "wbe", "--weight", "7",
        ])?;
        ensure!(error["kind"] == "no-such-vm", "{error}");
        let remedy = error["remedy"].as_str().unwrap_or_default();
        ensure!(remedy.contains("--new"), "{error}");
        Ok(())
    });
}
