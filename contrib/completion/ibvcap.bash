
_ibvcap() {
	local words current before line
	# By blanks alone: COMP_WORDS would be cut at '=', too, and so the replies are what follows the last '='.
	read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
	[[ ${COMP_LINE:0:COMP_POINT} == *[[:blank:]] ]] && words+=('')
	current=${words[-1]}
	before=
	[[ $COMP_WORDBREAKS == *=* ]] && before=${current%"${current##*=}"}
	COMPREPLY=()
	while IFS= read -r line; do
		if [[ $line == @files ]]; then
			compopt -o filenames 2>/dev/null
			while IFS= read -r line; do
				COMPREPLY+=("$line")
			done < <(compgen -f -- "$current")
		elif [[ $line == "$current"* ]]; then
			[[ $line == *= ]] && compopt -o nospace 2>/dev/null
			COMPREPLY+=("${line#"$before"}")
		fi
	done < <(_ibvcap_complete "${words[@]}")
}
complete -F _ibvcap ibvcap
