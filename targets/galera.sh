# Starts the server of this node as its operator would, and again when it ends by itself. It joins
# the primary component if any server is in it. Where all servers answer, for some time, that they
# are in none, the one with the highest sequence number begins: the first, if several have it.
ask() { mariadb --no-defaults -h "$1" -u root --connect-timeout=1 -NBe "$2"; }
state() { # of the server at $1: "Primary", "non-Primary" or "stopped", and its number
    ask "$1" "SHOW STATUS WHERE Variable_name \
        IN ('wsrep_cluster_status', 'wsrep_last_committed')" 2>/dev/null |
        awk '/status/ { is = $2 } /committed/ { number = $2 + 0 < 1e18 ? $2 : -1 }
            END { if (is) print is, number; else exit 1 }' ||
        socat -u -T2 "TCP:$1:$STATE_PORT,connect-timeout=1" - 2>/dev/null
}
joins() { # whether this server joins the others; else it begins
    agreed=0
    while :; do
        agreed=$((agreed + 1)) highest=-2
        for server in $SERVERS; do
            set -- stopped "$own"
            [ "$server" = "$SELF" ] || set -- $(state "$server")
            case $1 in
            Primary) return 0 ;;
            stopped | non-Primary)
                [ "$2" -le $highest ] || { highest=$2 first=$server status=$1; } ;;
            *) agreed=0 ;; # no answer, or one that starts
            esac
        done
        if [ $agreed -ge 3 ]; then
            [ "$first" != "$SELF" ] || return 1
            agreed=0
            [ "$status" = stopped ] ||
                ask "$first" "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'"
        fi
        sleep 0.5
    done
}
say() { date -u "+%F %T 0 [Note] ackloss: $*"; }
trap 'kill $!; wait; exit 143' TERM
cd "$DATA" || exit
while :; do
    [ -s gvwstate.dat ] || rm -f gvwstate.dat # a power loss may leave an empty one
    position=
    if [ -d mysql ]; then
        log=$(mariadbd --defaults-file="$FILE" --wsrep-recover 2>&1)
        printf '%s\n' "$log"
        position=$(printf '%s\n' "$log" | sed -n 's/.*Recovered position: *//p' | tail -n 1)
    fi
    position=${position:-00000000-0000-0000-0000-000000000000:-1} own=${position##*:} begin=
    say recovered "$own"
    socat "TCP-LISTEN:$STATE_PORT,reuseaddr,fork" "SYSTEM:echo stopped $own" &
    listener=$!
    if ! joins; then
        [ -d mysql ] || mariadb-install-db --defaults-file="$FILE" --skip-test-db
        [ ! -f grastate.dat ] || sed -i 's/^\(safe_to_bootstrap:\) 0/\1 1/' grastate.dat
        say begins "$own" && begin=--wsrep-new-cluster
    fi
    kill $listener
    mariadbd --defaults-file="$FILE" --wsrep-start-position="$position" $begin &
    wait $!
    say "ended with $?"
    sleep 1
done
