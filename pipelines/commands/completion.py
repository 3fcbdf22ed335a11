"""usage: hierarchos completion bash|zsh|fish

Prints a script that completes pipelines, commands, settings and their values in your shell:

    bash   hierarchos completion bash > ~/.local/share/bash-completion/completions/hierarchos
    zsh    hierarchos completion zsh > "${fpath[1]}/_hierarchos"
    fish   hierarchos completion fish > ~/.config/fish/completions/hierarchos.fish
"""
from __future__ import annotations

from hierarchos.errors import UserError, nearest
from pipelines.commands.words import take

BASH = """\
_hierarchos() {
    local typed="${COMP_LINE:0:COMP_POINT}" word rest
    word="${typed##*[[:space:]]}"
    rest="${word%"${word##*[=:]}"}"
    local IFS=$'\\n'
    COMPREPLY=($(hierarchos --complete "${COMP_WORDS[1]}" "$word" 2>/dev/null))
    COMPREPLY=("${COMPREPLY[@]#"$rest"}")
    [[ "${COMPREPLY[0]}" == *= || "${COMPREPLY[0]}" == *. || "${COMPREPLY[0]}" == */ ]] && compopt -o nospace
    [[ ${#COMPREPLY[@]} -eq 0 && "$word" == *path=* ]] && COMPREPLY=($(compgen -f -- "${word#*=}"))
}
complete -F _hierarchos hierarchos
"""
ZSH = """\
#compdef hierarchos
_hierarchos() {
    local -a found
    found=("${(@f)$(hierarchos --complete "${words[2]}" "${words[CURRENT]}" 2>/dev/null)}")
    if [[ -z "$found" ]]; then
        [[ "${words[CURRENT]}" == *path=* ]] && compset -P '*=' && _files
        return
    fi
    compadd -S '' -- ${(M)found:#*[=./]}
    compadd -- ${found:#*[=./]}
}
if [[ "${funcstack[1]}" == _hierarchos ]]; then
    _hierarchos "$@"
else
    compdef _hierarchos hierarchos
fi
"""
FISH = """\
function __hierarchos_words
    set -l words (commandline -opc)
    hierarchos --complete "$words[2]" (commandline -ct) 2>/dev/null
end
complete -c hierarchos -f -a '(__hierarchos_words)'
complete -c hierarchos -n 'string match -q "*path=*" -- (commandline -ct)' -F
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def run(words: list[str]) -> int:
    """Prints the script of one shell."""
    _, names = take(words, names=True)
    if len(names) != 1 or names[0] not in SCRIPTS:
        given = names[0] if names else "nothing"
        raise UserError(f"which shell? {given} is none of {', '.join(SCRIPTS)}", where="command line", nearest=nearest(given, SCRIPTS),
                        command="hierarchos completion bash", outcome=None)
    print(SCRIPTS[names[0]], end="")
    return 0
