#!/bin/bash
# A lock that a script takes by one command and gives back by another one: hasplock runs beside it as a coprocess.
#
#   examples/two_commands.sh    HASPLOCK_URL: where Redis is
#
# COMMAND says that the lock is held, and reads until its input is closed, or until the script has died. If the lock is
# lost, COMMAND is killed, and the script is not: it looks whether the coprocess still runs before each effect. Where a
# script may be killed, `exec hasplock run NAME -- "$0" "$@"` is the better way (whole_script.sh).
set -eu

acquire() { # [OPTION...] NAME; 0: the lock is held
    local said=
    coproc LOCK { exec hasplock run "$@" -- sh -c 'echo held; exec cat >/dev/null'; }
    lock_pid=$LOCK_PID lock_in=${LOCK[1]} lock_out=${LOCK[0]}
    read -r said <&"$lock_out" || true
    [ "$said" = held ]
}

still_held() {
    kill -0 "$lock_pid" 2>/dev/null
}

release() { # 0: it was held to the end
    exec {lock_in}>&-
    wait "$lock_pid"
}

acquire -w 10 shelf-3 || exit 1
echo "has it"
if still_held; then
    echo "moves goods"
fi
release
echo "gave it back"
