# shellcheck shell=bash
# Completion of kubectl-flex for bash, which needs nothing beside bash 4.

_kubectl_flex() {
	# What was typed is asked for as it stands: bash has cut it at = and :, too.
	local line=${COMP_LINE:0:COMP_POINT} word=${COMP_WORDS[COMP_CWORD]} output directive
	local -a typed found
	read -ra typed <<< "$line"
	if [[ $line == *[[:space:]] ]]; then typed+=(""); fi
	if [[ $word == = ]]; then word=; fi
	output=$("${typed[0]}" __complete "${typed[@]:1}" 2> /dev/null) || return
	# The answer is a line for each candidate, which ends with what it is after a tab, and then ":" with the sum of these: 1 is an error,
	# 2 wants no space after it, 4 no files in its place.
	directive=${output##*:}
	if ((directive & 1)); then return; fi
	if ((directive & 2)); then compopt -o nospace; fi
	if ((directive & 4)); then compopt +o default; fi
	mapfile -t found < <(cut -f 1 <<< "${output%:*}")
	mapfile -t COMPREPLY < <(compgen -W "${found[*]}" -- "$word")
}

complete -o default -F _kubectl_flex kubectl-flex
