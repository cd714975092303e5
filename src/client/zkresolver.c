/*-------------------------------------------------------------------------
 *
 * zkresolver.c
 *	  Resolves the names of ZooKeeper's servers.  See zkresolver.h.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zkresolver.h"

#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <netinet/in.h>

#include "client/zklog.h"
#include "protocol/check.h"
#include "protocol/hosts.h"

struct ZkLockLookup
{
	int			refs;			/* the caller and the thread */
	bool		done;
	ZkLockAddresses found;		/* written by the thread until it is done */
	char		hosts[];
};

/*
 * A session that begins and its diagnosis need a thread each, and one resolves
 * names anew.  There are those of sessions that were given up as well.
 */
#define MAX_WAITING 8

/*
 * Guards the number of threads that wait for the resolver, the references of
 * all lookups, and whether they are done
 */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int	waiting = 0;
static bool is_running = false;

int
zklock_zkresolver_find(const char *host, const char *port, bool *named,
					   struct addrinfo **found)
{
	struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST,
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM
	};
	int			error = getaddrinfo(host, port, &hints, found);
	bool		busy;

	if (error != EAI_NONAME)
		return error;
	*named = true;

	pthread_mutex_lock(&mutex);
	busy = waiting == MAX_WAITING;
	if (!busy)
		waiting++;
	pthread_mutex_unlock(&mutex);
	if (busy)
		return ZKLOCK_RESOLVER_BUSY;

	/*
	 * The library ignores addresses of a family in which this machine has no
	 * address, so names get none of these.
	 */
	hints.ai_flags = AI_ADDRCONFIG;
	error = getaddrinfo(host, port, &hints, found);

	pthread_mutex_lock(&mutex);
	waiting--;
	pthread_mutex_unlock(&mutex);
	return error;
}

const char *
zklock_zkresolver_strerror(int error)
{
	return error == ZKLOCK_RESOLVER_BUSY ?
		"The resolver has not answered earlier questions yet" :
		gai_strerror(error);
}

static bool
resolve_host(ZkLockAddresses *list, const ZkLockHostPort *hp, bool log)
{
	struct addrinfo *found;
	bool		ok = true;
	int			host = list->nhosts++;
	int			error = zklock_zkresolver_find(hp->host, hp->port, &list->named,
											   &found);

	if (error != 0)
	{
		char		line[ZKLOCK_LOG_LINE];

		/* The other hosts may suffice, but the name may be misspelt. */
		snprintf(line, sizeof(line),
				 "zklock: host name \"%.100s\" cannot be resolved: %s",
				 hp->host, zklock_zkresolver_strerror(error));
		if (log)
			zklock_zklog_put(line, false);
		return true;
	}

	for (struct addrinfo *ai = found; ai != NULL && ok; ai = ai->ai_next)
	{
		char		literal[NI_MAXHOST];

		if (getnameinfo(ai->ai_addr, ai->ai_addrlen, literal, sizeof(literal),
						NULL, 0, NI_NUMERICHOST) == 0)
			ok = zklock_zkhosts_add(list, host, literal, hp->port);
	}
	freeaddrinfo(found);
	return ok;
}

bool
zklock_zkresolver_resolve(const char *hosts, bool log, ZkLockAddresses *list)
{
	const char *rest = hosts;
	ZkLockHostPort hp;
	bool		done;

	while (zklock_hosts_next(&rest, &hp, &done) == NULL && !done)
		if (!resolve_host(list, &hp, log))
			return false;
	return true;
}

void
zklock_zkresolver_drop(ZkLockLookup *lookup)
{
	bool		last;

	pthread_mutex_lock(&mutex);
	ZKLOCK_ASSERT(lookup->refs > 0);
	last = --lookup->refs == 0;
	pthread_mutex_unlock(&mutex);
	if (last)
	{
		zklock_zkhosts_free(&lookup->found);
		free(lookup);
	}
}

/*
 * The name of the thread is for whoever looks at the process.  If there was no
 * memory, the list lacks some names, as if they were unknown.
 */
static void *
run(void *arg)
{
	ZkLockLookup *lookup = arg;

	prctl(PR_SET_NAME, "zklock resolver");
	(void) zklock_zkresolver_resolve(lookup->hosts, false, &lookup->found);

	pthread_mutex_lock(&mutex);
	ZKLOCK_ASSERT(is_running && !lookup->done);
	lookup->done = true;
	is_running = false;
	pthread_mutex_unlock(&mutex);
	zklock_zkresolver_drop(lookup);
	return NULL;
}

ZkLockLookup *
zklock_zkresolver_start(const char *hosts)
{
	size_t		size = strlen(hosts) + 1;
	ZkLockLookup *lookup;
	pthread_t	thread;
	bool		busy;

	pthread_mutex_lock(&mutex);
	busy = is_running;
	is_running = true;
	pthread_mutex_unlock(&mutex);
	if (busy)
		return NULL;

	lookup = calloc(1, sizeof(ZkLockLookup) + size);
	if (lookup != NULL)
	{
		memcpy(lookup->hosts, hosts, size);
		lookup->refs = 2;
		if (pthread_create(&thread, NULL, run, lookup) == 0)
		{
			pthread_detach(thread);
			return lookup;
		}
		free(lookup);
	}
	pthread_mutex_lock(&mutex);
	is_running = false;
	pthread_mutex_unlock(&mutex);
	return NULL;
}

bool
zklock_zkresolver_is_done(ZkLockLookup *lookup)
{
	bool		done;

	pthread_mutex_lock(&mutex);
	done = lookup->done;
	pthread_mutex_unlock(&mutex);
	return done;
}

ZkLockAddresses
zklock_zkresolver_take(ZkLockLookup *lookup)
{
	ZkLockAddresses found = lookup->found;

	ZKLOCK_ASSERT(zklock_zkresolver_is_done(lookup));
	memset(&lookup->found, 0, sizeof(lookup->found));
	return found;
}
