package PVE::Storage::Custom::HearthPlugin;

# A storage of Proxmox VE that puts the disks of another storage on Hearth. Volumes are made, listed, resized and removed by
# that storage; VMs reach them over NBD at a socket of each disk's own. It implements versions 12 to 15 of the storage API.
#
#   hearth: fast
#       hearth-base local-lvm
#       content images
#
#   activate_volume ──► the base storage activates the volume ──► hearth disk attach NAME --origin PATH
#   qemu_blockdev_options ──► { driver => 'nbd', server => { type => 'unix', path => SOCKET }, export => NAME }
#   deactivate_volume ──► hearth disk detach NAME ──► the base storage deactivates the volume
#
# A volume that is removed or rolled back is forgotten by the flash first: a block device does not tell that it was written.
#
# Proxmox VE knows two names of one volume by their equal paths. Those of a volume on Hearth and below it differ, so the base
# storage may not list disks of VMs: `qm rescan` would call a disk in use an unused one.

use strict;
use warnings;

use File::Basename;
use JSON::PP qw(decode_json);

use PVE::Storage;
use PVE::Storage::Plugin;
use PVE::Tools;

use base qw(PVE::Storage::Plugin);

# Exit codes of hearth.
use constant NOT_FOUND => 6;
# Bytes of the longest name of a disk.
use constant NAME_MAX => 63;
# The newest version of the storage API that this was written for.
use constant API_MAX => 15;
# How long QEMU's requests wait while the daemon is restarted.
use constant RECONNECT_SECONDS => 60;

my $PROGRAM = '/usr/bin/hearth';
my $SOCKETS = '/run/hearth';

# Another place of the program and of the sockets, for tests.
sub places {
    my ($program, $sockets) = @_;
    ($PROGRAM, $SOCKETS) = ($program, $sockets);
}

# Proxmox VE refuses a plugin that is newer than itself, and warns of an older one.
sub api {
    my $theirs = PVE::Storage::APIVER();
    return $theirs < API_MAX ? $theirs : API_MAX;
}

sub type {
    return 'hearth';
}

sub plugindata {
    return {
        content => [{ images => 1 }, { images => 1 }],
        format => [{ raw => 1 }, 'raw'],
        'sensitive-properties' => {},
    };
}

sub properties {
    return {
        'hearth-base' => {
            description => 'The storage whose volumes are put on Hearth.',
            type => 'string',
            format => 'pve-storage-id',
        },
        'hearth-cache' => {
            description => 'The cache of Hearth that keeps them warm; needed if there are several.',
            type => 'string',
            optional => 1,
        },
        'hearth-write-policy' => {
            description => 'What writes do.',
            type => 'string',
            enum => ['around', 'through', 'back'],
            default => 'through',
            optional => 1,
        },
    };
}

sub options {
    return {
        'hearth-base' => { fixed => 1 },
        'hearth-cache' => { optional => 1 },
        'hearth-write-policy' => { optional => 1 },
        nodes => { optional => 1 },
        disable => { optional => 1 },
        content => { optional => 1 },
        format => { optional => 1 },
    };
}

# The base storage: its plugin, its configuration, its id.
sub base {
    my ($scfg) = @_;
    my $storeid = $scfg->{'hearth-base'};
    my $base_scfg = PVE::Storage::storage_config(PVE::Storage::config(), $storeid);
    die "storage '$storeid' is on Hearth itself: name the storage below it in hearth-base\n"
        if $base_scfg->{type} eq 'hearth';
    return (PVE::Storage::Plugin->lookup($base_scfg->{type}), $base_scfg, $storeid);
}

# The path of a volume below Hearth, and the id of its VM. Hearth serves bytes as they are: an image of another format would
# reach the VM as the file that it is.
sub raw_path {
    my ($scfg, $volname) = @_;
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    my $format = ($plugin->parse_volname($volname))[6];
    die "Hearth serves raw volumes, and '$base_id:$volname' is '$format': move the disk to raw in '$base_id' first\n"
        if defined($format) && $format ne 'raw';
    return $plugin->path($base_scfg, $volname, $base_id);
}

