"""What the clock lever puts on a prepared node: the command that starts its process, and the script
that writes the file with its offset. Both in shell, so that a node needs no other tools.
"""

from __future__ import annotations

from typing import Final

from harness.protocols import NODE_DATA

FOLDER: Final = "clock"
LIBRARY: Final = "libfaketimeMT.so.1"
OFFSET: Final = "offset"
SCRIPT: Final = "clock.sh"

_INSIDE: Final = f"{NODE_DATA}/{FOLDER}"

# Without the fix for old systems timed waits work and Java does not spin. With a cache of 0 seconds
# the file is read once a second. File times stay as they are when a clock is moved.
_ENV: Final = (
    f"LD_PRELOAD={_INSIDE}/{LIBRARY} FAKETIME_TIMESTAMP_FILE={_INSIDE}/{OFFSET} "
    "FAKETIME_CACHE_DURATION=0 FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_FORCE_MONOTONIC_FIX=0 "
    "NO_FAKE_STAT=1"
)

START: Final = f"""\
if {_ENV} /bin/sh -c : 2>/dev/null; then export {_ENV}; fi
exec "$@"
"""
"""A shell script that becomes the target's process, with the library if its system can load it."""

_TEXT: Final = """\
# clock.sh: the offset of this node's wall clock is the sum of the offsets of the files in faults/.
#   add FAULT FORM MICROSECONDS [PERIOD_MS LIMIT_S]   drop FAULT   show PID
# A file holds its fault's present offset in microseconds, and the uptime in ms when it began.
cd @INSIDE@ || exit 1
mkdir -p faults

uptime_ms() {
    read -r up _ </proc/uptime
    now_ms=${up%.*}${up#*.}0
}

write_offset() {
    total=0
    for file in faults/*; do
        [ -e "$file" ] || continue
        read -r us _ <"$file"
        total=$((total + us))
    done
    sign=+
    [ "$total" -ge 0 ] || { sign=-; total=$((-total)); }
    printf '%s%d.%06d\\n' "$sign" $((total / 1000000)) $((total % 1000000)) >next
    mv next @OFFSET@
}

add() {
    [ ! -e "faults/$1" ] || exit 0
    uptime_ms
    us=$3
    [ "$2" != drift ] || us=0
    echo "$us $now_ms" >"faults/$1"
    write_offset
    if [ "$2" != jump ]; then
        setsid sh @SCRIPT@ loop "$@" "$now_ms" </dev/null >/dev/null 2>&1 9>&- &
    fi
}

# loop FAULT FORM MICROSECONDS PERIOD_MS LIMIT_S BEGAN_MS
loop() {
    while sleep 0.2; do
        exec 9>lock
        flock 9
        [ -e "faults/$1" ] || exit 0
        read -r was began <"faults/$1"
        [ "$began" = "$6" ] || exit 0
        uptime_ms
        age_ms=$((now_ms - began))
        if [ "$age_ms" -ge $(($5 * 1000)) ]; then
            rm -f "faults/$1"
            write_offset
            exit 0
        fi
        if [ "$2" = drift ]; then
            us=$(($3 * age_ms / 1000))
        else
            us=$((age_ms * 2 / $4 % 2 ? 0 : $3))
        fi
        echo "$us $began" >"faults/$1"
        [ "$us" = "$was" ] || write_offset
        exec 9>&-
    done
}

show() {
    # A command that takes long, on a busy machine, says little about the moment between.
    for _ in 1 2 3 4 5 6 7 8; do
        before=$(date +%s%N)
        own=$(@ENV@ date +%s%N)
        after=$(date +%s%N)
        [ $((after - before)) -gt 20000000 ] || break
    done
    uptime_ms
    echo "clocks $before $own $after"
    for file in faults/*; do
        [ -e "$file" ] || continue
        read -r us began <"$file"
        echo "fault ${file#faults/} $us $((now_ms - began))"
    done
    pgrep -af '^sh @SCRIPT@ loop' | while read -r _ _ _ _ fault _; do echo "loop $fault"; done
    if grep -q '@INSIDE@/@LIBRARY@' "/proc/$1/maps" &&
        tr '\\0' '\\n' <"/proc/$1/environ" | grep -qx 'FAKETIME_TIMESTAMP_FILE=@INSIDE@/@OFFSET@'
    then
        echo "loaded yes"
    fi
}

verb=$1
shift
if [ "$verb" = loop ]; then
    loop "$@"
    exit
fi
exec 9>lock
flock 9
case $verb in
add) add "$@" ;;
drop) rm -f "faults/$1" && write_offset ;;
show) show "$@" ;;
esac
"""


def text() -> str:
    """The script."""
    names = {"INSIDE": _INSIDE, "OFFSET": OFFSET, "SCRIPT": SCRIPT, "LIBRARY": LIBRARY, "ENV": _ENV}
    script = _TEXT
    for name, value in names.items():
        script = script.replace(f"@{name}@", value)
    return script


def path(name: str) -> str:
    """Where a file of this lever is on a node."""
    return f"{_INSIDE}/{name}"


def command(*words: str) -> list[str]:
    """The command that runs the script on a node."""
    return ["sh", path(SCRIPT), *words]
