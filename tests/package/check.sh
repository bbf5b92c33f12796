# check.sh - for the scripts of this folder. A check is a function; its output is shown when it fails. The last line
# counts them.
passed=0 failed=0
check() {                                               # "what holds", a function
    local said rc
    said=$(set -e; "$2" 2>&1)                           # not inside an if: there set -e would mean nothing
    rc=$?
    if [ $rc -eq 0 ]; then
        passed=$((passed + 1)) && echo "ok      $1"
    else
        failed=$((failed + 1)) && printf 'FAILED  %s\n%s\n' "$1" "$said"
    fi
}
finish() {
    printf '%d passed, %d failed\n' $passed $failed
    exit $((failed > 0))
}
