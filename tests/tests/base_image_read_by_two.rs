//! A base image that two VMs read is fetched from the origin once, kept once, and counted to both.

use anyhow::{Context, ensure};
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, Origin, OriginSettings, Request,
    nbdsh, scenario,
};
use serde_json::Value;

const MIB: u64 = 1 << 20;

fn start(lab: &Lab) -> anyhow::Result<(Origin, Hearth)> {
    let image = Image::new(lab, "image.raw", 16)?;
    let origin = Origin::start(lab, &image, OriginSettings::default())?;
    let flash = Flash::format(lab, "flash.img", 128)?;
    let base = DiskSettings::on_nbd("debian", &origin.uri()).key("shared = true");
    let settings = HearthSettings::new(&flash)
        .disk(&base)
        .vm("web", "images = ['debian']")
        .vm("db", "images = ['debian']");
    Ok((origin, Hearth::start(lab, &settings)?))
}

fn read(hearth: &Hearth, export: &str, from_mib: u64, mib: u64) -> anyhow::Result<()> {
    let script = format!(
        "for at in range({from_mib}, {}):\n  h.pread({MIB}, at * {MIB})",
        from_mib + mib
    );
    nbdsh(Some(&hearth.uri(export)), &script).map(|_| ())
}

fn reader<'a>(image: &'a Value, vm: &str) -> anyhow::Result<&'a Value> {
    let readers = image["readers"].as_array().context("readers")?;
    let found = readers.iter().find(|reader| reader["vm"] == vm);
    found.with_context(|| format!("{vm} among {image}"))
}

#[test]
fn what_one_vm_has_read_another_finds() {
    scenario(&["nbdkit", "nbdsh"], |lab| {
        let (origin, hearth) = start(lab)?;
        read(&hearth, "debian@web", 0, 8)?;
        let before = origin.requests()?.len();
        let first = Request::blocks(&origin.reads_since(0)?);
        read(&hearth, "debian@db", 4, 8)?;
        let second = Request::blocks(&origin.reads_since(before)?);
        let again = first.intersection(&second).count();
        ensure!(again == 0, "{again} blocks were fetched twice");

        let image = hearth.json(&["vm", "show", "debian"])?;
        let (web, db) = (reader(&image, "web")?, reader(&image, "db")?);
        ensure!(web["read_bytes"] == 8 * MIB, "{web}");
        ensure!(db["read_bytes"] == 8 * MIB, "{db}");
        ensure!(db["read_block_hits"] == 1024, "{db}");
        ensure!(db["seen_blocks"] == 2048, "{db}");
        ensure!(db["saved_blocks"] == 1024, "{db}");
        ensure!(web["saved_blocks"] == 0, "{web}");
        ensure!(image["cached_blocks"] == 12 * 256, "{image}");
        let vm = hearth.json(&["vm", "show", "db"])?;
        ensure!(vm["images"][0]["export"] == "debian@db", "{vm}");
        ensure!(vm["images"][0]["saved_blocks"] == 1024, "{vm}");
        Ok(())
    });
}

#[test]
fn only_the_vms_that_name_an_image_attach_it_and_nobody_writes_it() {
    scenario(&["nbdkit", "nbdsh"], |lab| {
        let (origin, hearth) = start(lab)?;
        let names = nbdsh(
            None,
            &format!(
                "h.set_opt_mode(True)\nh.connect_uri('{}')\nnames = []\n\
                 h.opt_list(lambda name, about: names.append(name))\nprint(' '.join(names))",
                hearth.uri("")
            ),
        )?;
        ensure!(
            names.stdout.trim() == "debian@db debian@web",
            "{}",
            names.stdout
        );
        for export in ["debian", "debian@mail", "debian@", "web@debian"] {
            let script = format!(
                "try:\n  h.connect_uri('{}')\n  raise SystemExit('{export} was served')\nexcept nbd.Error:\n  pass",
                hearth.uri(export)
            );
            nbdsh(None, &script)?;
        }
        let refused = "assert h.is_read_only()\ntry:\n  h.set_strict_mode(0)\n  h.pwrite(b'x' * 512, 0)\n  \
                       raise SystemExit('written')\nexcept nbd.Error as error:\n  assert error.errno == 'EPERM', error";
        nbdsh(Some(&hearth.uri("debian@web")), refused)?;
        hearth.command(&["vm", "set", "mail", "--new", "--image", "debian"])?;
        nbdsh(Some(&hearth.uri("debian@mail")), "h.pread(4096, 0)")?;
        ensure!(origin.since(0, e2e::RequestKind::Write)?.is_empty());
        let unknown =
            hearth.refused_command(&["vm", "set", "mail", "--new", "--image", "debain"])?;
        ensure!(
            unknown.stderr.contains("did you mean 'debian'?"),
            "{}",
            unknown.stderr
        );
        Ok(())
    });
}
