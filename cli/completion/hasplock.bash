# hasplock(1) for bash. It asks no server: names of locks are not completed.

# The options of a command; without one, those that may stand before its word.
_hasplock_options() {
    local common='-u --url --url-file --cacert --cacertdir --cert --key --crl --sni --password-file --json -q --quiet
        -v --verbose -h --help -V --version'
    case $1 in
    run) echo "$common -s --shared -x --exclusive --fair --string -n --nonblock -w --wait --timeout --server-wait" \
        '-E --conflict-exit-code -c --command --lease --max-hold --min-hold --grace --on-lost --all --fenced' \
        '--spin --wait-replicas --note' ;;
    semaphore) echo "$common -k --permits -n --nonblock -w --wait --timeout --server-wait -E --conflict-exit-code" \
        '-c --command --lease --max-hold --min-hold --grace --on-lost --all --wait-replicas --note --drop' \
        '--delete' ;;
    latch) echo "$common -n --nonblock -w --wait --timeout --server-wait -E --conflict-exit-code" ;;
    barrier) echo "$common -n --parties -w --wait --timeout --server-wait -E --conflict-exit-code --lease" ;;
    show) echo "$common -s --shared -x --exclusive --fair --string --semaphore --watch" ;;
    list) echo "$common --limit --numbers --string --watch" ;;
    break) echo "$common -s --shared -x --exclusive --fair --string --holder --now" \
        '-w --wait --timeout' ;;
    doctor) echo "$common --fair --fenced --string --spin --lease" ;;
    demo) echo '--processes --threads --items --seconds --seed --svg --plain --json -u --url --redlock -h --help' ;;
    '') echo "$common" ;;
    esac
}

_hasplock_has_value() {
    case $1 in
    -u | --url | --url-file | -w | --wait | --timeout | --server-wait | -E | --conflict-exit-code | -c | --command | \
        --lease | --max-hold | --min-hold | --grace | --on-lost | --wait-replicas | --note | -k | --permits | \
        --parties | --limit | --holder | --cacert | --cacertdir | \
        --cert | --key | --crl | --sni | --password-file | --processes | --threads | --items | --seconds | --seed | \
        --svg) ;;
    *) return 1 ;;
    esac
}

# bash splits words at ":" and "=" too. Here `words` has them whole, and starts[i] is where words[i] begins in
# COMP_WORDS.
_hasplock_words() {
    local line=$COMP_LINE i word
    words=() starts=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [ "$i" -eq 0 ] || [[ $line == [[:blank:]]* ]]; then
            line=${line#"${line%%[![:blank:]]*}"}
            words+=("$word")
            starts+=("$i")
        else
            words[${#words[@]} - 1]+=$word
        fi
        line=${line#"$word"}
    done
}

# Where COMMAND begins: behind -- if the words from $1 on are more names of run up to it, else at $1.
_hasplock_find_end() {
    local i=$1
    ours_end=$1
    while [ "$command" = run ] && [ "$i" -lt $((${#words[@]} - 1)) ] && [[ ${words[i]} != -* ]]; do
        i=$((i + 1))
    done
    [ "$i" -eq $((${#words[@]} - 1)) ] || [ "${words[i]}" != -- ] || ours_end=$((i + 1))
}

# What stands before the last word: `command`, `name`, where COMMAND begins (`ours_end`), and the option whose value the
# last word is (`option`).
_hasplock_read() {
    local i word rest=
    for ((i = 1; i < ${#words[@]} - 1 && ours_end == 0; i++)); do
        word=${words[i]} option=
        if [ -z "$rest" ] && [ "$word" = -- ] && [ -n "$command" ]; then
            rest=1
            [ -z "$name" ] || ours_end=$((i + 1))
        elif [ -z "$rest" ] && [[ $word == -?* ]]; then
            { _hasplock_has_value "$word" || [ "$command$word" = barrier-n ]; } && option=$word && i=$((i + 1))
            [[ $word != -c && $word != --command && $word != --command=* ]] || shell=1
        elif [ -z "$command" ]; then
            command=$word
        elif [ -z "$name" ]; then
            name=$word
            [ -z "$rest" ] || ours_end=$((i + 1))
        elif [[ $command == @(run|semaphore) ]]; then
            _hasplock_find_end "$i"
        fi
    done
    [ "$i" -eq ${#words[@]} ] || option=
    [[ $command != @(run|semaphore) ]] || [ -z "$name" ] || [ -n "$shell$option" ] || [[ ${words[-1]} == -* ]] ||
        [ "$ours_end" -gt 0 ] || ours_end=$((${#words[@]} - 1))
}

_hasplock_value() {                                     # OPTION VALUE
    case $1 in
    --on-lost) COMPREPLY=($(compgen -W 'term kill warn' -- "$2")) ;;
    --url-file | --password-file | --cacert | --cert | --key | --crl | --svg) compopt -o default ;;
    --cacertdir) compopt -o default -o dirnames ;;
    -u | --url)
        [[ $2 == *:* ]] || COMPREPLY=($(compgen -W 'redis:// rediss:// unix: local:' -- "$2"))
        [ "${COMPREPLY[*]}" = local: ] || compopt -o nospace
        ;;
    esac
}

_hasplock_command() {                                   # COMMAND and its words, as they are completed without us
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "${starts[ours_end]}"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "${starts[ours_end]}"
    elif [ "$ours_end" -eq $((${#words[@]} - 1)) ]; then
        COMPREPLY=($(compgen -c -- "${words[-1]}"))
    else
        compopt -o default
    fi
}

_hasplock() {
    local words starts command= name= option= shell= ours_end=0
    COMPREPLY=()
    _hasplock_words
    _hasplock_read
    local word=${words[-1]}
    if [ "$ours_end" -gt 0 ]; then
        [[ $command != @(run|semaphore) ]] || _hasplock_command
    elif [ -n "$option" ]; then
        _hasplock_value "$option" "$word"
    elif [[ $word == --*=* ]]; then
        _hasplock_value "${word%%=*}" "${word#*=}"
    elif [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$(_hasplock_options "$command")" -- "$word"))
    elif [ -z "$command" ]; then
        COMPREPLY=($(compgen -W 'run semaphore latch barrier show list break doctor demo help version' -- "$word"))
    elif [ "$command" = latch ] && [ -z "$name" ]; then
        COMPREPLY=($(compgen -W 'set down wait count reset' -- "$word"))
    elif [ "$command" = help ] && [ -z "$name" ]; then
        COMPREPLY=($(compgen -W 'run semaphore latch barrier show list break doctor demo' -- "$word"))
    fi
}

complete -F _hasplock hasplock
