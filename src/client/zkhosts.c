/*-------------------------------------------------------------------------
 *
 * zkhosts.c
 *	  The addresses of ZooKeeper's servers.  See zkhosts.h.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zkhosts.h"

#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <netinet/in.h>

#include "client/zklog.h"
#include "protocol/hosts.h"

/* Number of times that each address is listed, see zkhosts.h.  Must be odd. */
#define ROUNDS 25

/* The addresses of all hosts, each "address:port". */
typedef struct Addresses
{
	char	  **item;
	int			n;
} Addresses;

static bool
add_address(Addresses *list, const char *host, const char *port)
{
	size_t		size = strlen(host) + strlen(port) + 2;
	char	  **item = realloc(list->item, (list->n + 1) * sizeof(char *));

	if (item == NULL)
		return false;
	list->item = item;
	item[list->n] = malloc(size);
	if (item[list->n] == NULL)
		return false;
	snprintf(item[list->n++], size, "%s:%s", host, port);
	return true;
}

static bool
resolve_host(Addresses *list, const ZkLockHostPort *hp)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC,.ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	bool		ok = true;
	int			error = getaddrinfo(hp->host, hp->port, &hints, &found);

	if (error != 0)
	{
		char		line[ZKLOCK_LOG_LINE];

		/* The other hosts may suffice, but the name may be misspelt. */
		snprintf(line, sizeof(line),
				 "zklock: host name \"%.100s\" cannot be resolved: %s",
				 hp->host, gai_strerror(error));
		zklock_zklog_put(line, false);
		return true;
	}

	for (struct addrinfo *ai = found; ai != NULL && ok; ai = ai->ai_next)
	{
		char		literal[NI_MAXHOST];

		if (getnameinfo(ai->ai_addr, ai->ai_addrlen, literal, sizeof(literal),
						NULL, 0, NI_NUMERICHOST) == 0)
			ok = add_address(list, literal, hp->port);
	}
	freeaddrinfo(found);
	return ok;
}

/*
 * Each client uses an order of its own, so that clients distribute themselves
 * over the servers.
 */
static void
shuffle(Addresses *list)
{
	for (int i = list->n - 1; i > 0; i--)
	{
		unsigned	random = 0;
		char	   *item = list->item[i];
		int			j;

		if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
			return;
		j = random % (i + 1);
		list->item[i] = list->item[j];
		list->item[j] = item;
	}
}

/*
 * Build the connect string from which the library takes the addresses in turn.
 */
static char *
arrange(const Addresses *list, const char *chroot)
{
	int			n = list->n * ROUNDS | 1;
	const char **slot = malloc(n * sizeof(char *));
	size_t		size = strlen(chroot) + 1;
	char	   *text = NULL;

	for (int i = 0; slot != NULL && i < n; i++)
	{
		slot[2 * i % n] = list->item[i % list->n];
		size += strlen(slot[2 * i % n]) + 1;
	}
	if (slot != NULL)
		text = malloc(size);
	if (text != NULL)
	{
		char	   *end = text;

		for (int i = 0; i < n; i++)
			end = stpcpy(stpcpy(end, i > 0 ? "," : ""), slot[i]);
		strcpy(end, chroot);
	}
	free(slot);
	return text;
}

char *
zklock_zkhosts_resolve(const char *hosts, int *naddresses, const char **why)
{
	const char *chroot = strchr(hosts, '/');
	const char *rest = hosts;
	Addresses	list = {NULL, 0};
	char	   *text = NULL;
	ZkLockHostPort hp;
	bool		done;
	bool		ok = true;

	while (ok && zklock_hosts_next(&rest, &hp, &done) == NULL && !done)
		ok = resolve_host(&list, &hp);
	if (ok && list.n > 0)
	{
		*naddresses = list.n;
		shuffle(&list);
		text = arrange(&list, chroot != NULL && chroot[1] != '\0' ? chroot : "");
		ok = text != NULL;
	}
	if (text == NULL)
		*why = ok ? "None of the host names could be resolved." : "Out of memory.";

	while (list.n > 0)
		free(list.item[--list.n]);
	free(list.item);
	return text;
}
