package PVE::Tools;

# What the plugin uses of the module of this name, for a machine without Proxmox VE.

use strict;
use warnings;

use IPC::Open3;
use Symbol qw(gensym);

sub run_command {
    my ($command, %how) = @_;
    my $complaints = gensym();
    my $pid = open3(my $in, my $out, $complaints, @$command);
    close($in);
    my @said = <$out>;
    my @complained = <$complaints>;
    waitpid($pid, 0);
    for my $of ([$how{outfunc}, @said], [$how{errfunc}, @complained]) {
        my ($take, @lines) = @$of;
        for my $line (@lines) {
            chomp $line;
            $take->($line) if $take;
        }
    }
    my $code = $? >> 8;
    die "@$command: $code\n" if $code && !$how{noerr};
    return $code;
}

1;
