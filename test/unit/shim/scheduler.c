/*-------------------------------------------------------------------------
 *
 * scheduler.c
 *	  Processes that take turns on one thread.  See scheduler.h.
 *
 *-------------------------------------------------------------------------
 */
#include "shim/scheduler.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <ucontext.h>
#include <unistd.h>

#include "server_choice.h"
#include "server_sim.h"
#include "shim/backend.h"
#include "sim.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define POISON(p, size) ASAN_POISON_MEMORY_REGION(p, size)
#define UNPOISON(p, size) ASAN_UNPOISON_MEMORY_REGION(p, size)
#else
#define POISON(p, size) ((void) (p), (void) (size))
#define UNPOISON(p, size) ((void) (p), (void) (size))
#endif

#define STACK_SIZE (256 * 1024)
#define MAX_AREAS 88
#define MAX_SIGNALS 64
#define MAX_TIMERS 2			/* of a process */
#define RED_ZONE 64
#define RED 0xA5
#define MAX_POINTS 3000000

typedef ElfW(Phdr)
Phdr;

/* A place on a stack */
#ifdef __SANITIZE_ADDRESS__
typedef ucontext_t Context;
#else
typedef jmp_buf Context;
#endif

typedef enum State
{
	ABSENT,
	READY,
	WAITS,						/* for its latch, or to be rung */
	SLEEPS,
	BLOCKED						/* by a lock */
} State;

typedef struct Process
{
	/* of its place, for good */
	void	   *library;
	char	   *data;			/* its variables, and what they were at first */
	char	   *snapshot;
	size_t		size;
	char	   *stack;

	/* of the process */
	State		state;
	int			server;
	int			procno;
	int			pid;
	void		(*main) (int procno, int pid);
	bool		started;
	Context		context;
	void	   *fake_stack;
	bool		latch;
	bool		rung;
	bool		listens;
	int64_t		until;			/* WAITS, SLEEPS */
	const void *lock;			/* BLOCKED */
	int64_t		stopped_until;
	int64_t		timer[MAX_TIMERS];	/* when they expire; 0: not */
	int			timer_signal[MAX_TIMERS];
	uint64_t	signals;		/* a bit for each that has not been handled
								 * yet */
	void		(*handler[MAX_SIGNALS]) (int signal);
	bool		handles;
	bool		ready;			/* it has begun, and gets signals */
	int			nlwlocks;
	char	   *last_lwlock;	/* the last one that was acquired */
	int			nspinlocks;
	int64_t		locked_at;		/* when it got its last LWLock */
	int			trap_wakes;		/* wake-ups and points until it is trapped */
	int			trap_points;	/* 0: it is not */
} Process;

typedef struct Area
{
	int			server;			/* -1: not in use */
	char		name[32];
	size_t		size;
	size_t		room;
	char	   *memory;			/* with a red zone on both sides */
} Area;

/* An LWLock, in memory that was all zero */
typedef struct Lock
{
	int16_t		exclusive;
	int16_t		shared;
} Lock;

static const ShimWorld *world;
static Process processes[SHIM_MAX_PROCESSES];
static Area areas[MAX_AREAS];
static Process *current;
static Context scheduler;
#ifdef __SANITIZE_ADDRESS__
static void *scheduler_fake_stack;
static const void *scheduler_stack;
static size_t scheduler_stack_size;
#endif
static uint64_t npoints;
static int	left;				/* points until the next switch */
static int	pace;
static int	drift;
static const Process *slow;		/* NULL: none */
static int	slowness;
static int	last_pid;
static const char *library_path;

/*
 * Of a schedule of choices.  Actors are processes, and then those of the world.
 */
static int	last;				/* the process that ran last */
static int	held;				/* an actor that comes after all others; -1:
								 * none */
static bool held_longer;		/* and after time has passed */
static uint32_t chosen;			/* in the middle of a process; 0: nothing is */

static void
trace_process(const Process *p, const char *text)
{
	sim_print("%10.3f ms  s%d p%d (%d)  %s", (double) (sim.now - SERVER_BEGIN) / 1e6,
			  p->server, p->procno, p->pid, text);
}

