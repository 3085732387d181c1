# A system that does what faults can meet: it listens on Kafka's port, sends more than a queue takes at
# once to each of the addresses in turn, stores, and logs what it does and what it could not do.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use POSIX 'strftime';
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my ($home, $turn, $next) = ('/var/lib/ackloss', 0, 0);
my ($block, $last) = ('x' x 131072, '');
# A file that an earlier process left is not written again: that would give back space on a full disk.
my $life = int(1000 * Time::HiRes::time());
$SIG{PIPE} = 'IGNORE';
mkdir "$home/log";
my $server = IO::Socket::INET->new(LocalPort => 9092, Listen => 128, ReuseAddr => 1) or die $!;
my $heard = IO::Select->new($server);

sub note {
    my $now = Time::HiRes::time();
    open my $log, '>>', "$home/log/said.log" or return;
    printf $log "[%s,%03d] %s\n", strftime('%Y-%m-%d %H:%M:%S', gmtime int $now),
        1000 * ($now - int $now), "@_";
    close $log;
}

sub store {
    my $path = "$home/data/said.$life.$turn";
    if (open my $file, '>', $path) {
        print $file substr $block, 0, 8192;
        if (close $file) {
            unlink $last if $last;
            $last = $path;
            return 'stored';
        }
    }
    return "not stored: $!";
}

sub talk {
    my $peer = IO::Socket::INET->new(PeerAddr => $_[0], PeerPort => 9092, Timeout => 0.2) or return;
    $peer->blocking(0);
    syswrite $peer, $block;
    close $peer;
}

while (1) {
    my $wait = $next - clock_gettime(CLOCK_MONOTONIC);
    for my $socket ($heard->can_read($wait > 0 ? $wait : 0)) {
        if ($socket == $server) {
            my $one = $server->accept;
            $heard->add($one) if $one;
        } elsif (!sysread $socket, my $said, 1048576) {
            $heard->remove($socket);
            close $socket;
        }
    }
    next if clock_gettime(CLOCK_MONOTONIC) < $next;
    $next = clock_gettime(CLOCK_MONOTONIC) + 0.1;
    note(store());
    talk($ARGV[$turn++ % @ARGV]);
}
