/*-------------------------------------------------------------------------
 *
 * shared_stress.c
 *	  Stress test of shared memory: the program.  See shared_stress.h.
 *
 *		shared_stress --library FILE --seconds N [--seed S] [--mutant NAME]
 *
 * It plays rounds of some hundred milliseconds for N seconds. Each begins with
 * new memory, and has faults first; after them all processes must come to
 * rest. The seed determines the actions of processes, but not their timing,
 * which differs in every run.
 *
 * The output is TAP, and errors go to standard error: reports of
 * ThreadSanitizer count as failures, too. With --mutant, the library is a
 * mutant, and must fail.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE

#include "shared_stress.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/threads.h"

#define MAX_BACKENDS 10
#define MAX_GENERATIONS 65536
#define MAX_PATH 1024

/* A wait of this length counts as endless. For a mutant this may be wrong. */
#define PATIENCE_MS 20000
#define MUTANT_PATIENCE_MS 3000

/* The rounds must reach all of them. */
static const char *const names[STRESS_N_COUNTS] = {
	[STRESS_N_GRANTS] = "nodes granted",
	[STRESS_N_PASSED] = "locks handed over",
	[STRESS_N_JOINED] = "readers that joined others",
	[STRESS_N_COMMITS] = "commits",
	[STRESS_N_REFUSED] = "commits refused for a lost lock",
	[STRESS_N_ASKED] = "commits that needed a confirmation",
	[STRESS_N_EXPIRED] = "waiters notified of their session's end",
	[STRESS_N_TIMEOUTS] = "deadlines",
	[STRESS_N_TRIES] = "tries refused",
	[STRESS_N_CANCELS] = "cancels",
	[STRESS_N_FULL] = "locks that found no room",
	[STRESS_N_ROOM_AWAITED] = "waits for room",
	[STRESS_N_UNFINISHED_AWAITED] = "waits for what was given up",
	[STRESS_N_OWN_SHARES] = "backends with a share of it",
	[STRESS_N_ROLE_SHARES] = "roles with a share of it",
	[STRESS_N_STALLED] = "attempts stalled",
	[STRESS_N_CONNECTIONS] = "connections of backends",
	[STRESS_N_EXITS_WAITING] = "backends that exited while they waited",
	[STRESS_N_EXITS_HOLDING] = "backends that exited while they held a lock",
	[STRESS_N_SIGNALS] = "statements cancelled",
	[STRESS_N_ROWS] = "claims read",
	[STRESS_N_SCANS] = "scans",
	[STRESS_N_RETIRED] = "sessions retired",
	[STRESS_N_DEATHS] = "workers gone",
	[STRESS_N_FLAGS_AWAITED] = "checks of commits that were waited for",
	[STRESS_N_RIVALS] = "nodes of other clients",
	[STRESS_N_ROBBED] = "granted nodes deleted by others",
	[STRESS_N_REVOKED] = "locks revoked"
};

StressPlan	stress_plan;

static const char *library;
static uint64_t seed;
static bool noisy;
static bool over;
static int	last_pid;
static __thread uint64_t random_state;

/* Written by the process that plays, read by the process that reports. */
static uint64_t *counts;

/* Holders of each path: shared ones, plus 65,536 for each exclusive one. */
#define WRITER 65536
static uint32_t holders[MAX_GENERATIONS][STRESS_PATHS];
static uint32_t committers[STRESS_PATHS];
static uint32_t deleted_in[STRESS_PATHS];
static uint32_t commits_in[SHIM_MAX_PROCESSES];
static int	connections;

const char *__tsan_default_options(void);

const char *
__tsan_default_options(void)
{
	return "exitcode=1:history_size=5";
}

static void
seed_thread(uint64_t number)
{
	/* splitmix64 */
	uint64_t	x = seed + number * UINT64_C(0x9E3779B97F4A7C15);

	x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
	random_state = (x ^ (x >> 31)) | 1;
}

unsigned
stress_random(unsigned n)
{
	/* xorshift64 */
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned) (((random_state >> 32) * n) >> 32);
}

bool
stress_percent(unsigned chance)
{
	return stress_random(100) < chance;
}

void
stress_count(StressCount which)
{
	__atomic_fetch_add(&counts[which], 1, __ATOMIC_RELAXED);
}

bool
stress_is_noisy(void)
{
	return __atomic_load_n(&noisy, __ATOMIC_RELAXED);
}

bool
stress_is_over(void)
{
	return __atomic_load_n(&over, __ATOMIC_RELAXED);
}

static bool
is_node_deleted(int path, ZkLockGeneration generation)
{
	return __atomic_load_n(&deleted_in[path], __ATOMIC_RELAXED) == generation;
}

