# Completion of PROGRAM in fish: PROGRAM completion fish | source
function __PROGRAM_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l prefix (string match -r '^--[^=]*=' -- "$current")
    set -l path (string replace -r '^--[^=]*=' '' -- "$current")
    for line in ($before[1] completion words $before[2..-1] "$current" 2>/dev/null)
        switch $line
            case ':files*'
                for found in (__fish_complete_path "$path")
                    echo "$prefix$found"
                end
            case ':directories*'
                for found in (__fish_complete_directories "$path" '')
                    echo "$prefix$found"
                end
            case '*'
                echo $line
        end
    end
end
complete -c PROGRAM -f -a '(__PROGRAM_complete)'
