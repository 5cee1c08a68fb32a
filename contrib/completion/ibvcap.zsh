
_ibvcap() {
	local line
	for line in "${(@f)$(_ibvcap_complete "${(@)words[1,CURRENT]}")}"; do
		case $line in
		@files) _files ;;
		*=) compadd -S '' -- "$line" ;;
		?*) compadd -- "$line" ;;
		esac
	done
}
_ibvcap "$@"
