package PVE::Storage::Custom::HearthPlugin;

# A storage of Proxmox VE that puts the disks of another storage on Hearth. Volumes are made, listed, resized and removed by
# that storage; VMs reach them over NBD at a socket of each disk's own. It implements version 12 of the storage API.
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

use strict;
use warnings;

use PVE::Storage;
use PVE::Storage::Plugin;
use PVE::Tools;

use base qw(PVE::Storage::Plugin);

# Exit codes of hearth.
use constant NOT_FOUND => 6;
# Bytes of the longest name of a disk.
use constant NAME_MAX => 63;

my $PROGRAM = '/usr/bin/hearth';
my $SOCKETS = '/run/hearth';

# Another place of the program and of the sockets, for tests.
sub places {
    my ($program, $sockets) = @_;
    ($PROGRAM, $SOCKETS) = ($program, $sockets);
}

sub api {
    return 12;
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

sub is_attached {
    my ($name) = @_;
    my $said = '';
    my $take = sub { $said .= "$_[0]\n"; };
    my $command = [$PROGRAM, 'disk', 'show', $name];
    my $code = PVE::Tools::run_command($command, outfunc => sub { }, errfunc => $take, noerr => 1);
    return 1 if $code == 0;
    return 0 if $code == NOT_FOUND;
    die "it is not known whether Hearth has '$name': $said";
}

sub attach {
    my ($scfg, $storeid, $volname) = @_;
    my $name = disk_name($storeid, $volname);
    return $name if is_attached($name);
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    my ($path, $vmid) = $plugin->path($base_scfg, $volname, $base_id);
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
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    $plugin->activate_volume($base_id, $base_scfg, $volname, $snapname, $cache, $hints);
    attach($scfg, $storeid, $volname) if !defined($snapname);
    return 1;
}

sub deactivate_volume {
    my ($class, $storeid, $scfg, $volname, $snapname, $cache) = @_;
    my $name = disk_name($storeid, $volname);
    if (!defined($snapname) && is_attached($name)) {
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
    return $plugin->alloc_image($base_id, $base_scfg, $vmid, 'raw', $name, $size);
}

sub free_image {
    my ($class, $storeid, $scfg, $volname, $isBase, $format) = @_;
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    # The next volume of this name has other bytes.
    $plugin->activate_volume($base_id, $base_scfg, $volname);
    forget($scfg, $storeid, $volname);
    $plugin->deactivate_volume($base_id, $base_scfg, $volname);
    return $plugin->free_image($base_id, $base_scfg, $volname, $isBase, $format);
}

sub volume_resize {
    my ($class, $scfg, $storeid, $volname, $size, $running, $snapname) = @_;
    die "a disk over NBD is resized while its VM is shut down\n" if $running;
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    my $done = $plugin->volume_resize($base_scfg, $base_id, $volname, $size, $running, $snapname);
    my $name = disk_name($storeid, $volname);
    hearth('disk', 'resize', $name) if is_attached($name);
    return $done;
}

sub volume_snapshot {
    my ($class, $scfg, $storeid, $volname, $snap) = @_;
    my $name = disk_name($storeid, $volname);
    # What was answered before is in the snapshot.
    hearth('disk', 'barrier', $name) if is_attached($name);
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
    my @raw = grep { ($_->{format} // 'raw') eq 'raw' } @$images;
    for my $image (@raw) {
        $image->{volid} =~ s/^\Q$base_id\E:/$storeid:/;
    }
    return \@raw;
}

sub status {
    my ($class, $storeid, $scfg, $cache) = @_;
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    return $plugin->status($base_id, $base_scfg, $cache);
}

sub activate_storage {
    my ($class, $storeid, $scfg, $cache) = @_;
    my ($plugin, $base_scfg, $base_id) = base($scfg);
    return $plugin->activate_storage($base_id, $base_scfg, $cache);
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
