# New installations of Debian and Ubuntu to run commands in.
#
# The script that sources this at its end has set -eu, and $all: the names that it
# can be given, of which none means all. Its function "play" is called with each.

# Makes $root: the release, with the sources in /zklock. $arch may be set to an architecture.
install()
{
	rm -rf "$root"
	mkdir "$root"
	name=$1${arch:+-$arch}
	if [ -f "$kept/$name.tar" ]
	then
		tar -C "$root" -xf "$kept/$name.tar"
	else
		if [ "$1" = noble ]
		then
			# An older debootstrap does not know it, but that all Ubuntus are alike.
			debootstrap --variant=minbase --components=main,universe \
				noble "$root" "$ubuntu_mirror" gutsy
		else
			debootstrap --variant=minbase ${arch:+--arch="$arch"} "$1" "$root" "$mirror"
		fi
		tar -C "$root" -cf "$kept/$name.tar" .
	fi
	cp -L /etc/resolv.conf "$root/etc/resolv.conf"
	echo '127.0.0.1 localhost' >"$root/etc/hosts"

	# Use this machine's network configuration. The mirror may be a snapshot
	# with an old date.
	{
		apt-config dump | grep -E '^Acquire::(https?|Retries|ForceIP)' || true
		echo 'Acquire::Check-Valid-Until "false";'
	} >"$root/etc/apt/apt.conf.d/zklock"

	# These installations need not survive a crash of the machine.
	echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/zklock"

	mkdir "$root/zklock"
	tar -C "$top" --exclude=.git -cf - . | tar -C "$root/zklock" -xf -
}

# Runs commands in $root. It is the root of a mount namespace and not just
# changed to, since in the latter case the kernel grants no user namespaces,
# which the network tests need.
inside()
{
	unshare --mount --pid --fork --kill-child sh -euc '
		cd "$1"
		mount --bind . .
		cd "$1"
		mount -t proc proc proc
		mount --rbind /sys sys
		mount --rbind /dev dev
		mount -t tmpfs tmpfs dev/shm
		pivot_root . mnt
		exec chroot . sh -euc "
			umount -l /mnt
			export HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
			unset TMPDIR
			cd /zklock
			apt-get -qq update
			$2"
	' sh "$root" "$1" </dev/null &
	child=$!
	status=0
	wait $child || status=$?
	child=
	return $status
}

finish()
{
	if [ -n "$child" ]
	then
		kill -KILL "$child"
		wait "$child" || true
	fi
	rm -rf "$tmp"
}

[ "$(id -u)" = 0 ] || exec sudo --preserve-env=MIRROR,UBUNTU_MIRROR,CHROOTS "$0" "$@"
PATH=$PATH:/usr/sbin:/sbin
command -v debootstrap >/dev/null ||
	{ echo "$0 needs debootstrap." >&2; exit 1; }

[ $# != 0 ] || set -- $all
if [ $# != 1 ]
then
	failed=
	for name in "$@"
	do
		"$0" "$name" || failed="$failed $name"
	done
	echo "=== ${failed:+FAILED:}${failed:-all passed}"
	[ -z "$failed" ]
	exit
fi

top=$(cd "$(dirname "$0")/.." && pwd)
unset PG_CONFIG ZOOKEEPER_CLASSPATH
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' \
	'Created-By: Packages' 'Label: Debian' 2>/dev/null | head -n 1)}
: "${mirror:=http://deb.debian.org/debian}"
ubuntu_mirror=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}
child=
arch=
tmp=$(mktemp -d /var/tmp/zklock-chroot-XXXXXX)
trap finish EXIT
trap 'exit 1' HUP INT TERM
root=$tmp/root
kept=${CHROOTS:-$tmp}

echo "=== $1"
play "$1"