# What Hearth calls a volume.
sub disk_name {
    my ($storeid, $volname) = @_;
    my $name = "$storeid-$volname";
    $name =~ s/[^A-Za-z0-9_.-]/-/g;
    die "'$name' is too long for a disk of Hearth: give the storage a shorter name\n"
        if length($name) > NAME_MAX;
    return $name;
}

sub socket_path {
    my ($name) = @_;
    return "$SOCKETS/$name.nbd.sock";
}

# Runs hearth; dies with what it says.
sub hearth {
    my (@words) = @_;
    my $said = '';
    my $take = sub { $said .= "$_[0]\n"; };
    my $code = PVE::Tools::run_command([$PROGRAM, @words], outfunc => sub { }, errfunc => $take, noerr => 1);
    die "hearth @words: $said" if $code != 0;
    return;
}

# Where the bytes of an attached disk are, as Hearth writes it; nothing if it has no such disk.
sub origin {
    my ($name) = @_;
    my ($said, $complaints) = ('', '');
    my $take = sub { $said .= "$_[0]\n"; };
    my $take_complaint = sub { $complaints .= "$_[0]\n"; };
    my $command = [$PROGRAM, 'disk', 'show', $name, '--json'];
    my $code = PVE::Tools::run_command($command, outfunc => $take, errfunc => $take_complaint, noerr => 1);
    return if $code == NOT_FOUND;
    if ($code != 0) {
        my $why = eval { decode_json($complaints) } // { detail => $complaints };
        my $remedy = defined($why->{remedy}) ? "; try: $why->{remedy}" : '';
        die "it is not known whether Hearth has '$name': $why->{detail}$remedy\n";
    }
    return decode_json($said)->{origin};
}

# Whether the disk of a volume is attached. Two volumes may get one name ("a-1" and "a/1"), and a disk may be left from a
# base storage that was another one then.
sub is_attached {
    my ($scfg, $name, $volname) = @_;
    my $origin = origin($name);
    return 0 if !defined($origin);
    my ($path) = raw_path($scfg, $volname);
    die "'$name' of Hearth is on $origin, and not on $path: run 'hearth disk detach $name' when no VM has it\n"
        if $origin ne "file:$path";
    return 1;
}

sub attach {
    my ($scfg, $storeid, $volname) = @_;
    my $name = disk_name($storeid, $volname);
    return $name if is_attached($scfg, $name, $volname);
    my ($path, $vmid) = raw_path($scfg, $volname);
    my @words = ('disk', 'attach', $name, '--origin', $path, '--raw', '--nbd-socket', socket_path($name));
    push @words, '--vm', "vm-$vmid" if defined($vmid);
    push @words, '--cache', $scfg->{'hearth-cache'} if $scfg->{'hearth-cache'};
    push @words, '--write-policy', $scfg->{'hearth-write-policy'} if $scfg->{'hearth-write-policy'};
    hearth(@words);
    return $name;
}

# Has the flash forget a volume whose bytes will be other ones, and lets go of it.
sub forget {
    my ($scfg, $storeid, $volname) = @_;
    my $name = attach($scfg, $storeid, $volname);
    # Ends when the volume has what it lacks.
    hearth('disk', 'set', $name, '--write-policy', 'through');
    hearth('disk', 'drop', $name);
    hearth('disk', 'detach', $name);
    return;
}

sub no_snapshot {
    my ($snapname) = @_;
    die "a snapshot is read at the base storage, not on Hearth\n" if defined($snapname);
    return;
}

# ---- what VMs see ----

sub path {
    my ($class, $scfg, $volname, $storeid, $snapname) = @_;
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    my ($path, $vmid, $vtype) = $plugin->path($base_scfg, $volname, $base_id, $snapname);
    # What is on flash of it is in no snapshot.
    return wantarray ? ($path, $vmid, $vtype) : $path if defined($snapname);
    my $name = disk_name($storeid, $volname);
    # qemu-img and the like go through Hearth, too.
    my $uri = "nbd+unix:///$name?socket=" . socket_path($name);
    return wantarray ? ($uri, $vmid, $vtype) : $uri;
}

sub qemu_blockdev_options {
    my ($class, $scfg, $storeid, $volname, $machine_version, $options) = @_;
    no_snapshot($options->{'snapshot-name'});
    my $name = disk_name($storeid, $volname);
    return {
        driver => 'nbd',
        server => { type => 'unix', path => socket_path($name) },
        export => "$name",
        'reconnect-delay' => RECONNECT_SECONDS,
    };
}

