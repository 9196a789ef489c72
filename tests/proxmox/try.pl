# Calls a method of the storage plugin beside stand-ins of Proxmox VE's modules, and prints the answer as JSON.
#
#   perl -I tests/proxmox tests/proxmox/try.pl PLUGIN PROGRAM SOCKETS FOLDER STORAGE METHOD [ARGUMENT ...]

use strict;
use warnings;

use JSON::PP;
use PVE::Storage;
use PVE::Storage::Plugin;

# A storage whose volumes are files of a folder; what is asked of it is written down, and with which words.
package Folder;
use base qw(PVE::Storage::Plugin);
sub type { return 'folder'; }
sub path {
    my ($class, $scfg, $volname) = @_;
    my ($vmid) = $volname =~ m/^vm-(\d+)-/;
    return ("$scfg->{path}/$volname", $vmid, 'images');
}
sub parse_volname {
    my ($class, $volname) = @_;
    my ($vmid, $format) = $volname =~ m/^vm-(\d+)-[^.]*(?:\.(\w+))?$/ or die "unable to parse '$volname'\n";
    return ('images', $volname, $vmid, undef, undef, 0, $format // 'raw');
}
our (@asked, @given);
sub volume_resize {
    my ($class, $scfg, $storeid, $volname, $size) = @_;
    push @asked, 'volume_resize';
    # As Proxmox VE does it, who has the lock of the file is in the way.
    return PVE::Tools::run_command(['qemu-img', 'resize', '-q', '-f', 'raw', "$scfg->{path}/$volname", $size]);
}
for my $method (qw(activate_volume deactivate_volume alloc_image free_image volume_snapshot volume_snapshot_rollback)) {
    no strict 'refs';
    *{"Folder::$method"} = sub { my ($class, @words) = @_; push @asked, $method; @given = @words[2 .. $#words]; return $method; };
}

package main;

my ($plugin, $program, $sockets, $folder, $storage, $method, @arguments) = @ARGV;
require $plugin;
my $class = 'PVE::Storage::Custom::HearthPlugin';
Folder->register();
$class->register();
PVE::Storage::over($folder);
PVE::Storage::Custom::HearthPlugin::places($program, $sockets);
my $scfg = PVE::Storage::storage_config(PVE::Storage::config(), $storage);
# Some methods take the storage's id first, others its configuration.
my %id_first = map { $_ => 1 } qw(activate_volume deactivate_volume alloc_image free_image activate_storage);
my @storage = $id_first{$method} ? ($storage, $scfg) : ($scfg, $storage);
@storage = ($scfg) if $method eq 'path';
push @arguments, $storage if $method eq 'path';
@storage = () if $method =~ m/^(?:api|type|plugindata|properties|options|parse_volname)$/;
my @warned;
local $SIG{__WARN__} = sub { push @warned, @_; };
my @answer = eval { $class->$method(@storage, @arguments) };
my $died = $@ || undef;
print JSON::PP->new->canonical->encode({ answer => \@answer, died => $died, warned => \@warned, asked => \@Folder::asked, given => \@Folder::given, activated => \@PVE::Storage::activated }), "\n";
