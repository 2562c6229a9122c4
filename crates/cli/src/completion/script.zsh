#compdef PROGRAM
# Completion of PROGRAM in zsh: source <(PROGRAM completion zsh), after compinit.
_PROGRAM() {
    local -a plain open
    local line word
    for line in "${(@f)$("${words[1]}" completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        word=${line%%$'\t'*}
        case $word in
        '') ;;
        :files) compset -P '--*='; _files ;;
        :directories) compset -P '--*='; _files -/ ;;
        *=) open+=("${word//:/\\:}:${line#*$'\t'}") ;;
        *) plain+=("${word//:/\\:}:${line#*$'\t'}") ;;
        esac
    done
    (($#open)) && _describe -t flags flag open -S ''
    (($#plain)) && _describe -t words word plain
}
if [[ ${funcstack[1]} == _PROGRAM ]]; then
    _PROGRAM "$@"
else
    compdef _PROGRAM PROGRAM
fi
