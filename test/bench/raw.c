/*-------------------------------------------------------------------------
 *
 * raw.c
 *	  The minimal cost of a lock in ZooKeeper with the C client: obeys the
 *	  orders that Program.pm describes.
 *
 *	raw <ZooKeeper's hosts> [safe | N]
 *
 * It sends only the frames that a lock needs if nothing ever fails: a create
 * and a list in one flight, a watch on the predecessor, and a delete without a
 * wait for the reply. It recovers from no error, has no timeouts, ignores
 * other kinds of locks, and assumes that it has the lock whenever the
 * predecessor is gone.
 *
 * With "safe", it does not assume that: the predecessor may have given up
 * while other nodes are ahead. It still has the lock in one flight when the
 * predecessor was the holder, because it watches the second node ahead as
 * well, and lists again when that one is gone.
 *
 * With a number N, all clients share N sessions.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <zookeeper/zookeeper.h>

#define MAX_CLIENTS 1000
#define SESSION_TIMEOUT 60000

/* A description of the holder as long as those of other clients */
static const char data[] =
"host=localhost port=5432 pid=123456 db=postgres user=postgres app=a program of that length";

typedef struct Client
{
	zhandle_t  *zh;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	bool		connected;
	int			awaited;		/* replies */
	char		dir[200];
	char		own[300];
	char		before[300];
	char		second[300];	/* second node ahead; empty: none, or of no
								 * interest */
	bool		before_gone;
	bool		second_gone;

	/* a run */
	pthread_t	thread;
	unsigned	seed;
	int64_t		ops;
	double		acquiring;
	double		elapsed;
} Client;

static const char *hosts;
static bool safe;
static int	sessions;			/* that the clients share; 0: one for each */
static Client *clients[MAX_CLIENTS];
static int	nclients;

/* The run that all clients take part in */
static struct
{
	pthread_barrier_t barrier;
	pthread_barrier_t end;
	int			clients;		/* whose threads exist */
	double		seconds;
	const char *path;
	int			paths;
}			run;

static void
check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "raw: %s failed\n", what);
	exit(1);
}

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static void
session_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	Client	   *c = context;

	(void) zh;
	(void) path;
	if (type != ZOO_SESSION_EVENT)
		return;
	pthread_mutex_lock(&c->mutex);
	c->connected = state == ZOO_CONNECTED_STATE;
	pthread_cond_signal(&c->cond);
	pthread_mutex_unlock(&c->mutex);
}

static Client *
new_client(void)
{
	Client	   *c = calloc(1, sizeof(Client));

	check(c != NULL, "calloc");
	pthread_mutex_init(&c->mutex, NULL);
	pthread_cond_init(&c->cond, NULL);
	return c;
}

static Client *
connect_client(void)
{
	Client	   *c = new_client();

	c->zh = zookeeper_init(hosts, session_event, SESSION_TIMEOUT, NULL, c, 0);
	check(c->zh != NULL, "zookeeper_init");
	pthread_mutex_lock(&c->mutex);
	while (!c->connected)
		pthread_cond_wait(&c->cond, &c->mutex);
	pthread_mutex_unlock(&c->mutex);
	return c;
}

static void
answered(Client *c)
{
	pthread_mutex_lock(&c->mutex);
	if (--c->awaited == 0)
		pthread_cond_signal(&c->cond);
	pthread_mutex_unlock(&c->mutex);
}

static void
created(int rc, const char *path, const struct Stat *stat, const void *context)
{
	Client	   *c = (Client *) context;

	(void) stat;
	check(rc == ZOK, "create");
	snprintf(c->own, sizeof(c->own), "%s", path);
	answered(c);
}

static const char *
number(const char *name)
{
	return name + strlen(name) - 10;
}

/* Records a node ahead; data that was read before is kept. */
static void
note(Client *c, char *who, bool *gone, const char *name)
{
	char		path[300] = "";

	if (name != NULL)
		snprintf(path, sizeof(path), "%s/%s", c->dir, name);
	if (strcmp(path, who) == 0)
		return;
	strcpy(who, path);
	*gone = false;
}

