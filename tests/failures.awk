# failures.awk - each failed test of a stage's log, one a line: `NAME  FILE:LINE: what was asserted`.
#
# A Criterion test is named KIND/PROGRAM:SUITE.TEST, another ctest KIND/PROGRAM, anything else by the stage (-v stage=).
# ctest prints "1/9 Test #3: KIND/PROGRAM ....***Failed" and then what the program printed. In it "[----]" lines come
# before the "[FAIL]" that they belong to.

function note(text) {
    gsub(/^[ \t]+|[ \t]+$/, "", text)
    if (text != "" && length(notes) < 300)
        notes = notes (notes == "" ? "" : " ") text
}

function failed(name, detail) {
    if (name in seen)
        return
    seen[name] = 1
    print name "  " (detail == "" ? "(build/logs/" stage ".log)" : substr(detail, 1, 400))
    any = 1
}

/Test +#[0-9]+: / {
    if (program != "" && !told)
        failed(program, how " " notes)
    program = how = notes = ""
    told = 0
}
/Test +#[0-9]+: .*\*\*\*/ {
    program = $0
    sub(/.*Test +#[0-9]+: /, "", program)
    how = program
    sub(/[ .].*/, "", program)
    sub(/.*\*\*\*/, "", how)
    gsub(/[ \t]+/, " ", how)
    if (how ~ /^Skipped/)
        program = ""
    next
}
/[^ \t]/ { last = $0 }
/^\[----\]/ { note(substr($0, 7)); next }
/^(not )?ok |^\[(PASS|SKIP|RUN )\]/ { notes = ""; next }
/^\[(FAIL|CRASH)\]/ {
    name = $2
    gsub(/:$/, "", name)
    sub(/::/, ".", name)
    how_ended = $0
    sub(/^\[[A-Z]+\] +[^ ]+ */, "", how_ended)
    failed((program == "" ? stage : program) ":" name, notes == "" ? how_ended : notes)
    told = 1
    notes = ""
    next
}
/^(FAILED|WRONG|not so)/ || /(ThreadSanitizer|AddressSanitizer|LeakSanitizer|runtime error|ERROR SUMMARY: [1-9])/ {
    note($0)
}
/(^|[ :])(fatal )?error: / { note($0); error = error == "" ? $0 : error }
/^[0-9]+% tests passed|^Label Time Summary/ {
    if (program != "" && !told)
        failed(program, how " " notes)
    program = ""
}
END {
    if (program != "" && !told)
        failed(program, how " " notes)
    if (!any)
        failed(stage, error != "" ? error : notes != "" ? notes : last)
}