/* What the address is in the sources; "": nothing of them. */
static const char *
describe_address(void *address)
{
	static struct
	{
		void	   *address;
		char		text[120];
	}			known[4096];
	static int	nknown = 0;
	char		command[600];
	char		function[80] = "";
	char		place[200] = "";
	Dl_info		info;
	FILE	   *pipe;
	char	   *src;

	for (int i = 0; i < nknown; i++)
		if (known[i].address == address)
			return known[i].text;
	if (nknown == 4096 || dladdr(address, &info) == 0)
		return "";
	known[nknown].address = address;
	snprintf(command, sizeof(command), "addr2line -fe '%s' %#tx", library_path,
			 (char *) address - 1 - (char *) info.dli_fbase);
	pipe = popen(command, "r");
	if (pipe != NULL && fgets(function, sizeof(function), pipe) != NULL &&
		fgets(place, sizeof(place), pipe) != NULL &&
		(src = strstr(place, "/src/")) != NULL)
	{
		function[strcspn(function, "\n")] = '\0';
		place[strcspn(place, " \n")] = '\0';
		snprintf(known[nknown].text, sizeof(known[nknown].text), "%s() %s",
				 function, src + 1);
	}
	if (pipe != NULL)
		pclose(pipe);
	return known[nknown++].text;
}

/* Where the process is, in the sources. */
static void
trace_call(const char *what)
{
	void	   *frames[16];
	char		text[200];
	int			n;
	int			i;

	if (!sim.verbose || current == NULL)
		return;
	n = backtrace(frames, 16);
	for (i = 1; i < n && describe_address(frames[i])[0] == '\0'; i++)
		;
	snprintf(text, sizeof(text), "  %s  %s", what,
			 i < n ? describe_address(frames[i]) : "");
	trace_process(current, text);
}

void
shim_trace(const char *fmt,...)
{
	char		text[1024];
	va_list		args;

	if (!sim.verbose)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (current != NULL)
		trace_process(current, text);
	else
		sim_print("%10.3f ms  %s", (double) (sim.now - SERVER_BEGIN) / 1e6, text);
}

bool
shim_is_traced(void)
{
	return sim.verbose;
}

/* Of a failed assertion; its arguments are not the same in all versions. */
void		ExceptionalCondition(const char *condition, const char *what,...);

static void yield(void);

void
shim_scheduler_give_up(void)
{
	while (current != NULL)
		yield();
}

void
ExceptionalCondition(const char *condition, const char *what,...)
{
	sim_breach(SERVER_SOUND, "assertion failed: %s (%s)", condition, what);
	shim_scheduler_give_up();
	abort();
}

void
shim_fail(const char *fmt,...)
{
	char		text[200];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (current != NULL)
		sim_breach(SERVER_SOUND, "process %d: %s", current->pid, text);
	else
		sim_breach(SERVER_SOUND, "%s", text);
	trace_call(text);
	shim_scheduler_give_up();
}

/*
 * Copies of the library.
 */

static int
find_data(struct dl_phdr_info *info, size_t size, void *arg)
{
	Process    *p = arg;

	ElfW(Addr) relro = 0;
	struct link_map *map;

	(void) size;
	if (dlinfo(p->library, RTLD_DI_LINKMAP, &map) != 0 ||
		map->l_addr != info->dlpi_addr)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		const Phdr *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_GNU_RELRO)
			relro = header->p_vaddr + header->p_memsz;
	}
	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		const Phdr *header = &info->dlpi_phdr[i];

		ElfW(Addr) begin = header->p_vaddr;
		ElfW(Addr) end = header->p_vaddr + header->p_memsz;

		if (header->p_type != PT_LOAD || !(header->p_flags & PF_W))
			continue;
		if (relro > begin && relro <= end)
			begin = relro;
		p->data = (char *) info->dlpi_addr + begin;
		p->size = end - begin;
	}
	return 1;
}

/* Between the variables there is what AddressSanitizer lets nobody read. */
#ifdef __SANITIZE_ADDRESS__
__attribute__((no_sanitize("address")))
static void
copy_data(char *to, const char *from, size_t size)
{
	volatile char *out = to;

	while (size-- > 0)
		*out++ = *from++;
}
#else
#define copy_data(to, from, size) memcpy(to, from, size)
#endif