/* Names end with ten digits, and only these differ. */
static void
listed(int rc, const struct String_vector *names, const void *context)
{
	Client	   *c = (Client *) context;
	const char *before = NULL;
	const char *second = NULL;

	check(rc == ZOK, "list");
	for (int i = 0; i < names->count; i++)
	{
		const char *name = names->data[i];

		if (strcmp(number(name), number(c->own)) >= 0)
			continue;
		if (before == NULL || strcmp(number(name), number(before)) > 0)
		{
			second = before;
			before = name;
		}
		else if (second == NULL || strcmp(number(name), number(second)) > 0)
			second = name;
	}
	pthread_mutex_lock(&c->mutex);
	note(c, c->before, &c->before_gone, before);
	note(c, c->second, &c->second_gone, safe ? second : NULL);
	pthread_mutex_unlock(&c->mutex);
	answered(c);
}

static void
is_gone(Client *c, const char *path)
{
	pthread_mutex_lock(&c->mutex);
	c->before_gone |= strcmp(path, c->before) == 0;
	c->second_gone |= strcmp(path, c->second) == 0;
	pthread_cond_signal(&c->cond);
	pthread_mutex_unlock(&c->mutex);
}

static void
watch_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	(void) zh;
	(void) state;
	if (type == ZOO_DELETED_EVENT)
		is_gone(context, path);
}

typedef struct Watch
{
	Client	   *client;
	char		path[300];
} Watch;

static void
watched(int rc, const char *value, int len, const struct Stat *stat,
		const void *context)
{
	Watch	   *w = (Watch *) context;

	(void) value;
	(void) len;
	(void) stat;
	if (rc == ZNONODE)
		is_gone(w->client, w->path);
	else
		check(rc == ZOK, "get");
	free(w);
}

static void
watch(Client *c, const char *path)
{
	Watch	   *w = malloc(sizeof(Watch));

	check(w != NULL, "malloc");
	w->client = c;
	strcpy(w->path, path);
	check(zoo_awget(c->zh, path, watch_event, c, watched, w) == ZOK, "to watch");
}

static void
deleted(int rc, const void *context)
{
	(void) context;
	check(rc == ZOK || rc == ZCLOSING, "delete");
}

static void
await_answers(Client *c)
{
	pthread_mutex_lock(&c->mutex);
	while (c->awaited > 0)
		pthread_cond_wait(&c->cond, &c->mutex);
	pthread_mutex_unlock(&c->mutex);
}

static void
acquire(Client *c, const char *path)
{
	char		name[300];
	char		watched_one[300] = "";

	snprintf(c->dir, sizeof(c->dir), "%s", path);
	snprintf(name, sizeof(name),
			 "%s/_c_00000000-0000-4000-8000-000000000000-lock-", path);
	c->before[0] = c->second[0] = '\0';
	c->awaited = 2;
	check(zoo_acreate2(c->zh, name, data, sizeof(data) - 1,
					   &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL,
					   created, c) == ZOK &&
		  zoo_aget_children(c->zh, path, 0, listed, c) == ZOK, "to ask");
	await_answers(c);
	while (c->before[0] != '\0')
	{
		bool		alone = c->second[0] == '\0';

		if (strcmp(c->before, watched_one) != 0)
			watch(c, strcpy(watched_one, c->before));
		if (!alone)
			watch(c, c->second);
		pthread_mutex_lock(&c->mutex);
		while (!c->before_gone && !c->second_gone)
			pthread_cond_wait(&c->cond, &c->mutex);
		pthread_mutex_unlock(&c->mutex);
		if (alone)
			return;
		c->awaited = 1;
		check(zoo_aget_children(c->zh, path, 0, listed, c) == ZOK, "to ask");
		await_answers(c);
	}
}

static void
release(Client *c)
{
	check(zoo_adelete(c->zh, c->own, -1, deleted, c) == ZOK, "to delete");
}

static void *
take_turns(void *arg)
{
	Client	   *c = arg;
	double		began;
	double		asked;

	c->ops = 0;
	c->acquiring = 0;
	pthread_barrier_wait(&run.barrier);
	began = now();
	while ((asked = now()) < began + run.seconds)
	{
		char		path[200];

		if (run.paths > 1)
			snprintf(path, sizeof(path), "%s/%d", run.path,
					 rand_r(&c->seed) % run.paths);
		else
			snprintf(path, sizeof(path), "%s", run.path);
		acquire(c, path);
		c->acquiring += now() - asked;
		release(c);
		c->ops++;
	}
	c->elapsed = now() - began;

	/* Locks.pm reads from /proc what this thread has done: wait until it has. */
	pthread_barrier_wait(&run.barrier);
	pthread_barrier_wait(&run.end);
	return NULL;
}

