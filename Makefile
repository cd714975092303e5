# zklock: locks in ZooKeeper for PostgreSQL
#
#   make, make install     build and install (PGXS)
#   make installcheck      test against a running server and ZooKeeper
#   make test              install what is missing, build, run the tests
#   make moretests         run what make test leaves out to end in about ten minutes
#   make quickcheck        run a part of the tests that takes about a minute
#   make sandbox           psql on one of two servers with zklock, and a ZooKeeper
#   make demo              the last piece and the flash sale, from start to finish
#   make chroots           test, sandbox and demo in new installations of Debian and
#                          Ubuntu, the tests with PostgreSQL 14 and 19, quickcheck on
#                          i386, and programs
#   make package           build a .deb and the archive for PGXN, and install them in
#                          new installations of Debian
#   make dist              build the archive for PGXN
#   make volume            build VOLUME, a directory for PostgreSQL 18's
#                          extension_control_path, with ZooKeeper's client in it
#   make bench             compare the speed of zklock, Curator, kazoo, go-zookeeper, a
#                          minimal C client, and advisory locks
#   make unit              the unit tests and simulations only
#   make soak              two servers under load while faults are injected
#   make reservations      the reservation of docs/longer-locks.md under load
#   make failover          two servers under Patroni, with faults of the primary
#   make replicas          what holders of a lock read on a standby
#   make losses            holders that ZooKeeper has just given up: do they commit, and
#                          when are they told
#   make programs          unchanged programs on two servers
#   make upgrade           releases 1.0.0 and 1.1.0 are updated, and share locks with this tree
#   make sanitize          the tests under AddressSanitizer and UBSan
#   make assertions        the tests with a PostgreSQL that has assertions
#   make simulate          more schedules of whole servers than the tests play
#   make exhaust           all schedules of short scenarios that differ from the default
#                          one in one place
#   make fuzz              hostile paths, names and settings, and random statements
#   make indent            format the C files (with pgindent, in PostgreSQL 17 and 18)
#   make pictures          draw the pictures of the documentation (Graphviz)

# The directory of the sources, for a build in another directory:
# make -f DIR/Makefile VPATH=DIR
here = $(if $(VPATH),$(VPATH)/)

EXTENSION = zklock zklock_advisory
DATA = sql/zklock--1.0.sql sql/zklock--1.0--1.2.sql sql/zklock_advisory--1.0.sql \
	sql/zklock_advisory--1.1.sql sql/zklock_advisory--1.0--1.1.sql sql/zklock_advisory--1.1--1.2.sql
