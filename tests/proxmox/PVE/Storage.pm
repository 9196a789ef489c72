package PVE::Storage;

# What the plugin uses of the module of this name, for a machine without Proxmox VE: a configuration of a few storages.

use strict;
use warnings;

use constant APIVER => 13;

my $folder;
our @activated;

# Where the base storage has its volumes.
sub over {
    ($folder) = @_;
    return;
}

sub config {
    return {
        ids => {
            below => { type => 'folder', path => $folder, content => { rootdir => 1 } },
            fast => { type => 'hearth', 'hearth-base' => 'below', 'hearth-write-policy' => 'back' },
            listed => { type => 'folder', path => $folder, content => { images => 1 } },
            open => { type => 'hearth', 'hearth-base' => 'listed' },
            twice => { type => 'hearth', 'hearth-base' => 'fast' },
        },
    };
}

sub storage_config {
    my ($cfg, $storeid) = @_;
    return $cfg->{ids}->{$storeid} // die "storage '$storeid' does not exist\n";
}

sub activate_storage {
    my ($cfg, $storeid, $cache) = @_;
    push @activated, $storeid;
    return;
}

1;
