"""What runs on a host, in POSIX shell: so that a host needs no more than its distribution's tools,
and so that a host whose harness is gone can undo everything by itself.

A node is a process namespace and a mount namespace on its host (as a container is), and uses the
network of the host itself. In the mount namespace the node's folders stand where they stand in an
image: its data in /var/lib/ackloss, the system in /opt/..., which on the host are folders below
/var/lib/ackloss and /var/cache/ackloss. So the same commands find the same paths, the host's own
files are not touched, and all processes and mounts end with the first process of the namespaces.

/run/ackloss is the inventory of the one run that a host takes at a time: making it is the claim.

    run        the run's id             holder     first process of the namespaces: pid, start time
    host.sh    this script              watch      the process that keeps the lease: pid, start time
    beat       the harness is there     kept       the user keeps the cluster: the lease is endless
    over       the lease is: anyone may remove the run
    pid, rc    of the system's process  out/       what it prints
    queues     queueing disciplines that stood at the devices before

The lease is the dead man's switch of every fault at once: when the harness has not been there for
some seconds, whatever the reason, the host removes all of the run by itself, and tries again as
long as something of a fault is left. Until then the claim stands, and so the run is found again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

CLAIM: Final = "/run/ackloss"
RUNS: Final = "/var/lib/ackloss"
UPLOADS: Final = "/var/cache/ackloss"
TAKEN: Final = 17
"""The exit code of `claim` on a host that another run has."""
NOT_RUNNING: Final = 118
"""The exit code of a command beside a process that is not running."""
LEASE_S: Final = 20
QUEUES: Final = "[56][0-9a-f][0-9a-f][0-9a-f]:"
"""The handles of our queueing disciplines (`harness.levers.shaping`)."""

HOST: Final = r"""# host.sh VERB [RUN]: claim (with this text), watch, down, list
claim=@CLAIM@ runs=@RUNS@ uploads=@UPLOADS@
verb=$1 run=$2

started() { # PID: when it began, in ticks since boot
    line=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    set -- ${line##*) }
    echo "${20}"
}

alive() { # FILE: whether the process that it names runs
    read -r pid began <"$claim/$1" 2>/dev/null || return 1
    [ "$(started "$pid")" = "$began" ]
}

end() { # FILE: end the process that it names, and wait until it is gone; the watch's sleep, too
    alive "$1" || return 0
    all=$pid
    [ "$1" != watch ] || all=-$pid # it leads a group; dash's kill knows no `--`
    kill -KILL "$all"
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        alive "$1" || kill -0 "$all" 2>/dev/null || return 0
        sleep 0.25
    done
    echo "process $pid of $1 cannot be ended"
    return 1
}

queues() { # DEVICE HANDLE of ours, but those that stood there before
    tc qdisc show 2>/dev/null | while read -r _ kind handle _ device _; do
        case $handle in
        @QUEUES@) grep -qsxF "$kind $handle $device" "$claim/queues" || echo "$device $handle" ;;
        esac
    done
}

redirect_off() { # the words of the hook's rule are to be split
    chain=ACKLOSS-REDIRECT
    hook=$(iptables -w 5 -t nat -S PREROUTING 2>/dev/null | sed -n "s/^-A \(.* -j $chain\)$/\1/p")
    [ -z "$hook" ] || iptables -w 5 -t nat -D $hook
    iptables -w 5 -t nat -F $chain 2>/dev/null && iptables -w 5 -t nat -X $chain && removed=yes
}

rules_off() { # the hooks first: what exempts our connection goes last; before the proxies end
    [ ! -x $claim/bin/iptables ] || PATH=$claim/bin:$PATH
    for hook in INPUT OUTPUT; do
        chain=ACKLOSS-${hook%PUT}
        while iptables -w 5 -D $hook -j $chain 2>/dev/null; do removed=yes; done
    done
    [ ! -e /run/ackloss.redirected ] || redirect_off
    for chain in ACKLOSS-IN ACKLOSS-OUT ACKLOSS-TRIAL; do
        iptables -w 5 -F $chain 2>/dev/null && iptables -w 5 -X $chain && removed=yes
    done
}

tables() { # the iptables with which the host's own rules were made, where there are two
    mkdir -p $claim/bin
    [ -s /proc/net/ip_tables_names ] && command -v iptables-legacy >/dev/null || return 0
    case $(iptables -V) in *legacy*) return 0 ;; esac
    [ -z "$(iptables -S 2>/dev/null | grep '^-A')" ] || return 0
    for each in iptables iptables-save iptables-restore; do
        ln -s "$(command -v "iptables-legacy${each#iptables}")" "$claim/bin/$each"
    done
}

