package PVE::Storage::Plugin;

# What the plugin uses of the module of this name, for a machine without Proxmox VE.

use strict;
use warnings;

my %plugins;

sub register {
    my ($class) = @_;
    $plugins{ $class->type() } = $class;
    return;
}

sub lookup {
    my ($class, $type) = @_;
    return $plugins{$type} // die "unknown storage type '$type'\n";
}

sub cluster_lock_storage {
    my ($class, $storeid, $shared, $timeout, $code, @words) = @_;
    return $code->(@words);
}

1;
