#!/usr/bin/env bash
# test_dev.sh SOURCE WORK - what a developer gets who has no Java, Maven, spin, valgrind or linters, and no apt-get.
#
# SOURCE is copied below WORK. There PATH is a folder with links to every program but these.
set -uo pipefail
source=$(cd "$1" && pwd)
rm -rf "$2" && mkdir -p "$2" && work=$(cd "$2" && pwd) || exit 1
. "$(dirname "$0")/check.sh"
unset CI

tree=$work/tree programs=$work/programs
mkdir "$tree" "$programs"
(cd "$source" && git ls-files -co --exclude-standard -z | xargs -0 cp --parents -t "$tree")
for program in /usr/local/bin/* /usr/bin/* /bin/* /usr/sbin/* /sbin/*; do
    case ${program##*/} in
    java* | mvn* | spin | valgrind* | cppcheck | luacheck | mandoc | scdoc | apt* | sudo) ;;
    *) [ -e "$programs/${program##*/}" ] || [ -d "$program" ] || ln -s "$program" "$programs" ;;
    esac
done
cd "$tree" || exit 1
PATH=$programs

# PATH is not all that find_program looks at.
builds() {
    cmake --preset dev "-DCMAKE_IGNORE_PATH=/usr/local/bin;/usr/bin;/bin;/usr/local/sbin;/usr/sbin;/sbin"
    cmake --build build/dev
}
skips() {
    local said
    said=$(ctest --test-dir build/dev -R "^(interop/(build|redisson)|model/)" -V)
    echo "$said"
    [[ $said == *"install default-jdk-headless maven)"*Skipped*"install spin)"*Skipped* ]]
}
fails_in_ci() { ! CI=1 ctest --test-dir build/dev -L "^$1\$"; }
interop_fails_in_ci() { fails_in_ci interop; }
model_fails_in_ci() { fails_in_ci model; }
needs_little() {
    local needs
    needs=$(./dev needs unit integration)
    grep -x libcriterion-dev <<<"$needs"
    ! grep -E 'jdk|maven|spin|valgrind|clang|cppcheck|luacheck|mandoc|python' <<<"$needs"
}
is_not_run() {                                          # EXIT-CODE VERDICT LAST-LINE
    local said rc=0
    said=$(./dev test interop 2>&1) || rc=$?
    echo "exit code $rc: $said"
    [ $rc -eq "$1" ]
    [[ $said == *"== interop: needs maven default-jdk-headless"*"interop          $2"*"$3" ]]
}
says_so() { is_not_run 77 "not run" "0 passed, 0 failed; not run: interop"; }
says_so_in_ci() {
    local needs="failed: interop  needs maven default-jdk-headless"
    CI=1 is_not_run 1 FAILED "0 passed, 1 failed; not run: interop"$'\n'"$needs"
}

check "the preset dev configures and builds" builds
check "tests that need what is missing are skipped, and name its packages" skips
check "in CI those with Java fail" interop_fails_in_ci
check "in CI those with spin fail" model_fails_in_ci
check "./dev test unit integration needs nothing of it" needs_little
check "./dev test: a stage without its tools is not run, exit code 77" says_so
check "./dev test: in CI such a stage fails" says_so_in_ci
finish