MODULE_big = zklock
OBJS = $(patsubst $(here)%.c,%.o,$(sort $(wildcard $(here)src/*/*.c)))
PGFILEDESC = "zklock - locks in ZooKeeper"

# The test "extension" creates the extension, so it runs first.
REGRESS = extension $(filter-out extension, \
	$(basename $(notdir $(sort $(wildcard $(here)test/sql/*.sql)))))
REGRESS_OPTS = --inputdir=$(here)test
ISOLATION_OPTS = --inputdir=$(here)test --outputdir=.
PROVE_TESTS ?= test/t/*.pl

SHLIB_LINK = -lzookeeper_mt -lpthread -lrt
EXTRA_CLEAN = regression.* results output_iso tmp_check tmp_check_iso log \
	test/unit/build bench-results volume

# Check the requirements of the build, to report all that are missing.  On Debian, PGXS
# and pg_config are in packages without the headers.
PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)

ISOLATION = $(basename $(notdir $(sort $(wildcard $(here)test/specs/*.spec))))
POSTGRES_H := $(wildcard $(shell $(PG_CONFIG) --includedir-server 2>/dev/null)/postgres.h)
ZOOKEEPER_H := $(shell printf '\043include <zookeeper/zookeeper.h>\n' | \
	$(CC) $(CPPFLAGS) -E -x c - 2>/dev/null | \
	grep -o -m 1 zoo_set_servers_resolution_delay)

# -isystem suppresses warnings about PostgreSQL's headers.
PG_CPPFLAGS = -I$(here)src -isystem $(shell $(PG_CONFIG) --includedir-server 2>/dev/null)

# If PostgreSQL has assertions, so have the folders that do not include its headers.
PG_CPPFLAGS += $(shell printf '\043include <pg_config.h>\n' | \
	$(CC) -isystem '$(dir $(POSTGRES_H))' -E -dM -x c - 2>/dev/null | \
	sed -n 's/^.define \(USE_ASSERT_CHECKING\) \(.*\)/-D\1=\2/p')

ifneq ($(and $(wildcard $(PGXS)),$(POSTGRES_H),$(ZOOKEEPER_H)),)
# The TAP tests need much more than a server.  If something is missing, make reports it
# and omits these tests.
ifeq ($(origin TAP_TESTS) $(filter installcheck,$(MAKECMDGOALS)),undefined installcheck)
TAP_TESTS := $(shell PG_CONFIG='$(PG_CONFIG)' '$(here)test/setup' look && echo 1)
endif

include $(PGXS)
PROVE_FLAGS += -I test/perl

ifdef VPATH
# Directories that the compiler and pg_regress expect in the build directory
FOLDERS = $(addprefix $(CURDIR)/,$(sort $(dir $(OBJS))))
$(OBJS) $(OBJS:.o=.bc): | $(FOLDERS)
$(FOLDERS):
	@mkdir -p $@
installcheck: $(CURDIR)/expected
$(CURDIR)/expected:
	@ln -s $(abspath $(VPATH))/expected $@
endif
else
.PHONY: all install installcheck clean
all install installcheck clean:
ifeq ($(and $(wildcard $(PGXS)),$(POSTGRES_H)),)
	@echo "zklock needs PostgreSQL's server headers, found through $(PG_CONFIG)." >&2
	@'$(PG_CONFIG)' --version >/dev/null 2>&1 || \
		echo "  $(PG_CONFIG) cannot be run." >&2
	@echo "  Debian, Ubuntu: apt-get install postgresql-server-dev-all" >&2
	@echo "  elsewhere:      the -devel package of PostgreSQL 14 or later, PG_CONFIG=/path/to/pg_config" >&2
endif
ifeq ($(ZOOKEEPER_H),)
	@echo "zklock needs the C client library of ZooKeeper, libzookeeper_mt, 3.7 or later." >&2
	@echo "  Debian, Ubuntu: apt-get install libzookeeper-mt-dev" >&2
endif
	@exit 1
endif

# The archive of the current commit, in PGXN's format
DISTVERSION = $(shell sed -n 's/^    "version": "\(.*\)",/\1/p' '$(here)META.json')
DIST ?= zklock-$(DISTVERSION).zip

# The library of a volume looks for ZooKeeper's client beside itself first; the others are
# linked again.
VOLUME ?= $(CURDIR)/volume
volume:
	@rm -f zklock.so
	@$(MAKE) --no-print-directory -f '$(firstword $(MAKEFILE_LIST))' all \
		SHLIB_LINK="$(SHLIB_LINK) -Wl,-rpath,'\$$\$$ORIGIN'"
	@mkdir -p '$(VOLUME)/lib' '$(VOLUME)/share/extension'
	install -m 755 zklock.so '$(VOLUME)/lib'
	install -m 644 "$$(ldd zklock.so | sed -n 's/.*libzookeeper_mt.* => \(.*\) (.*/\1/p')" \
		'$(VOLUME)/lib'
	install -m 644 $(addprefix $(here),$(EXTENSION:=.control) $(DATA)) \
		'$(VOLUME)/share/extension'
	@rm -f zklock.so

.PHONY: test moretests quickcheck chroots package dist volume sandbox demo bench soak sanitize fuzz unit
.PHONY: simulate exhaust assertions indent pictures reservations failover losses replicas programs upgrade
test:
	@test/run

moretests:
	@LEFT_OUT=only test/run

# Not "check", which PGXS has, and which says that there is no such thing.
QUICK = backend/regression gate/regression backend/isolation \
	backend/003_layers.pl backend/004_messages.pl backend/005_links.pl \
	backend/006_test_results.pl backend/031_node_data.pl backend/011_two_servers.pl \
	gate/030_modes.pl backend/037_views.pl gate/034_revocation.pl \
	backend/036_refused_requests.pl backend/050_shared_nodes.pl gate/033_semaphore_counts.pl \
	backend/035_deleted_nodes.pl
quickcheck:
	@UNIT=quick TESTS='$(QUICK)' test/run

chroots:
	@test/chroots

package:
	@test/package

dist:
	git archive --format=zip --prefix=zklock-$(DISTVERSION)/ --output='$(DIST)' HEAD

sandbox:
	@test/setup sandbox
	@test/sandbox/run

demo bench:
	@test/setup $@
	@test/$@/run

soak upgrade:
	@test/setup sandbox
	@test/$@/run

reservations losses replicas:
	@test/setup test
	@test/$@/run

failover programs:
	@test/setup $@
	@test/$@/run

sanitize assertions:
	@test/$@

fuzz:
	@test/setup test
	@$(MAKE) --no-print-directory -C test/unit fuzz
	@test/fuzz/run

unit:
	@$(MAKE) --no-print-directory -C test/unit check

simulate:
	@$(MAKE) --no-print-directory -C test/unit simulate

exhaust:
	@$(MAKE) --no-print-directory -j2 -C test/unit exhaust

indent:
	@test/indent

pictures: $(patsubst %.dot,%.svg,$(wildcard $(here)docs/pictures/*.dot))
$(here)docs/pictures/%.svg: $(here)docs/pictures/%.dot
	dot -Tsvg -o $@ $<
