//! A host with a daemon and a libvirt, and a VM on a file that is to come to Hearth.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

use crate::libvirt::domain;
use crate::tools::exit_code;
use crate::{
    Answer, CrashedExt4, Flash, GuestKit, Hearth, HearthSettings, Image, Lab, Libvirt,
    hearth_program,
};

/// What the VM's disk is called at Hearth.
const DISK: &str = "disk-vda";

/// A host with a VM of a libvirt's.
pub struct Adoption<'a> {
    /// The VM's storage.
    pub image: Image,
    /// The host's libvirt.
    pub libvirt: Libvirt,
    lab: &'a Lab,
    kit: GuestKit,
    settings: HearthSettings,
    admin: PathBuf,
}

impl<'a> Adoption<'a> {
    /// What the VM's disk is called at Hearth.
    pub const DISK: &'static str = DISK;

    /// A host, and its daemon. The VM is defined over its file, and has a CD-ROM drive beside the disk.
    ///
    /// # Errors
    ///
    /// When something of it does not come up.
    pub fn new(lab: &'a Lab) -> anyhow::Result<(Self, Hearth)> {
        let kit = GuestKit::build()?;
        let image = kit.disk(lab)?;
        let settings = HearthSettings::new(&Flash::format(lab, "flash.img", 512)?);
        let hearth = Hearth::start(lab, &settings)?;
        let admin = hearth.admin_socket().to_path_buf();
        let libvirt = Libvirt::beside(lab, &admin, 0)?;
        let disks = format!(
            "<disk type='file' device='disk'><driver name='qemu' type='raw' cache='none' io='native'/>\
             <source file='{}'/><target dev='vda' bus='virtio'/></disk>\
             <disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk>",
            image.path().display()
        );
        let xml = domain(&kit, libvirt.console_path(), "", &disks);
        let path = lab.write("vm.xml", &xml)?;
        libvirt.virsh(&["define", &path.display().to_string()])?;
        let host = Self {
            image,
            libvirt,
            lab,
            kit,
            settings,
            admin,
        };
        Ok((host, hearth))
    }

    /// Starts the daemon again; `in_trouble` says that the VM's disk is not waited for.
    ///
    /// # Errors
    ///
    /// When it does not serve in time.
    pub fn start_daemon(&self, in_trouble: bool) -> anyhow::Result<Hearth> {
        let settings = self.settings.clone();
        let settings = if in_trouble {
            settings.in_trouble(DISK)
        } else {
            settings
        };
        Hearth::start(self.lab, &settings)
    }

    /// `hearth adopt` of the VM, however it ends. `path` comes before the folders where programs are found.
    ///
    /// # Errors
    ///
    /// When it cannot be run.
    pub fn adopt_with(&self, words: &[&str], path: &str) -> anyhow::Result<Answer> {
        let mut command = Command::new(hearth_program()?);
        command
            .args(["adopt", Libvirt::VM, "--json", "--libvirt"])
            .arg(self.libvirt.uri())
            .args(words)
            .arg("--socket")
            .arg(&self.admin);
        if !path.is_empty() {
            // The tools' own folders come first otherwise.
            command = wrapped(&command, path);
        }
        let (code, said) = exit_code(&mut command)?;
        Ok(Answer {
            code,
            stdout: said.stdout,
            stderr: said.stderr,
        })
    }

    /// What `hearth adopt` of the VM answers.
    ///
    /// # Errors
    ///
    /// When it fails.
    pub fn adopt(&self, words: &[&str]) -> anyhow::Result<Value> {
        self.adopt_with(words, "")?.json()
    }

    /// The kind and the message of the error of a `hearth adopt` that must be refused.
    ///
    /// # Errors
    ///
    /// When it is not.
    pub fn refused(&self, words: &[&str]) -> anyhow::Result<String> {
        let answer = self.adopt_with(words, "")?;
        anyhow::ensure!(answer.code == 4, "{}: {}", answer.code, answer.stderr);
        Ok(answer.stderr)
    }

    /// The VM's definition.
    ///
    /// # Errors
    ///
    /// When libvirt does not say it.
    pub fn definition(&self) -> anyhow::Result<String> {
        let said = self
            .libvirt
            .virsh(&["dumpxml", "--inactive", Libvirt::VM])?;
        Ok(said.stdout)
    }

    /// Boots the VM, and waits until it has committed some more transactions than so many. Returns how many it has.
    ///
    /// # Errors
    ///
    /// When it does not start, or does not commit.
    pub fn runs(&self, before: u64) -> anyhow::Result<u64> {
        // Its next QEMU begins this file anew.
        let _ = std::fs::remove_file(self.libvirt.console_path());
        self.libvirt.virsh(&["start", Libvirt::VM])?;
        self.libvirt.wait_for_transactions(before)
    }

    /// Cuts the VM off as a power cut would. Returns how many transactions it has committed.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub fn cut_off(&self) -> anyhow::Result<u64> {
        self.libvirt.virsh(&["destroy", Libvirt::VM])?;
        Ok(self.libvirt.committed())
    }

    /// The VM's storage has every transaction up to this one.
    ///
    /// # Errors
    ///
    /// When its file system is damaged, or a transaction is missing.
    pub fn account(&self, through: u64) -> anyhow::Result<()> {
        let disk = CrashedExt4::at(self.image.path());
        disk.check()?;
        let all = disk.account(self.lab, &self.kit, Libvirt::DATABASE, through);
        all.map(drop).context("the storage after all")
    }
}

/// The same command where programs in `path` come first.
fn wrapped(command: &Command, path: &str) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "PATH=$0:$PATH exec \"$@\"", path])
        .arg(command.get_program())
        .args(command.get_args());
    shell
}