static void
load(Process *p, const char *library)
{
	char		copy[] = "/tmp/zklock-sim-XXXXXX";
	int			from = open(library, O_RDONLY);
	int			to = mkstemp(copy);
	ssize_t		copied;

	/* The dynamic loader takes links to one file for one library. */
	while ((copied = sendfile(to, from, NULL, 1 << 30)) > 0)
		;
	if (copied < 0)
		exit(2);
	close(from);
	close(to);
	p->library = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
	if (p->library == NULL)
	{
		printf("Bail out! %s\n", dlerror());
		exit(2);
	}
	unlink(copy);
	dl_iterate_phdr(find_data, p);
	p->snapshot = malloc(p->size);
	copy_data(p->snapshot, p->data, p->size);
	p->stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p->stack == MAP_FAILED)
		exit(2);
}

/*
 * Switches.  AddressSanitizer has to be told of the stacks, and knows longjmp() only
 * within one of them; the other way has system calls.
 */
#ifdef __SANITIZE_ADDRESS__
#define JUMP_TO_SCHEDULER() setcontext(&scheduler)
#else
#define JUMP_TO_SCHEDULER() _longjmp(scheduler, 1)
#endif

static void
arrive(Process *p)
{
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_finish_switch_fiber(p->started ? p->fake_stack : NULL,
									&scheduler_stack, &scheduler_stack_size);
#else
	(void) p;
#endif
}

static void
yield(void)
{
	Process    *p = current;

#ifdef __SANITIZE_ADDRESS__
	__sanitizer_start_switch_fiber(&p->fake_stack, scheduler_stack,
								   scheduler_stack_size);
	swapcontext(&p->context, &scheduler);
#else
	if (_setjmp(p->context) == 0)
		_longjmp(scheduler, 1);
#endif
	arrive(p);
}

/* The stack is not used any more. */
static void
go_for_good(void)
{
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_start_switch_fiber(NULL, scheduler_stack, scheduler_stack_size);
#endif
	JUMP_TO_SCHEDULER();
}

#ifndef __SANITIZE_ADDRESS__
/* A process has followed a pointer to nowhere: that is a breach like others. */
static void
on_crash(int signal)
{
	if (current == NULL)
		_exit(128 + signal);
	sim_breach(SERVER_SOUND, "process %d crashes with signal %d", current->pid, signal);
	trace_call("crashes");
	go_for_good();
}

static void
catch_crashes(void)
{
	stack_t		stack = {.ss_sp = malloc(STACK_SIZE),.ss_size = STACK_SIZE};
	struct sigaction action = {
		.sa_handler = on_crash,.sa_flags = SA_ONSTACK | SA_NODEFER
	};

	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGFPE, &action, NULL);
}
#endif

void
shim_scheduler_load(const char *library)
{
#ifndef __SANITIZE_ADDRESS__
	catch_crashes();
#endif
	library_path = library;
	for (int i = 0; i < SERVER_MAX_PLACES; i++)
		load(&processes[i], library);
}

void *
shim_scheduler_find(int process, const char *name)
{
	void	   *found = dlsym(processes[process].library, name);

	if (found == NULL)
	{
		printf("Bail out! there is no %s\n", name);
		exit(2);
	}
	return found;
}

/*
 * Turns.
 */

static void
begin_process(void)
{
	arrive(current);
	current->started = true;
	current->main(current->procno, current->pid);
	shim_exit(0);
}

/* Where a new process begins */
static void
make_context(Process *p, ucontext_t *context)
{
	getcontext(context);
	context->uc_stack.ss_sp = p->stack;
	context->uc_stack.ss_size = STACK_SIZE;
	context->uc_link = NULL;
	makecontext(context, begin_process, 0);
}

static void
run(Process *p)
{
	left = p == slow || server_choice_is_on() ? 0 : 1 + (int) sim_random(2 * pace);
	current = p;
#ifdef __SANITIZE_ADDRESS__
	if (!p->started)
		make_context(p, &p->context);
	__sanitizer_start_switch_fiber(&scheduler_fake_stack, p->stack, STACK_SIZE);
	swapcontext(&scheduler, &p->context);
	__sanitizer_finish_switch_fiber(scheduler_fake_stack, NULL, NULL);
#else
	if (_setjmp(scheduler) == 0)
	{
		ucontext_t	context;

		if (p->started)
			_longjmp(p->context, 1);
		make_context(p, &context);
		setcontext(&context);
	}
#endif
	current = NULL;
}

