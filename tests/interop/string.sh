#!/bin/sh
# Builds a peer of test_string_peers and runs the test with it: string.sh BUILD_DIR PEER TEST
#
# PEER is redispy (PyPI's redis) or redislock (Go's github.com/bsm/redislock). The registries are as they are set up on
# this machine.
set -eu

here=$(cd "$(dirname "$0")" && pwd)/string
mkdir -p "$1/string-$2"
dir=$(cd "$1/string-$2" && pwd)
stamp=$dir/built
made() { [ -e "$stamp" ] && [ -z "$(find "$here/$2" -type f -newer "$stamp")" ]; }

case $2 in
redislock)
    made "$@" || (cp "$here/redislock/go.mod" "$here/redislock/go.sum" "$dir" && cd "$here/redislock" &&
        go build -mod=mod -modfile="$dir/go.mod" -o "$dir/peer" .)
    peer=$dir/peer ;;
redispy)
    made "$@" || (python3 -m venv "$dir/venv" && "$dir/venv/bin/pip" install -q redis==5.2.1)
    peer="$dir/venv/bin/python $here/redispy/peer.py" ;;
esac
touch "$stamp"
HASPLOCK_STRING_PEER=$peer exec "$3"
