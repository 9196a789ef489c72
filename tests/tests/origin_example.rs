//! The example of `add-an-origin.md`, a difference to the source tree, applies, and passes its test.

use anyhow::{Context, ensure};
use e2e::{Lab, scenario};
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn run(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command.output().context("the tool starts")?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {words}");
    Ok(output.stdout)
}

/// Copies what is tracked of the source tree.
fn copy_tree(to: &Path) -> anyhow::Result<()> {
    let names = run(Command::new("git").args(["-C", ROOT, "ls-files", "-z"]))?;
    for name in names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let name = std::str::from_utf8(name)?;
        let (from, to) = (Path::new(ROOT).join(name), to.join(name));
        // What is deleted and not committed yet is still listed.
        if from.is_file() {
            std::fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
            std::fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

/// A copy of the tree with the difference.
fn changed(lab: &Lab) -> anyhow::Result<PathBuf> {
    let tree = lab.path("tree");
    copy_tree(&tree)?;
    let difference = Path::new(ROOT).join("book/src/examples/origin-of-zeroes.diff");
    run(Command::new("git")
        .current_dir(&tree)
        .arg("apply")
        .arg(&difference))?;
    Ok(tree)
}

#[test]
fn the_origin_of_zeroes_is_its_difference() {
    scenario(&["git"], |lab| {
        ensure!(changed(lab)?.join("crates/origin/src/zeroes.rs").exists());
        Ok(())
    });
}

#[test]
fn the_origin_of_zeroes_passes_its_test() {
    scenario(&["git"], |lab| {
        let tree = changed(lab)?;
        // What does not change was built before, in the folder of this test.
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(&tree).env("CARGO_TARGET_DIR", &built);
        let packages = ["-p", "origin", "-p", "configuration"];
        let tested = run(cargo
            .args(["test", "--offline", "--lib"])
            .args(packages)
            .arg("zeroes"))?;
        let tested = String::from_utf8_lossy(&tested);
        ensure!(tested.contains("1 passed"), "{tested}");
        Ok(())
    });
}