static void
enter(uint32_t *word, int path, bool reads, ZkLockGeneration generation, const char *what)
{
	uint32_t	before = __atomic_fetch_add(word, reads ? 1 : WRITER,
											__ATOMIC_RELAXED);

	if ((reads ? before >= WRITER : before != 0) &&
		!is_node_deleted(path, generation))
		shim_fail("%s %c in generation %u beside %u exclusive and %u shared holders",
				  what, 'a' + path, generation, before / WRITER, before % WRITER);
}

void
stress_hold(int path, bool reads, ZkLockGeneration generation)
{
	enter(&holders[generation % MAX_GENERATIONS][path], path, reads, generation,
		  "holds");
}

void
stress_let_go(int path, bool reads, ZkLockGeneration generation)
{
	__atomic_fetch_sub(&holders[generation % MAX_GENERATIONS][path],
					   reads ? 1 : WRITER, __ATOMIC_RELAXED);
}

void
stress_commit(int procno, int path, bool reads, ZkLockGeneration generation)
{
	__atomic_store_n(&commits_in[procno], generation, __ATOMIC_RELAXED);
	enter(&committers[path], path, reads, generation, "commits under");
}

void
stress_committed(int procno, int path, bool reads, ZkLockGeneration generation)
{
	(void) generation;
	__atomic_fetch_sub(&committers[path], reads ? 1 : WRITER, __ATOMIC_RELAXED);
	__atomic_store_n(&commits_in[procno], 0, __ATOMIC_RELAXED);
}

void
stress_rob(int path, ZkLockGeneration generation)
{
	__atomic_store_n(&deleted_in[path], generation, __ATOMIC_RELAXED);
}

void
stress_connect(int limit)
{
	if (__atomic_fetch_add(&connections, 1, __ATOMIC_RELAXED) >= limit)
		shim_fail("there are more than %d connections", limit);
}

void
stress_disconnect(void)
{
	__atomic_fetch_sub(&connections, 1, __ATOMIC_RELAXED);
}

void
stress_check_close(ZkLockGeneration generation)
{
	for (int i = 0; i < SHIM_MAX_PROCESSES; i++)
	{
		uint32_t	in = __atomic_load_n(&commits_in[i], __ATOMIC_RELAXED);

		if (in != 0 && in <= generation)
			shim_fail("the session of generation %u is closed while process %d commits in generation %u",
					  generation, i, in);
	}
}

typedef struct Role
{
	const char *function;
	int			procno;
	uint64_t	number;			/* of its draws */
} Role;

/* The processes that succeed one another in one role */
static void *
run_processes(void *arg)
{
	const Role *role = arg;
	char		copy[MAX_PATH];
	bool		again;

	snprintf(copy, sizeof(copy), "%s.%d", library, role->procno);
	seed_thread(role->number);
	shim_threads_enter(role->procno, random_state);
	do
	{
		void	   *loaded = shim_threads_load(copy);
		StressMain	run = (StressMain) shim_threads_find(loaded, role->function);
		int			pid = __atomic_add_fetch(&last_pid, 1, __ATOMIC_RELAXED);

		shim_threads_set_pid(pid);
		again = run(role->procno, pid);
		shim_threads_set_pid(0);
		shim_threads_unload(loaded);
	} while (again);
	shim_threads_exit();
	return NULL;
}

/* A thread that does not end cannot be stopped: the whole program exits. */
static void
join(pthread_t thread, const Role *role)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	for (int s = 0; s < 3 * PATIENCE_MS / 1000; s++)
	{
		until.tv_sec++;
		if (pthread_timedjoin_np(thread, NULL, &until) == 0)
			return;
		if (shim_threads_nfailures() > 0)
			_exit(1);
	}
	fprintf(stderr, "process %d (%s) does not end\n", role->procno,
			role->function);
	_exit(1);
}

static void
draw_plan(int patience)
{
	stress_plan.nbackends = 2 + (int) stress_random(MAX_BACKENDS - 1);
	stress_plan.nprocesses = stress_plan.nbackends + 2;
	stress_plan.max_locks = stress_percent(30) ? 4 : stress_percent(50) ? 24 : 80;
	stress_plan.handover = stress_percent(80) ? 3 : 1000;
	stress_plan.gates = stress_percent(80);
	stress_plan.session_life = stress_percent(30) ? 1000 : 2 + (int) stress_random(60);
	stress_plan.scans = stress_percent(60);
	stress_plan.connects = stress_percent(20) ? 80 : 3;
	stress_plan.patience = patience;
}