/* Ends the threads of the last run. */
static void
end_run(void)
{
	if (run.clients == 0)
		return;
	pthread_barrier_wait(&run.end);
	for (int i = 0; i < run.clients; i++)
		pthread_join(clients[i]->thread, NULL);
	pthread_barrier_destroy(&run.barrier);
	pthread_barrier_destroy(&run.end);
	run.clients = 0;
}

/* Connects clients up to this number. */
static void
open_clients(int n)
{
	check(n <= MAX_CLIENTS, "so many clients");
	while (nclients < n)
	{
		if (sessions > 0 && nclients >= sessions)
		{
			clients[nclients] = new_client();
			clients[nclients]->zh = clients[nclients % sessions]->zh;
		}
		else
			clients[nclients] = connect_client();
		clients[nclients]->seed = nclients;
		nclients++;
	}
}

static void
do_run(int n, double seconds, const char *path, int paths)
{
	double		rate = 0;
	double		acquiring = 0;
	int64_t		ops = 0;

	open_clients(n);
	run.seconds = seconds;
	run.path = path;
	run.paths = paths;
	run.clients = n;
	pthread_barrier_init(&run.barrier, NULL, n + 1);
	pthread_barrier_init(&run.end, NULL, n + 1);
	for (int i = 0; i < n; i++)
		check(pthread_create(&clients[i]->thread, NULL, take_turns,
							 clients[i]) == 0, "pthread_create");
	pthread_barrier_wait(&run.barrier);
	pthread_barrier_wait(&run.barrier);
	for (int i = 0; i < n; i++)
	{
		rate += clients[i]->ops / clients[i]->elapsed;
		ops += clients[i]->ops;
		acquiring += clients[i]->acquiring;
	}
	printf("%.3f %.3f\n", rate, acquiring / ops * 1e6);
}

/* The first lock of a client that is not connected yet */
static void
do_first(int n, const char *path)
{
	double		sum = 0;

	for (int i = 0; i < n; i++)
	{
		double		began = now();
		Client	   *c = connect_client();

		acquire(c, path);
		sum += now() - began;
		release(c);
		zookeeper_close(c->zh);
		free(c);
	}
	printf("%.3f\n", sum / n * 1e6);
}

static void
made(int rc, const char *path, const void *context)
{
	(void) path;
	check(rc == ZOK || rc == ZNODEEXISTS, "create");
	answered((Client *) context);
}

/* Creates the persistent parents of locks. */
static void
do_make(const char *path, int paths)
{
	Client	   *c;

	open_clients(1);
	c = clients[0];
	c->awaited = paths + 1;
	for (int i = -1; i < paths; i++)
	{
		char		name[200];

		snprintf(name, sizeof(name), i < 0 ? "%s" : "%s/%d", path, i);
		check(zoo_acreate(c->zh, name, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, made,
						  c) == ZOK, "to create");
	}
	await_answers(c);
	printf("made\n");
}

int
main(int argc, char **argv)
{
	char		line[1000];

	if (argc < 2 || argc > 3)
		return 2;
	hosts = argv[1];
	safe = argc == 3 && strcmp(argv[2], "safe") == 0;
	sessions = argc == 3 && !safe ? atoi(argv[2]) : 0;
	zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin) != NULL)
	{
		char		path[200];
		double		seconds;
		int			n;
		int			paths;

		end_run();
		if (sscanf(line, "run mutex %d %lf %199s %d", &n, &seconds, path,
				   &paths) == 4)
			do_run(n, seconds, path, paths);
		else if (sscanf(line, "first %d %199s", &n, path) == 2)
			do_first(n, path);
		else if (sscanf(line, "open %d", &n) == 1)
		{
			open_clients(n);
			printf("open\n");
		}
		else if (sscanf(line, "make %199s %d", path, &paths) == 2)
			do_make(path, paths);
		else
			printf("error: %s", line);
	}
	end_run();
	for (int i = 0; i < nclients && (sessions == 0 || i < sessions); i++)
		zookeeper_close(clients[i]->zh);
	return 0;
}
