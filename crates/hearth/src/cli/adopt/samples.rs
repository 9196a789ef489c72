//! A domain for tests.

use super::plan::Wanted;
use crate::xml::FrontEndWord;
use configuration::WritePolicy;
use std::path::Path;

/// A domain as `virsh dumpxml --inactive` prints it: three disks that Hearth can serve, and three that it cannot.
pub(super) const DOMAIN: &str = "<domain type='kvm'>
  <name>web</name>
  <uuid>11111111-2222-4333-8444-555555555555</uuid>
  <memory unit='KiB'>262144</memory>
  <currentMemory unit='KiB'>262144</currentMemory>
  <vcpu placement='static'>1</vcpu>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='none' io='native'/>
      <source file='/srv/web.raw'/>
      <target dev='vda' bus='virtio'/>
      <serial>S1</serial>
      <address type='pci' domain='0x0000' bus='0x03' slot='0x00' function='0x0'/>
    </disk>
    <disk type='block' device='disk'>
      <source dev='/dev/vg/data'/>
      <target dev='vdb' bus='virtio'/>
    </disk>
    <disk type='network' device='disk'>
      <driver name='qemu' type='raw'/>
      <source protocol='nbd' name='logs'>
        <host name='store' port='10810'/>
      </source>
      <target dev='vdc' bus='virtio'/>
      <readonly/>
    </disk>
    <disk type='file' device='cdrom'>
      <driver name='qemu' type='raw'/>
      <source file='/srv/install.iso'/>
      <target dev='sda' bus='sata'/>
      <readonly/>
    </disk>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2'/>
      <source file='/srv/web.qcow2'/>
      <target dev='vdd' bus='virtio'/>
    </disk>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw'/>
      <source file='/srv/shared.raw'/>
      <target dev='vde' bus='virtio'/>
      <shareable/>
    </disk>
  </devices>
</domain>
";

/// All disks over NBD.
pub(super) fn wanted() -> Wanted<'static> {
    Wanted {
        disk: None,
        via: FrontEndWord::Nbd,
        cache: None,
        write_policy: WritePolicy::Through,
        folder: Path::new("/run/hearth"),
        reconnects: true,
        busy: None,
    }
}
