# Calls a method of the storage plugin beside stand-ins of Proxmox VE's modules, and prints the answer as JSON.
#
#   perl -I tests/proxmox tests/proxmox/try.pl PLUGIN PROGRAM SOCKETS FOLDER STORAGE METHOD [ARGUMENT ...]

use strict;
use warnings;

use JSON::PP;
use PVE::Storage;
use PVE::Storage::Plugin;

# A storage whose volumes are files of a folder; what is asked of it is written down.
package Folder;
use base qw(PVE::Storage::Plugin);
sub type { return 'folder'; }
sub path {
    my ($class, $scfg, $volname) = @_;
    my ($vmid) = $volname =~ m/^vm-(\d+)-/;
    return ("$scfg->{path}/$volname", $vmid, 'images');
}
our @asked;
for my $method (qw(activate_volume deactivate_volume alloc_image free_image volume_resize volume_snapshot volume_snapshot_rollback)) {
    no strict 'refs';
    *{"Folder::$method"} = sub { my ($class, @words) = @_; push @asked, $method; return $method; };
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
my %id_first = map { $_ => 1 } qw(activate_volume deactivate_volume alloc_image free_image);
my @storage = $id_first{$method} ? ($storage, $scfg) : ($scfg, $storage);
@storage = ($scfg) if $method eq 'path';
push @arguments, $storage if $method eq 'path';
@storage = () if $method =~ m/^(?:api|type|plugindata|properties|options|parse_volname)$/;
my @warned;
local $SIG{__WARN__} = sub { push @warned, @_; };
my @answer = eval { $class->$method(@storage, @arguments) };
my $died = $@ || undef;
print JSON::PP->new->canonical->encode({ answer => \@answer, died => $died, warned => \@warned, asked => \@Folder::asked }), "\n";
