package PVE::Storage;

# What the plugin uses of the module of this name, for a machine without Proxmox VE: a configuration of two storages.

use strict;
use warnings;

my $folder;

# Where the base storage has its volumes.
sub over {
    ($folder) = @_;
    return;
}

sub config {
    return {
        ids => {
            below => { type => 'folder', path => $folder },
            fast => { type => 'hearth', 'hearth-base' => 'below', 'hearth-write-policy' => 'back' },
            twice => { type => 'hearth', 'hearth-base' => 'fast' },
        },
    };
}

sub storage_config {
    my ($cfg, $storeid) = @_;
    return $cfg->{ids}->{$storeid} // die "storage '$storeid' does not exist\n";
}

1;
