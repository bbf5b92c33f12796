#!/bin/sh
# A whole script under a lock: it runs itself again below hasplock, which sets HASPLOCK_NAME.
#
#   examples/whole_script.sh [WORD...]    HASPLOCK_URL: where Redis is
#
# A second one waits. With -n it would end at once, and with -n -E 0 without an error. If the lock is lost, the script
# is killed with all that it has started.
set -eu
name=whole-script
[ "${HASPLOCK_NAME:-}" = "$name" ] || exec hasplock run "$name" -- "$0" "$@"

echo "alone, with $# words"
