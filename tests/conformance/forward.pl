# Passes every connection to port 19092 on to port 9092 of this node, and back: the simplest proxy.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;

$SIG{CHLD} = 'IGNORE';
my $listener = IO::Socket::INET->new(LocalPort => 19092, Listen => 64, ReuseAddr => 1) or die $!;
while (my $client = $listener->accept) {
    next if fork;
    my $server = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => 9092) or exit;
    my %other = ($client => $server, $server => $client);
    my $both = IO::Select->new($client, $server);
    while (my @ready = $both->can_read) {
        for my $from (@ready) {
            sysread($from, my $bytes, 65536) or exit;
            syswrite($other{$from}, $bytes);
        }
    }
}