static void
handle_signals(Process *p)
{
	if (p->handles)
		return;
	p->handles = true;
	for (int i = 0; p->signals != 0 && i < MAX_SIGNALS; i++)
	{
		if ((p->signals & (UINT64_C(1) << i)) == 0)
			continue;
		p->signals &= ~(UINT64_C(1) << i);
		if (p->handler[i] != NULL)
			p->handler[i] (i);
	}
	p->handles = false;
}

static bool is_preempted(void);

/* Anything can happen here. */
static void
point(void)
{
	Process    *p = current;

	if (p == NULL)
		return;
	npoints++;
	if (p->trap_points > 0 && p->trap_wakes <= 0 && --p->trap_points == 0)
		world->trapped((int) (p - processes));
	sim.now += p == slow ? (int64_t) drift * slowness : drift;
	if (p->stopped_until > sim.now ||
		(left-- <= 0 && (!server_choice_is_on() || is_preempted())))
		yield();
	if (p->signals != 0)
		handle_signals(p);
}

static bool
is_signalled(const Process *p)
{
	return p->signals != 0 && !p->handles;
}

static bool
is_runnable(const Process *p)
{
	if (p->state == ABSENT || p->stopped_until > sim.now)
		return false;
	switch (p->state)
	{
		case READY:
			return true;
		case WAITS:
			return p->latch || (p->listens && p->rung) || is_signalled(p) ||
				p->until <= sim.now;
		case SLEEPS:
			return is_signalled(p) || p->until <= sim.now;
		default:
			return false;
	}
}