faults_off() {
    removed=
    rules_off
    [ -z "$removed" ] || echo rules
    queues | while read -r device handle; do
        tc qdisc del dev "$device" root handle "$handle" 2>/dev/null && echo "queue at $device"
    done
}

in_force() { # what of our faults is left, or cannot be seen; without the tool there is nothing
    if command -v iptables >/dev/null; then
        shown=$(iptables -w 5 -S 2>&1) || echo "the rules cannot be read: $shown"
        echo "$shown" | grep ACKLOSS-
        [ ! -e /run/ackloss.redirected ] || {
            shown=$(iptables -w 5 -t nat -S 2>&1) || echo "the redirects cannot be read: $shown"
            echo "$shown" | grep ACKLOSS-
        }
    fi
    ! command -v tc >/dev/null || tc qdisc show >/dev/null 2>&1 || echo "the queues cannot be read"
    queues | sed 's/^/queue at /'
}

down() { # of another run nothing is touched; what is still in force keeps the claim
    if [ "$(cat $claim/run 2>/dev/null)" = "$run" ]; then
        faults_off
        ! alive holder || echo "processes of the node"
        end holder || return 1
        rest=$(in_force)
        [ -z "$rest" ] || { echo "still in force: $rest"; return 1; }
        [ "$verb" = watch ] || end watch || return 1
    fi
    rm -rf $uploads/*."$run".*
    if [ -d "$runs/$run" ]; then
        rm -rf --one-file-system "${runs:?}/$run" || return 1
        echo "folder $runs/$run"
    fi
    rmdir $runs 2>/dev/null
    [ "$(cat $claim/run 2>/dev/null)" = "$run" ] || return 0
    rm -f /run/ackloss.paused.* /run/ackloss.shaped.* /run/ackloss.redirected /tmp/ackloss.dead.*
    rm -rf --one-file-system $claim
    echo "claim $claim"
    return 0
}

case $verb in
claim)
    mkdir $claim 2>/dev/null || { cat $claim/run; exit @TAKEN@; }
    echo "$run" >$claim/run
    printf %s "$3" >$claim/host.sh
    tables
    tc qdisc show 2>/dev/null | while read -r _ kind handle _ device _; do
        echo "$kind $handle $device"
    done >$claim/queues
    mkdir -p $runs && mkdir "$runs/$run" "$runs/$run/node" "$runs/$run/out" $claim/out || exit 1
    setsid sh $claim/host.sh watch "$run" </dev/null >/dev/null 2>&1 &
    ;;
watch)
    echo "$$ $(started $$)" >$claim/watch
    left=@LEASE@
    while [ $left -gt 0 ]; do
        sleep 1
        left=$((left - 1))
        if [ -e $claim/beat ]; then
            rm -f $claim/beat
            left=@LEASE@
        fi
        [ ! -e $claim/kept ] || left=@LEASE@
        [ "$(cat $claim/run 2>/dev/null)" = "$run" ] || exit 0
    done
    : >$claim/over
    until down; do sleep 2; done
    ;;
down)
    down
    ;;
list) # the runs of which something is here, and whether their lease goes on
    [ ! -d $claim ] || {
        state=dead
        alive watch && [ ! -e $claim/over ] && state=alive
        echo "$(cat $claim/run 2>/dev/null || echo unnamed) $state"
    }
    for folder in $runs/*/; do
        name=${folder%/} name=${name##*/}
        [ -d "$folder" ] || continue
        [ "$(cat $claim/run 2>/dev/null)" = "$name" ] || echo "$name dead"
    done
    ;;
esac
"""

HOLD: Final = r"""# hold.sh RUN DATA_MB [SOURCE INSIDE]...: the first process of a node's namespaces
claim=@CLAIM@ runs=@RUNS@
set -e
read -r line </proc/self/stat # /proc is still the host's: its numbers are, too
holder=${line%% *}
began=$(set -- ${line##*) }; echo "${20}")
run=$1 data_mb=$2 copies=
shift 2

room() { # PATH: a place for it, in folders that are ours or copies, in this namespace alone, of
    # those of the host
    [ ! -e "$1" ] || return 0
    above=${1%/*}
    while [ -n "$above" ] && [ ! -d "$above" ]; do above=${above%/*}; done
    [ -n "$above" ] || { echo "no folder holds $1"; exit 1; }
    case " $copies " in
    *" $above "*) ;;
    *)
        copies="$copies $above"
        shown=$claim/shown
        mkdir -p $shown
        mount --rbind "$above" $shown
        mount -t tmpfs -o mode=0755 tmpfs "$above"
        for each in $shown/* $shown/.[!.]*; do
            name=$above/${each##*/}
            if [ -L "$each" ]; then cp -P "$each" "$name"
            elif [ -d "$each" ]; then mkdir "$name" && mount --rbind "$each" "$name"
            elif [ -e "$each" ]; then : >"$name" && mount --bind "$each" "$name"
            fi
        done
        umount -l $shown
        ;;
    esac
    mkdir -p "${1%/*}"
    if [ -d "$2" ]; then mkdir "$1"; else : >"$1"; fi
}

mount --bind "$runs/$run/out" $claim/out
while [ $# -gt 1 ]; do
    room "$2" "$1"
    mount --bind "$1" "$2"
    mount -o remount,bind,ro "$2"
    shift 2
done
mount --bind "$runs/$run/node" $runs
if [ "$data_mb" -gt 0 ]; then
    mkdir $runs/data
    mount -t tmpfs -o "size=${data_mb}m,mode=0755" tmpfs $runs/data
fi
mount -t proc proc /proc
echo "$holder $began" >$claim/holder.new
mv $claim/holder.new $claim/holder
set +e
while :; do sleep 86400 & wait; done
"""

PROCESS: Final = r"""# process.sh start|state|wrap|beside COMMAND|second COMMAND: in the node's
# namespaces, the system's process, commands beside it with its rights, and a process that ends with
# the node
cd @CLAIM@ || exit 1
runs_still() {
    read -r pid 2>/dev/null <pid || return 1
    read -r line 2>/dev/null <"/proc/$pid/stat" || return 1
    line=${line##*) }
    [ "${line%% *}" != Z ]
}
at() { date -u -r "$1" +%Y-%m-%dT%H:%M:%S.%NZ; }
case $1 in
start)
    [ ! -e pid ] || [ -e rc ] || { runs_still && exit 0; }
    rm -f pid rc
    setsid sh process.sh wrap </dev/null >/dev/null 2>&1 &
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        [ ! -s pid ] && [ ! -e rc ] || exit 0
        sleep 0.1
    done
    echo "it did not begin within 2 s"
    exit 1
    ;;
beside)
    runs_still || exit @NOT_RUNNING@
    shift
    cd /
    exec setpriv @RIGHTS@ "$@"
    ;;
second)
    shift
    cd /
    setpriv @RIGHTS@ "$@" >>@CLAIM@/out/beside 2>&1 </dev/null &
    ;;
wrap)
    (exec sh command.sh) >>out/console 2>&1 </dev/null
    echo $? >rc.new
    set -- $(ps -e -o sid=,pid=) # all that it had started; what is ours has no session in here
    while [ $# -gt 1 ]; do
        [ "$1" = 0 ] || [ "$2" = $$ ] || kill -KILL "$2" 2>/dev/null
        shift 2
    done
    mv rc.new rc
    ;;
state)
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        if [ -e rc ]; then
            echo "ended $(cat rc) $(at pid 2>/dev/null) $(at rc)"
            exit 0
        fi
        if runs_still; then
            echo "running $pid $(at pid)"
            exit 0
        fi
        sleep 0.1 # it has ended, and its exit code is about to be written
    done
    echo "gone"
    ;;
esac
"""

# The process is root without any rights but those of a file's owner, as in a container, and those
# that its system needs to change its user.
COMMAND: Final = """\
cd /
exec setpriv @RIGHTS@ env @ENVIRONMENT@ sh -c 'echo $$ >"$0" && exec "$@"' @CLAIM@/pid @ARGV@
"""


def rights(capabilities: Sequence[str]) -> str:
    """The options of setpriv by which a process keeps only these."""
    bounds = ",".join(["-all", *(f"+{each}" for each in capabilities)])
    return f"--bounding-set={bounds} --inh-caps=-all --no-new-privs"


def text(script: str, values: Mapping[str, str] | None = None) -> str:
    """A script with the names of our folders filled in."""
    names = {
        "CLAIM": CLAIM,
        "RUNS": RUNS,
        "UPLOADS": UPLOADS,
        "NOT_RUNNING": str(NOT_RUNNING),
        "TAKEN": str(TAKEN),
        "LEASE": str(LEASE_S),
        "QUEUES": QUEUES,
    }
    for name, value in {**names, **(values or {})}.items():
        script = script.replace(f"@{name}@", value)
    return script