sub get_formats {
    my ($class, $scfg, $storeid) = @_;
    return { default => 'raw', valid => { raw => 1 } };
}

sub volume_qemu_snapshot_method {
    my ($class, $storeid, $scfg, $volname) = @_;
    return 'storage';
}

# ---- the life of a volume ----

sub activate_volume {
    my ($class, $storeid, $scfg, $volname, $snapname, $cache, $hints) = @_;
    raw_path($scfg, $volname);
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    $plugin->activate_volume($base_id, $base_scfg, $volname, $snapname, $cache, $hints);
    attach($scfg, $storeid, $volname) if !defined($snapname);
    return 1;
}

sub map_volume {
    die "a TPM's state needs a file or a block device, and Hearth serves NBD: put the state on another storage\n";
}

sub deactivate_volume {
    my ($class, $storeid, $scfg, $volname, $snapname, $cache) = @_;
    my $name = disk_name($storeid, $volname);
    if (!defined($snapname) && is_attached($scfg, $name, $volname)) {
        eval { hearth('disk', 'detach', $name) };
        if (my $why = $@) {
            # Bytes wait for the volume: Hearth brings them there, and the volume has to stay.
            warn "'$name' stays attached: $why";
            return 1;
        }
    }
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    return $plugin->deactivate_volume($base_id, $base_scfg, $volname, $snapname, $cache);
}

sub alloc_image {
    my ($class, $storeid, $scfg, $vmid, $fmt, $name, $size) = @_;
    die "Hearth serves raw volumes, not '$fmt'\n" if defined($fmt) && $fmt ne 'raw';
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    # Names that Proxmox VE chooses ("vm-100-cloudinit") have the format behind them where the storage has a folder, and of this
    # storage it does not know that it has one.
    $name .= '.raw' if defined($name) && $base_scfg->{path} && $name !~ m/\.raw$/;
    return $plugin->alloc_image($base_id, $base_scfg, $vmid, 'raw', $name, $size);
}

sub free_image {
    my ($class, $storeid, $scfg, $volname, $isBase, $format) = @_;
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    # The next volume of this name has other bytes.
    $plugin->activate_volume($base_id, $base_scfg, $volname);
    my ($path) = raw_path($scfg, $volname);
    forget($scfg, $storeid, $volname);
    $plugin->deactivate_volume($base_id, $base_scfg, $volname);
    my $rest = $plugin->free_image($base_id, $base_scfg, $volname, $isBase, $format);
    # The owner's record of a file lies beside it, and would keep the VM's folder.
    if (unlink("$path.hearth")) {
        rmdir(dirname($path));
    }
    return $rest;
}

sub volume_resize {
    my ($class, $scfg, $storeid, $volname, $size, $running, $snapname) = @_;
    die "a disk over NBD is resized while its VM is shut down\n" if $running;
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    my $name = disk_name($storeid, $volname);
    # Hearth holds the lock of a file, which qemu-img wants as well.
    my $comes_back = is_attached($scfg, $name, $volname);
    if ($comes_back) {
        hearth('disk', 'flush', $name, '--wait');
        hearth('disk', 'detach', $name);
    }
    my $done = eval { $plugin->volume_resize($base_scfg, $base_id, $volname, $size, $running, $snapname) };
    my $why = $@;
    attach($scfg, $storeid, $volname) if $comes_back;
    die $why if $why;
    return $done;
}

sub volume_snapshot {
    my ($class, $scfg, $storeid, $volname, $snap) = @_;
    my $name = disk_name($storeid, $volname);
    # What was answered before is in the snapshot.
    hearth('disk', 'barrier', $name) if is_attached($scfg, $name, $volname);
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    return $plugin->volume_snapshot($base_scfg, $base_id, $volname, $snap);
}

sub volume_snapshot_rollback {
    my ($class, $scfg, $storeid, $volname, $snap) = @_;
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    $plugin->activate_volume($base_id, $base_scfg, $volname);
    forget($scfg, $storeid, $volname);
    return $plugin->volume_snapshot_rollback($base_scfg, $base_id, $volname, $snap);
}

# ---- what the base storage does alone ----