static void
play_round(uint64_t round, int patience)
{
	pthread_t	threads[SHIM_MAX_PROCESSES];
	Role		roles[SHIM_MAX_PROCESSES];

	seed_thread(round * SHIM_MAX_PROCESSES);
	draw_plan(patience);
	shim_threads_reset();
	memset(holders, 0, sizeof(holders));
	memset(deleted_in, 0, sizeof(deleted_in));
	noisy = true;
	over = false;
	for (int i = 0; i < stress_plan.nprocesses; i++)
	{
		roles[i].procno = i;
		roles[i].number = round * SHIM_MAX_PROCESSES + i + 1;
		roles[i].function = i < stress_plan.nbackends ? "stress_backend_main" :
			i == stress_plan.nbackends ? "stress_worker_main" :
			"stress_viewer_main";
		pthread_create(&threads[i], NULL, run_processes, &roles[i]);
	}
	shim_sleep(100000 + stress_random(300000));
	__atomic_store_n(&noisy, false, __ATOMIC_RELAXED);
	for (int i = 0; i < stress_plan.nbackends; i++)
		join(threads[i], &roles[i]);
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	for (int i = stress_plan.nbackends; i < stress_plan.nprocesses; i++)
		join(threads[i], &roles[i]);
}

/*
 * Each process must have its own static variables: with links it would be one
 * file.
 */
static void
copy_library(void)
{
	for (int i = 0; i < SHIM_MAX_PROCESSES; i++)
	{
		char		command[3 * MAX_PATH];

		snprintf(command, sizeof(command), "cp '%s' '%s.%d'", library, library, i);
		if (i < MAX_BACKENDS + 2 && system(command) != 0)
			exit(2);
	}
}

static bool
is_all_reached(void)
{
	for (int i = 0; i < STRESS_N_COUNTS; i++)
	{
		if (counts[i] == 0)
			return false;
	}
	return true;
}

/* A busy machine gets more time to reach all events. */
static void
play(int seconds, int patience)
{
	int64_t		length = seconds * INT64_C(1000000000);
	int64_t		begin = shim_now();

	for (uint64_t round = 0;
		 shim_threads_nfailures() == 0 &&
		 (shim_now() - begin < length ||
		  (shim_now() - begin < 30 * length && !is_all_reached())); round++)
		play_round(round, patience);
	exit(shim_threads_nfailures() > 0);
}

static void
report(int status, int seconds, const char *mutant)
{
	const char *how = WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) :
		WEXITSTATUS(status) != 0 ? "what standard error says" : NULL;
	int			test = 1;

	/*
	 * A library that cannot be loaded is neither correct nor a mutant that is
	 * caught.
	 */
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
	{
		printf("Bail out! %s could not be played\n", library);
		exit(2);
	}
	if (mutant != NULL)
	{
		printf("1..1\n%sok 1 - mutant %s %s%s (seed %" PRIu64 ")\n",
			   how == NULL ? "not " : "", mutant,
			   how == NULL ? "survives" : "is caught by ",
			   how == NULL ? "" : how, seed);
		exit(how == NULL);
	}
	printf("1..%d\n%sok 1 - %d s of processes that share, seed %" PRIu64 "%s%s\n",
		   1 + STRESS_N_COUNTS, how == NULL ? "" : "not ", seconds, seed,
		   how == NULL ? "" : ": ended by ", how == NULL ? "" : how);
	for (int i = 0; i < STRESS_N_COUNTS; i++)
	{
		printf("%sok %d - reached: %s (%" PRIu64 ")\n",
			   counts[i] > 0 ? "" : "not ", ++test, names[i], counts[i]);
		if (counts[i] == 0)
			how = names[i];
	}
	exit(how != NULL);
}

int
main(int argc, char **argv)
{
	const char *mutant = NULL;
	int			seconds = 0;
	int			status;
	pid_t		player;

	seed = (uint64_t) time(NULL);
	for (int i = 1; i + 1 < argc; i += 2)
	{
		if (strcmp(argv[i], "--library") == 0)
			library = argv[i + 1];
		else if (strcmp(argv[i], "--seconds") == 0)
			seconds = atoi(argv[i + 1]);
		else if (strcmp(argv[i], "--seed") == 0)
			seed = strtoull(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--mutant") == 0)
			mutant = argv[i + 1];
	}
	if (library == NULL || seconds <= 0)
	{
		fprintf(stderr, "usage: %s --library FILE --seconds N [--seed S] [--mutant NAME]\n",
				argv[0]);
		return 2;
	}
	copy_library();
	counts = mmap(NULL, STRESS_N_COUNTS * sizeof(*counts), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	/* A crash is reported as a failure, too. */
	player = fork();
	if (player == 0)
		play(seconds, mutant != NULL ? MUTANT_PATIENCE_MS : PATIENCE_MS);
	if (player < 0 || waitpid(player, &status, 0) < 0)
		return 2;
	report(status, seconds, mutant);
}
