//! A disk is opened by the clients that it names, and by who may connect to its own socket. To all
//! others it does not exist.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, free_port, is_root, nbdsh, run,
    run_expecting_failure, scenario,
};

const KEY: &str = "6b2f0f3f8c0d4f57a4a1c1a1f2f5c2b9e0c4a87f1d3d6e52b8a9c0d1e2f30415";

fn disk(lab: &Lab, name: &str, nbd: &str) -> anyhow::Result<DiskSettings> {
    let image = Image::new(lab, &format!("{name}.raw"), 4)?;
    Ok(DiskSettings::on_file(name, image.path()).key(&format!("nbd = {{ {nbd} }}")))
}

/// What a client may see and open at an address; the URI has `EXPORT` for the export.
struct View<'a>(&'a str);

impl View<'_> {
    fn lists(&self, names: &[&str]) -> anyhow::Result<()> {
        let uri = self.0.replace("EXPORT", "");
        let script = format!(
            "h.set_uri_allow_local_file(True)\nh.set_opt_mode(True)\nh.connect_uri('{uri}')\n\
             seen = []\nh.opt_list(lambda name, _: seen.append(name))\n\
             assert sorted(seen) == {names:?}, seen\nh.opt_abort()\n"
        );
        nbdsh(None, &script).map(drop)
    }

    fn opens(&self, name: &str) -> anyhow::Result<()> {
        let uri = self.0.replace("EXPORT", name);
        let script =
            format!("h.set_uri_allow_local_file(True)\nh.connect_uri('{uri}')\nh.pread(4096, 0)\n");
        nbdsh(None, &script).map(drop)
    }

    /// For INFO and for GO, and in the words for an export that there has never been.
    fn does_not_know(&self, name: &str) -> anyhow::Result<()> {
        for name in [name, "never-there"] {
            let uri = self.0.replace("EXPORT", name);
            let script = format!(
                "h.set_uri_allow_local_file(True)\nh.set_opt_mode(True)\nh.connect_uri('{uri}')\n\
                 for ask in (h.opt_info, h.opt_go):\n    try:\n        ask()\n    except nbd.Error as error:\n        \
                 assert error.errno == 'ENOENT', error\n    else:\n        raise AssertionError('known')\n\
                 h.opt_abort()\n"
            );
            nbdsh(None, &script)?;
        }
        Ok(())
    }
}

#[test]
fn a_pre_shared_key_opens_the_disks_that_name_it() {
    scenario(&["nbdsh"], |lab| {
        let keys = lab.write("keys.psk", &format!("vm1:{KEY}\nvm2:{KEY}\n"))?;
        let (port, keys) = (free_port()?, keys.display().to_string());
        let flash = Flash::format(lab, "flash.img", 64)?;
        let settings = HearthSettings::new(&flash)
            .nbd_key(&format!("tcp_address = '127.0.0.1:{port}'"))
            .nbd_key("clients = ['psk:vm1', 'psk:vm2']")
            .nbd_key(&format!("[nbd.tls]\nmode = 'require'\npsk_file = '{keys}'"))
            .disk(&disk(lab, "one", "clients = ['psk:vm1']")?)
            .disk(&disk(lab, "two", "clients = ['psk:vm2']")?)
            .disk(&disk(lab, "none", "clients = []")?)
            .disk(&disk(lab, "others", "")?);
        let hearth = Hearth::start(lab, &settings)?;
        let uri = |user: &str| format!("nbds://{user}@127.0.0.1:{port}/EXPORT?tls-psk-file={keys}");
        let (vm1, vm2) = (uri("vm1"), uri("vm2"));
        View(&vm1).lists(&["one", "others"])?;
        View(&vm2).lists(&["others", "two"])?;
        for (view, own, other) in [(View(&vm1), "one", "two"), (View(&vm2), "two", "one")] {
            view.opens(own)?;
            view.opens("others")?;
            view.does_not_know(other)?;
            view.does_not_know("none")?;
        }
        // On the unix socket nobody proves anything.
        let plain = hearth.uri("EXPORT");
        View(&plain).lists(&[])?;
        View(&plain).does_not_know("one")?;
        ensure!(hearth.log()?.contains("does not name it among its clients"));
        hearth.stop().map(drop)
    });
}

/// Runs `nbdinfo` as a user who is nobody.
fn nbdinfo_as_nobody(socket: &Path, export: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "nbdinfo",
    ]);
    let uri = format!("nbd+unix:///{export}?socket={}", socket.display());
    command.args(["--size", &uri]);
    command
}

#[test]
fn a_disk_s_own_socket_is_for_whom_its_permissions_let_in() {
    if !is_root("another user") {
        return;
    }
    scenario(&["nbdsh", "nbdinfo", "setpriv"], |lab| {
        std::fs::set_permissions(lab.folder(), Permissions::from_mode(0o711))?;
        let flash = Flash::format(lab, "flash.img", 64)?;
        let own = |name: &str, mode: &str| {
            let socket = lab.path(&format!("{name}.sock"));
            let nbd = format!(
                "clients = [], socket = '{}', socket_mode = '{mode}'",
                socket.display()
            );
            anyhow::Ok((disk(lab, name, &nbd)?, socket))
        };
        let (ours, our_socket) = own("ours", "0660")?;
        let (anybodys, open_socket) = own("anybodys", "0666")?;
        let settings = HearthSettings::new(&flash).disk(&ours).disk(&anybodys);
        let mut hearth = Hearth::start(lab, &settings)?;
        View(&hearth.uri("EXPORT")).lists(&[])?;
        let at_socket = format!("nbd+unix:///EXPORT?socket={}", our_socket.display());
        let view = View(&at_socket);
        view.lists(&["ours"])?;
        view.opens("ours")?;
        view.does_not_know("anybodys")?;
        run(&mut nbdinfo_as_nobody(&open_socket, "anybodys"))?;
        let refused = run_expecting_failure(&mut nbdinfo_as_nobody(&our_socket, "ours"))?;
        ensure!(
            refused.stderr.contains("Permission denied"),
            "{}",
            refused.stderr
        );

        // It goes with its disk, and comes back with it; a reload leaves it where it is.
        let shown = hearth.json(&["disk", "show", "ours"])?;
        ensure!(shown["nbd_socket"]["path"] == our_socket.display().to_string());
        hearth.renew()?;
        view.opens("ours")?;
        hearth.command(&["disk", "detach", "ours", "--force"])?;
        ensure!(!our_socket.exists());
        let image = format!("file:{}", lab.path("ours.raw").display());
        let socket = our_socket.display().to_string();
        let attach = ["disk", "attach", "ours", "--origin", &image];
        hearth.command(&[&attach[..], &["--nbd-socket", &socket]].concat())?;
        view.opens("ours")?;
        let taken = [&["disk", "attach", "more", "--origin", "file:/dev/null"][..]].concat();
        let taken = [&taken[..], &["--nbd-socket", &socket]].concat();
        let refused = hearth.refused_command(&taken)?;
        ensure!(
            refused.stderr.contains("--nbd-socket"),
            "{}",
            refused.stderr
        );
        hearth.stop().map(drop)
    });
}
