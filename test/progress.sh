# A sign of life of long commands. For scripts that source this:
#
#	begin_progress WHAT [LOG TOTAL]
#	end_progress
#
# Between the two, a terminal shows WHAT and the time that has passed, in a line that is
# drawn again each second and erased at the end. Without a terminal, it is a line a minute.
# If LOG has what prove prints about TOTAL files, the line has their number, how many have
# failed, and an estimate of the rest of the time.

ticker=

begin_progress()
{
	tick "$@" &
	ticker=$!
}

end_progress()
{
	[ -n "$ticker" ] || return 0
	kill "$ticker" 2>/dev/null || true
	wait "$ticker" 2>/dev/null || true
	ticker=
	erase_progress
}

erase_progress()
{
	[ ! -t 1 ] || printf '\r\033[K'
}

tick()
{
	passed=0
	began=$(date +%s)
	interval=60
	[ ! -t 1 ] || interval=1
	while sleep 1 >/dev/null 2>&1 && kill -s 0 $$ 2>/dev/null
	do
		now=$(($(date +%s) - began))
		[ $((now / interval)) != $((passed / interval)) ] || continue
		passed=$now
		if [ -t 1 ]
		then
			printf '\r\033[K%s\r' "$(progress "$@")"
		else
			progress "$@"
		fi
	done
}

# Prints the line. Before the first file is done, nothing can be estimated.
progress()
{
	counts=
	if [ $# = 3 ]
	then
		counts=$(awk -v total="$3" -v passed="$passed" '
			/^[^ ]+ \.\.+ / { n++; failed += !/ (ok|skipped: .*)$/ }
			END {
				printf "%d of %d files, %d failed, ", n, total, failed
				rest = n ? passed * (total - n) / n : 0
				if (n)
					printf "about %d:%02d left, ", rest / 60, rest % 60
			}' "$2")
	fi
	printf '%s: %s%d:%02d\n' "$1" "$counts" $((passed / 60)) $((passed % 60))
}
