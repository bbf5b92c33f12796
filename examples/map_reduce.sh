#!/bin/sh
# Map and reduce by a barrier: no worker begins to reduce before all have finished to map, and if one of them dies the
# others stop, and do not reduce half of the data.
#
#   examples/map_reduce.sh [WORKERS]      HASPLOCK_URL: where Redis is
#
# Here the workers are processes of one host, and count words. They may as well be on many hosts: what they share is
# the name of the barrier, and a folder.
set -eu
workers=${1:-3}
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
name=words-$$

worker() { # NUMBER
    # map: the words of each n-th line, one file for each worker that will reduce them, by their length
    awk -v me="$1" -v n="$workers" -v to="$here" 'NR % n == me {
        for (i = 1; i <= NF; i++) print $i > (to "/" length($i) % n "." me)
    }' "$here/text"
    hasplock barrier -q -n "$workers" -w 1m "$name" || exit 1
    # reduce: all words of a length are in the files of one worker
    cat "$here/$1".* 2>/dev/null | sort | uniq -c >"$here/counts.$1"
    # The last one to come here puts it together.
    case $(hasplock barrier -n "$workers" -w 1m "$name") in
    *'index 0 '*) cat "$here"/counts.* | sort -k1,1nr -k2 >"$here/all" ;;
    '') exit 1 ;;
    esac
}

for line in 'to be or not to be' 'that is the question' 'whether it is nobler to suffer' 'or to take arms'; do
    echo "$line"
done >"$here/text"

i=0
while [ "$i" -lt "$workers" ]; do
    worker "$i" &
    i=$((i + 1))
done
wait
head -n 3 "$here/all"