static int64_t
min_time(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* When something happens that does not depend on anybody. */
static int64_t
next_moment(void)
{
	int64_t		next = world->next();

	for (int i = 0; i < SERVER_MAX_PLACES; i++)
	{
		const Process *p = &processes[i];

		if (p->state == ABSENT)
			continue;
		if (p->stopped_until > sim.now)
			next = min_time(next, p->stopped_until);
		else if (p->state == WAITS || p->state == SLEEPS)
			next = min_time(next, p->until);
		for (int t = 0; t < MAX_TIMERS; t++)
			if (p->timer[t] != 0)
				next = min_time(next, p->timer[t]);
	}
	return next;
}

static void
fire_timers(void)
{
	for (int i = 0; i < SERVER_MAX_PLACES; i++)
	{
		Process    *p = &processes[i];

		for (int t = 0; p->state != ABSENT && t < MAX_TIMERS; t++)
		{
			if (p->timer[t] == 0 || p->timer[t] > sim.now)
				continue;
			p->timer[t] = 0;
			p->signals |= UINT64_C(1) << p->timer_signal[t];
		}
	}
}

/*
 * Schedules of choices.
 */

static bool
can_act(int actor)
{
	return actor < SERVER_MAX_PLACES ? is_runnable(&processes[actor]) :
		world->can_act(actor - SERVER_MAX_PLACES);
}

static void
act(int actor)
{
	if (actor < SERVER_MAX_PLACES)
	{
		last = actor;
		run(&processes[actor]);
	}
	else
		world->act(actor - SERVER_MAX_PLACES);
}

/*
 * Who acts if nothing else is chosen: the process that ran last, those behind it, what
 * happens by itself; -1: nobody.
 */
static int
next_actor(void)
{
	int			n = SERVER_MAX_PLACES + world->nactors();

	for (int i = 0; i < n; i++)
	{
		int			actor = i < SERVER_MAX_PLACES ? (last + i) % SERVER_MAX_PLACES : i;

		if (actor != held && can_act(actor))
			return actor;
	}
	if (held < 0 || held_longer ||
		(held < SERVER_MAX_PLACES && processes[held].stopped_until > sim.now))
		return -1;
	n = held;
	held = -1;
	return can_act(n) ? n : -1;
}

/* What can be done in place of the act of this actor */
static uint32_t
count_options(int actor)
{
	int			n = SERVER_MAX_PLACES + world->nactors();
	int			noptions = world->nstrikes();

	for (int i = 0; i < n; i++)
		noptions += i != actor && can_act(i);
	return noptions + (actor < 0 ? 0 : actor < SERVER_MAX_PLACES ? 2 : 1);
}

/* Do that, by its number, from 1 on. */
static void
deviate(int actor, uint32_t option)
{
	int			n = SERVER_MAX_PLACES + world->nactors();

	for (int i = 0; i < n; i++)
		if (i != actor && can_act(i) && --option == 0)
		{
			shim_trace("---- deviates: %s %d is first", i < SERVER_MAX_PLACES ? "process" : "event",
					   i < SERVER_MAX_PLACES ? i : i - SERVER_MAX_PLACES);
			act(i);
			return;
		}
	if (actor >= 0 && option <= (actor < SERVER_MAX_PLACES ? 2 : 1))
	{
		held = actor;
		held_longer = option == 2;
		shim_trace("---- deviates: %s %d waits for all others%s",
				   actor < SERVER_MAX_PLACES ? "process" : "event",
				   actor < SERVER_MAX_PLACES ? actor : actor - SERVER_MAX_PLACES,
				   held_longer ? ", and time passes" : "");
		return;
	}
	option -= actor < 0 ? 0 : actor < SERVER_MAX_PLACES ? 2 : 1;
	shim_trace("---- deviates: a fault");
	world->strike((int) option - 1);
}

/*
 * Is something else chosen than that the process that runs goes on?  It is not while it makes
 * shared memory, and itself, ready.
 */
static bool
is_preempted(void)
{
	if (!sim.quiet && current->ready && server_choice_is_due())
		chosen = server_choice_make(count_options((int) (current - processes)));
	return chosen != 0;
}

static bool
take_chosen_turn(void)
{
	int			actor = next_actor();
	uint32_t	option = !sim.quiet && server_choice_is_due() ?
		server_choice_make(count_options(actor)) : 0;

	if (option != 0)
		deviate(actor, option);
	else if (actor >= 0)
		act(actor);
	return option != 0 || actor >= 0;
}

/* Who is held across a passing of time does not run meanwhile, and then is the last one. */
static void
stop_held(int64_t then)
{
	int64_t		until = sim.now + server_plan.suspension * SERVER_MS;

	if (held_longer)
		processes[held].stopped_until = then > until ? then : until;
	held_longer = false;
}

static bool
take_turn(void)
{
	int			runnable[SHIM_MAX_PROCESSES];
	int			n = 0;

	for (int i = 0; i < SERVER_MAX_PLACES; i++)
		if (is_runnable(&processes[i]))
			runnable[n++] = i;

	if ((n == 0 || sim_random(n + 1) == 0) && world->step())
		return true;
	if (n == 0)
		return false;
	run(&processes[runnable[sim_random(n)]]);
	return true;
}

void
shim_scheduler_run(void)
{
	while (sim.broken == SIM_KEPT && !world->is_over())
	{
		int64_t		then;

		if (npoints > MAX_POINTS)
		{
			sim_breach(SERVER_PROGRESS, "it does not come to an end");
			break;
		}
		if (chosen != 0)
		{
			uint32_t	option = chosen;

			chosen = 0;
			deviate(last, option);
			continue;
		}
		fire_timers();
		world->mishap();
		if (world->is_over() || (server_choice_is_on() ? take_chosen_turn() : take_turn()))
			continue;
		then = next_moment();
		if (then == SHIM_NEVER && held_longer)
		{
			held_longer = false;
			continue;
		}
		if (then == SHIM_NEVER)
		{
			sim_breach(SERVER_PROGRESS, "everybody waits for ever");
			break;
		}
		if (then < sim.now)
			then = sim.now;
		stop_held(then);
		world->idle(then);
		sim.now = then;
	}
}

/* The library's own memory goes with the process. */
static void
clear(Process *p)
{
	void		(*process_clear) (void) =
		(void (*) (void)) dlsym(p->library, "shim_process_clear");

	p->state = ABSENT;
	p->pid = 0;
	p->started = false;
	process_clear();
	copy_data(p->data, p->snapshot, p->size);
}

void
shim_scheduler_reset(const ShimWorld *new_world)
{
	world = new_world;
	npoints = 0;
	last_pid = 1000;
	last = 0;
	held = -1;
	held_longer = false;
	chosen = 0;
	current = NULL;
	for (int i = 0; i < SERVER_MAX_PLACES; i++)
		if (processes[i].state != ABSENT)
			clear(&processes[i]);
	for (int i = 0; i < MAX_AREAS; i++)
		areas[i].server = -1;
}

void
shim_scheduler_pace(int points, int new_drift)
{
	pace = points;
	drift = new_drift;
}

void
shim_scheduler_slow(int process, int factor)
{
	slow = process < 0 ? NULL : &processes[process];
	slowness = factor;
}

int
shim_scheduler_begin(int process, int server, int procno, const char *main)
{
	Process    *p = &processes[process];

	p->state = READY;
	p->server = server;
	p->procno = procno;
	p->pid = ++last_pid;
	p->main = (void (*) (int, int)) shim_scheduler_find(process, main);
	p->started = false;
	p->latch = p->rung = p->listens = false;
	p->handles = true;			/* none, until it is ready for them */
	p->ready = false;
	p->stopped_until = 0;
	memset(p->timer, 0, sizeof(p->timer));
	p->signals = 0;
	memset(p->handler, 0, sizeof(p->handler));
	p->nlwlocks = p->nspinlocks = p->trap_points = 0;
	return p->pid;
}

void
shim_scheduler_kill(int process)
{
	if (processes[process].state != ABSENT)
		clear(&processes[process]);
}

void
shim_exit(int code)
{
	Process    *p = current;

	if (p->nlwlocks > 0 || p->nspinlocks > 0)
		shim_fail("a process ends with a lock");
	world->ended((int) (p - processes), code);
	clear(p);
	go_for_good();
	abort();
}

void
shim_scheduler_stop(int process, int64_t until)
{
	processes[process].stopped_until = until;
}

void
shim_scheduler_trap(int process, int wakes, int points)
{
	processes[process].trap_wakes = wakes;
	processes[process].trap_points = points;
}

bool
shim_scheduler_is_stopped(int process)
{
	return processes[process].state != ABSENT &&
		processes[process].stopped_until > sim.now;
}

int64_t
shim_scheduler_stopped_until(int process)
{
	return processes[process].stopped_until;
}

bool
shim_scheduler_signal(int process, int signal)
{
	if (processes[process].state == ABSENT)
		return false;
	processes[process].signals |= UINT64_C(1) << signal;
	return true;
}

bool
shim_scheduler_is_there(int process)
{
	return processes[process].state != ABSENT;
}

bool
shim_scheduler_is_asleep(int process)
{
	return processes[process].state == WAITS &&
		!is_runnable(&processes[process]);
}

int
shim_scheduler_pid(int process)
{
	return processes[process].pid;
}

int
shim_scheduler_current(void)
{
	return current == NULL ? -1 : (int) (current - processes);
}

int
shim_scheduler_server(int process)
{
	return processes[process].server;
}

int
shim_scheduler_procno(int process)
{
	return processes[process].procno;
}

void
shim_scheduler_ring(int process)
{
	processes[process].rung = true;
}

uint64_t
shim_scheduler_points(void)
{
	return npoints;
}

/*
 * Shared memory.
 */

void
shim_scheduler_forget_areas(int server)
{
	for (int i = 0; i < MAX_AREAS; i++)
		if (areas[i].server == server)
			areas[i].server = -1;
}

/*
 * The memory of an area that is not in use any more is used again, if it is large enough, or
 * if there are no more areas.
 */
void *
shim_memory(const char *name, size_t size, bool *found)
{
	Area	   *area = NULL;

	for (int i = 0; i < MAX_AREAS; i++)
	{
		if (areas[i].server == current->server && strcmp(areas[i].name, name) == 0)
		{
			*found = true;
			return areas[i].memory + RED_ZONE;
		}
		if (areas[i].server < 0 && areas[i].room >= size &&
			(area == NULL || areas[i].room < area->room))
			area = &areas[i];
	}
	for (int i = 0; area == NULL && i < MAX_AREAS; i++)
		if (areas[i].server < 0 && areas[i].memory == NULL)
			area = &areas[i];
	for (int i = 0; area == NULL && i < MAX_AREAS; i++)
		if (areas[i].server < 0)
		{
			area = &areas[i];
			free(area->memory);
			area->memory = NULL;
		}
	if (area == NULL)
		sim_overflow("areas of shared memory");
	if (area->memory == NULL)
	{
		area->room = size;
		area->memory = malloc(size + 2 * RED_ZONE);
	}
	area->server = current->server;
	area->size = size;
	snprintf(area->name, sizeof(area->name), "%s", name);
	UNPOISON(area->memory, area->room + 2 * RED_ZONE);
	memset(area->memory, RED, size + 2 * RED_ZONE);
	memset(area->memory + RED_ZONE, 0, size);
	POISON(area->memory, RED_ZONE);
	POISON(area->memory + RED_ZONE + size, area->room - size + RED_ZONE);
	*found = false;
	return area->memory + RED_ZONE;
}

/* AddressSanitizer reports each access beside an area at once, and this would be one. */
bool
shim_scheduler_areas_are_whole(void)
{
#ifndef __SANITIZE_ADDRESS__
	for (int i = 0; i < MAX_AREAS; i++)
		for (int j = 0; areas[i].server >= 0 && j < RED_ZONE; j++)
			if ((unsigned char) areas[i].memory[j] != RED ||
				(unsigned char) areas[i].memory[RED_ZONE + areas[i].size + j] != RED)
				return false;
#endif
	return true;
}

/*
 * shim.h
 */

int64_t
shim_now(void)
{
	return sim.now;
}

uint32_t
shim_random(uint32_t n)
{
	return sim_random(n);
}

uint32_t
shim_noise(uint32_t n)
{
	return sim_noise(n);
}

static void
unblock(const void *lock)
{
	for (int i = 0; i < SERVER_MAX_PLACES; i++)
		if (processes[i].state == BLOCKED && processes[i].lock == lock)
			processes[i].state = READY;
}

static void
block(const void *lock)
{
	current->state = BLOCKED;
	current->lock = lock;
	yield();
}

bool
shim_is_locked(void)
{
	return current != NULL && (current->nlwlocks > 0 || current->nspinlocks > 0);
}

void
shim_lwlock_acquire(void *memory, bool exclusive)
{
	Lock	   *lock = memory;

	if (current == NULL)
		return;
	trace_call("LWLockAcquire");
	if (shim_is_locked() && (current->nspinlocks > 0 ||
							 (char *) memory != current->last_lwlock + SHIM_LWLOCK_SIZE))
		shim_fail("a lock is waited for under another");
	point();
	while (lock->exclusive || (exclusive && lock->shared > 0))
		block(lock);
	if (exclusive)
		lock->exclusive = 1;
	else
		lock->shared++;
	current->nlwlocks++;
	current->locked_at = sim.now;
	current->last_lwlock = memory;
	point();
}

bool
shim_lwlock_is_exclusive(const void *memory)
{
	return ((const Lock *) memory)->exclusive != 0;
}

int64_t
shim_locked_at(void)
{
	return current->locked_at;
}

void
shim_lwlock_release(void *memory)
{
	Lock	   *lock = memory;

	if (current == NULL)
		return;
	point();
	if (lock->exclusive)
		lock->exclusive = 0;
	else
		lock->shared--;
	current->nlwlocks--;
	unblock(lock);
	point();
}

bool
shim_runs(void)
{
	return current != NULL;
}

void
shim_spin_acquire(volatile int *lock)
{
	if (current == NULL)
		return;
	if (current->nspinlocks > 0)
		shim_fail("a spinlock is waited for under another");
	point();
	while (*lock)
		block((const void *) lock);
	*lock = 1;
	current->nspinlocks++;
}

void
shim_spin_release(volatile int *lock)
{
	if (current == NULL)
		return;
	point();
	*lock = 0;
	current->nspinlocks--;
	unblock((const void *) lock);
}

#define FOR_EACH_SIZE(what) \
	switch (size) \
	{ \
		case 1: what(uint8_t); break; \
		case 2: what(uint16_t); break; \
		case 4: what(uint32_t); break; \
		default: what(uint64_t); break; \
	}

uint64_t
shim_read(const volatile void *p, int size)
{
	uint64_t	value = 0;

#define READ(type) value = *(const volatile type *) p
	point();
	FOR_EACH_SIZE(READ);
	return value;
}

void
shim_write(volatile void *p, int size, uint64_t value)
{
#define WRITE(type) *(volatile type *) p = (type) value
	point();
	FOR_EACH_SIZE(WRITE);
}

uint64_t
shim_exchange(volatile void *p, int size, uint64_t value)
{
	uint64_t	before = shim_read(p, size);

	FOR_EACH_SIZE(WRITE);
	return before;
}

uint64_t
shim_fetch_add(volatile void *p, int size, uint64_t n)
{
	uint64_t	before = shim_read(p, size);

#define ADD(type) *(volatile type *) p = (type) (before + n)
	FOR_EACH_SIZE(ADD);
	return before;
}

bool
shim_compare_exchange(volatile void *p, int size, uint64_t *expected,
					  uint64_t value)
{
	uint64_t	found = shim_read(p, size);
	bool		equal = found == *expected;

	if (equal)
		FOR_EACH_SIZE(WRITE);
	*expected = found;
	return equal;
}

void
shim_fence(void)
{
	point();
}

void
shim_point(void)
{
	point();
}

/* The compiler calls these before each access to something volatile. */
#define VOLATILE_ACCESSES(size) \
void __tsan_volatile_read##size(void *p); \
void __tsan_volatile_write##size(void *p); \
void \
__tsan_volatile_read##size(void *p) \
{ \
	(void) p; \
	point(); \
} \
void \
__tsan_volatile_write##size(void *p) \
{ \
	(void) p; \
	point(); \
}

VOLATILE_ACCESSES(1)
VOLATILE_ACCESSES(2)
VOLATILE_ACCESSES(4)
VOLATILE_ACCESSES(8)

static Process *
find(int server, int procno)
{
	for (int i = 0; i < SERVER_MAX_PLACES; i++)
		if (processes[i].state != ABSENT && processes[i].server == server &&
			processes[i].procno == procno)
			return &processes[i];
	return NULL;
}

/* A latch of nobody is set for whoever comes next, who does not mind. */
void
shim_set_latch(int procno)
{
	Process    *p;

	if (current == NULL)
		return;
	trace_call("SetLatch");
	point();
	p = find(current->server, procno);
	if (p != NULL)
		p->latch = true;
}

void
shim_reset_latch(void)
{
	point();
	current->latch = false;
	point();
}

bool
shim_is_latch_set(void)
{
	return current->latch;
}

bool
shim_take_ring(void)
{
	bool		rung = current->rung;

	point();
	current->rung = false;
	return rung;
}

bool
shim_wait(int64_t ms, bool listens)
{
	Process    *p = current;
	int64_t		until = ms < 0 ? SHIM_NEVER : sim.now + ms * 1000000;

	if (shim_is_locked())
		shim_fail("it waits with a lock");
	trace_call("WaitLatch");
	point();
	while (!p->latch && !(listens && p->rung) && sim.now < until)
	{
		p->state = WAITS;
		p->until = until;
		p->listens = listens;
		yield();
		p->state = READY;
		if (p->signals != 0)
			handle_signals(p);
	}
	p->trap_wakes--;
	return p->latch || (listens && p->rung);
}

bool
shim_wait_latch(int64_t ms)
{
	bool		set = shim_wait(ms, false);

	shim_reset_latch();
	return set;
}

void
shim_sleep(long us)
{
	Process    *p = current;
	int64_t		until = sim.now + us * INT64_C(1000);

	if (shim_is_locked())
		shim_fail("it sleeps with a lock");
	while (sim.now < until)
	{
		p->state = SLEEPS;
		p->until = until;
		yield();
		p->state = READY;
		if (p->signals != 0)
			handle_signals(p);
	}
}

void
shim_set_timer(int signal, int64_t at)
{
	int			t = signal == SIGALRM;	/* PostgreSQL's own, or ours */

	current->timer_signal[t] = signal;
	current->timer[t] = at;
}

void
shim_unblock_signals(void)
{
	current->handles = false;
	current->ready = true;
}

void
shim_on_signal(int signal, void (*handler) (int signal))
{
	if (signal >= MAX_SIGNALS)
		shim_fail("it handles signal %d", signal);
	current->handler[signal] = handler;
}

bool
shim_kill(int pid, int signal)
{
	trace_call("kill");
	point();
	if (pid == 0)
		shim_fail("signal %d is sent to nobody", signal);
	for (int i = 0; i < SERVER_MAX_PLACES; i++)
	{
		if (processes[i].state != ABSENT && processes[i].pid == pid)
			return shim_scheduler_signal(i, signal);
	}
	return false;
}