sub parse_volname {
    my ($class, $volname) = @_;
    # Without a configuration it is not known which storage is below. Names are those of a folder ("100/vm-100-disk-0.raw") or
    # of a volume group ("vm-100-disk-0").
    if ($volname =~ m!^(?:(\d+)/)?((?:vm|base)-(\d+)-[^/\s]+)$!) {
        my ($name, $vmid) = ($2, $3);
        return ('images', $name, $vmid, undef, undef, $name =~ m/^base-/ ? 1 : 0, 'raw');
    }
    die "unable to parse the volume name '$volname'\n";
}

sub filesystem_path {
    my ($class, $scfg, $volname, $snapname) = @_;
    my ($plugin, $base_scfg) = base($scfg);
    return $plugin->filesystem_path($base_scfg, $volname, $snapname);
}

sub list_images {
    my ($class, $storeid, $scfg, $vmid, $vollist, $cache) = @_;
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    my $wanted = $vollist && [map { my $volid = $_; $volid =~ s/^\Q$storeid\E:/$base_id:/; $volid } @$vollist];
    my $images = $plugin->list_images($base_id, $base_scfg, $vmid, $wanted, $cache);
    my @listed;
    for my $image (@$images) {
        next if ($image->{format} // 'raw') ne 'raw' || $image->{volid} !~ m/^\Q$base_id\E:(.+)$/;
        my $volname = $1;
        # A linked clone of ZFS has a name with two parts.
        next if !eval { $class->parse_volname($volname) };
        push @listed, { %$image, volid => "$storeid:$volname" };
    }
    return \@listed;
}

sub status {
    my ($class, $storeid, $scfg, $cache) = @_;
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    return $plugin->status($base_id, $base_scfg, $cache);
}

# With all that Proxmox VE does for a storage of its own: whether it is enabled here, reached, on yet another one.
sub activate_storage {
    my ($class, $storeid, $scfg, $cache) = @_;
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    die "storage '$base_id' lists the disks of '$storeid' as its own, and 'qm rescan' would call them unused: run"
        . " 'pvesm set $base_id --content LIST' with a list that lacks images\n"
        if $base_scfg->{content}->{images};
    PVE::Storage::activate_storage(PVE::Storage::config(), $base_id, $cache);
    return;
}

# Names of volumes are given out by the base storage, so its lock is the one that counts.
sub cluster_lock_storage {
    my ($class, $storeid, $shared, $timeout, $code, @words) = @_;
    my $scfg = PVE::Storage::storage_config(PVE::Storage::config(), $storeid);
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    return $plugin->cluster_lock_storage($base_id, $base_scfg->{shared}, $timeout, $code, @words);
}

sub deactivate_storage {
    # The base storage may have users of its own.
    return;
}

sub volume_size_info {
    my ($class, $scfg, $storeid, $volname, $timeout) = @_;
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    return $plugin->volume_size_info($base_scfg, $base_id, $volname, $timeout);
}

sub volume_snapshot_delete {
    my ($class, $scfg, $storeid, $volname, $snap, $running) = @_;
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    return $plugin->volume_snapshot_delete($base_scfg, $base_id, $volname, $snap, $running);
}

sub volume_snapshot_info {
    my ($class, $scfg, $storeid, $volname) = @_;
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    return $plugin->volume_snapshot_info($base_scfg, $base_id, $volname);
}

sub volume_rollback_is_possible {
    my ($class, $scfg, $storeid, $volname, $snap, $blockers) = @_;
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    return $plugin->volume_rollback_is_possible($base_scfg, $base_id, $volname, $snap, $blockers);
}

sub volume_has_feature {
    my ($class, $scfg, $feature, $storeid, $volname, $snapname, $running, $opts) = @_;
    # A clone or a template is a matter of the base storage: its image has another name there.
    return if $feature !~ m/^(?:copy|snapshot|sparseinit)$/;
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    return $plugin->volume_has_feature($base_scfg, $feature, $base_id, $volname, $snapname, $running, $opts);
}

sub clone_image {
    die "clone the volume in the base storage\n";
}

sub create_base {
    die "make the template in the base storage\n";
}

sub rename_volume {
    die "rename the volume in the base storage, while Hearth does not have it\n";
}

1;
