# shellcheck shell=bash
# Shared by the scripts: messages, one lock, a Python that can make virtual environments.

say() { printf '%s\n' "$*" >&2; }

die() {
    say "setup: $*"
    exit 5
}

# step WHAT COMMAND...: report the step, run it without the lock's descriptor, report how long it took.
# In a subshell: when a function is called with 9>&-, bash keeps a copy, which background jobs inherit.
step() {
    local what=$1 begun_us ms
    shift
    say "$what ..."
    begun_us=${EPOCHREALTIME/[.,]/}
    (exec 9>&- && "$@") || die "$what: failed"
    ms=$(((${EPOCHREALTIME/[.,]/} - begun_us) / 1000))
    say "$what: $((ms / 1000)).$((ms % 1000 / 100)) s"
}

state_dir() {
    printf '%s\n' "${ACKLOSS_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/ackloss}"
}

# One setup at a time on this machine, for all checkouts. File descriptor 9 holds the lock; no process
# that goes on running (dockerd) may inherit it.
one_at_a_time() {
    [ -z "${ACKLOSS_SETUP_LOCKED:-}" ] || return 0
    mkdir -p "$(state_dir)"
    exec 9>"$(state_dir)/setup.lock"
    if ! flock -n 9; then
        say "another setup is running, waiting for it"
        flock 9
    fi
    export ACKLOSS_SETUP_LOCKED=1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        command -v sudo >/dev/null || die "needs root: run it as root, or install sudo"
        sudo "$@"
    fi
}

# The first Python that is new enough and can make a virtual environment. The distribution's comes
# first: that of a version manager may lack modules.
find_python() {
    local python
    for python in "${PYTHON:-/usr/bin/python3}" python3 python3.11 python3.12 python3.13 python3.14; do
        if "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
            2>/dev/null; then
            command -v "$python"
            return 0
        fi
    done
    return 1
}
