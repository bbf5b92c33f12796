#!/bin/sh
# Builds a peer of test_redlock and runs the test with it: redlock.sh BUILD_DIR PEER TEST
#
# PEER is redsync (Go), node (npm's redlock), python (PyPI's redlock-py), java (Redisson's RedissonRedLock, whose jars
# build.sh has left in BUILD_DIR/redisson-VERSION), or lock: the same with an hlk_lock. The registries are as they are
# set up on this machine.
set -eu

here=$(cd "$(dirname "$0")" && pwd)/redlock
mkdir -p "$1/redlock-$2"
dir=$(cd "$1/redlock-$2" && pwd)
jars=$(cd "$1" && pwd)
stamp=$dir/built
made() { [ -e "$stamp" ] && [ -z "$(find "$here/$2" -type f -newer "$stamp")" ]; }

case $2 in
redsync)
    made "$@" || (cp "$here/redsync/go.mod" "$here/redsync/go.sum" "$dir" && cd "$here/redsync" &&
        go build -mod=mod -modfile="$dir/go.mod" -o "$dir/peer" .)
    peer=$dir/peer ;;
node)
    made "$@" || (cp "$here/node/package.json" "$dir" && cd "$dir" && npm install --no-audit --no-fund --silent)
    peer="cd $dir && exec node $here/node/peer.mjs" ;;
python)
    made "$@" || (python3 -m venv "$dir/venv" && "$dir/venv/bin/pip" install -q redlock-py==1.0.8)
    peer="$dir/venv/bin/python $here/python/peer.py" ;;
java | lock)
    for classpath in "$jars"/redisson-*/lib; do :; done
    made "$@" || javac --release 17 -d "$dir" -cp "$classpath/*" "$here/java/RedLockPeer.java"
    peer="java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx256m -cp '$dir:$classpath/*' RedLockPeer" ;;
esac
touch "$stamp"
HASPLOCK_REDLOCK=$2 HASPLOCK_REDLOCK_PEER=$peer exec "$3"
