# Completion of PROGRAM in bash: source <(PROGRAM completion bash)
_PROGRAM() {
    local words=() word about part path paths head reply at
    # Bash breaks words at = and at colons too.
    for ((at = 1; at <= COMP_CWORD; at++)); do
        word=${COMP_WORDS[at]}
        if ((${#words[@]})) && [[ $word == [=:]* || ${COMP_WORDS[at - 1]} == *[=:] ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
    done
    word=${words[-1]} part=${COMP_WORDS[COMP_CWORD]}
    [[ $part == [=:] ]] && part=
    # What is in front of the part that bash replaces, and of a path.
    head=${word%"$part"} path=$word
    [[ $word == --*=* ]] && path=${word#*=}
    COMPREPLY=()
    while IFS=$'\t' read -r reply about; do
        case $reply in
        :files | :directories)
            compopt -o filenames 2>/dev/null
            [[ $reply == :files ]] && reply=-f || reply=-d
            mapfile -t paths < <(compgen "$reply" -- "$path")
            for reply in "${paths[@]}"; do
                reply=${word%"$path"}$reply
                COMPREPLY+=("${reply#"$head"}")
            done
            ;;
        *) COMPREPLY+=("${reply#"$head"}") ;;
        esac
    done < <("${COMP_WORDS[0]}" completion words "${words[@]}" 2>/dev/null)
    # A value follows at once.
    if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F _PROGRAM PROGRAM
