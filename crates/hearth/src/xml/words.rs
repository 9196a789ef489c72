//! A disk's ways in, for people and for pipes.

use super::{Attachments, Only, WayTexts, Xml};
use std::fmt::Write as _;

pub(super) fn write(args: &Xml, attachments: &Attachments) -> String {
    let mut out = String::new();
    for way in &attachments.ways {
        if let Some(only) = args.only {
            out += &one(only, way);
            continue;
        }
        let (disk, vm) = (&attachments.disk, &attachments.vm);
        let _ = writeln!(
            out,
            "== {disk} for the VM {vm} over {}: {}\n",
            way.front_end, way.address
        );
        if let Some(domain) = &way.libvirt.domain {
            let _ = writeln!(out, "libvirt, within <domain>:\n\n{domain}");
        }
        let disk = &way.libvirt.disk;
        let needs = match &way.libvirt.needs {
            Some(version) => format!(", {version} or later"),
            None => String::new(),
        };
        let _ = writeln!(out, "libvirt{needs}, within <devices>:\n\n{disk}");
        let _ = writeln!(out, "QEMU:\n\n{}", shell(&way.qemu));
        if let Some(arguments) = &way.cloud_hypervisor {
            let _ = writeln!(out, "Cloud Hypervisor:\n\n{}", shell(arguments));
        }
    }
    if let (Some(guest), None) = (&attachments.guest, args.only) {
        let _ = write!(
            out,
            "== the agent in the guest of {}: once for the VM, whatever disks it has\n\n\
             libvirt, within <devices>:\n\n{}\nQEMU:\n\n{}",
            attachments.vm,
            guest.libvirt,
            shell(&guest.qemu)
        );
    }
    out
}

fn one(only: Only, way: &WayTexts) -> String {
    match only {
        Only::Libvirt => way.libvirt.disk.clone(),
        Only::Qemu => shell(&way.qemu),
        Only::CloudHypervisor => way
            .cloud_hypervisor
            .as_deref()
            .map_or_else(String::new, shell),
    }
}

/// Arguments as a shell reads them, an option and its value a line.
fn shell(arguments: &[String]) -> String {
    let mut out = String::new();
    for (at, argument) in arguments.iter().enumerate() {
        let is_option = argument.starts_with('-');
        if at > 0 {
            out += if is_option { " \\\n" } else { " " };
        }
        out += &quoted(argument);
    }
    out.push('\n');
    out
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,/=:@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_take_them_apart() {
        assert_eq!(quoted("path=/run/a.sock,x=1"), "path=/run/a.sock,x=1");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
