#!/bin/sh
# Builds the Java peer of the interop tests: build.sh BUILD_DIR [REDISSON_VERSION]
#
# Leaves BUILD_DIR/redisson-VERSION/{classes,lib}; run it by
#     java -cp "$dir/classes:$dir/lib/*" Peer COMMAND
# Does nothing when that is newer than its sources. Needs mvn and a JDK; Maven as it is set up on this machine.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
version=${2:-$(sed -n 's|.*<redisson.version>\(.*\)</redisson.version>.*|\1|p' "$here/pom.xml")}
mkdir -p "$1"
dir=$(cd "$1" && pwd)/redisson-$version
stamp=$dir/built

if [ -e "$stamp" ] && [ -z "$(find "$here/Peer.java" "$here/pom.xml" "$here/build.sh" -newer "$stamp")" ]; then
    exit 0
fi

rm -rf "$dir"
mkdir -p "$dir/classes" "$dir/lib"
mvn --batch-mode --quiet --no-transfer-progress --file "$here/pom.xml" "-Dredisson.version=$version" \
    dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$dir/lib"
javac -Xlint:all -Xlint:-classfile -Werror --release 17 -d "$dir/classes" -cp "$dir/lib/*" "$here/Peer.java"
touch "$stamp"
