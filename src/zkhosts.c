/*-------------------------------------------------------------------------
 *
 * zkhosts.c
 *	  ZooKeeper connect strings.  See zkhosts.h.
 *
 *-------------------------------------------------------------------------
 */
#include "zkhosts.h"

#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <netinet/in.h>

#include "path.h"

#define HOST_MAX 255
#define PORT_MAX 5

/* One "host:port"; brackets around an IPv6 address are taken off. */
typedef struct HostPort
{
	char		host[HOST_MAX + 1];
	char		port[PORT_MAX + 1];
} HostPort;

/*
 * Take the next "host:port" off `*rest`.  Returns NULL if it was good; `*done`
 * says that none was left.
 */
static const char *
next_host(const char **rest, HostPort *hp, bool *done)
{
	const char *start = *rest + strspn(*rest, " ");
	size_t		len = strcspn(start, ",/");
	const char *colon = NULL;
	size_t		hostlen;
	size_t		portlen;
	long		port;

	*done = *start == '\0' || *start == '/';
	if (*done)
		return NULL;
	*rest = start + len + (start[len] == ',');
	while (len > 0 && start[len - 1] == ' ')
		len--;

	for (size_t i = 0; i < len; i++)
		if (start[i] == ':')
			colon = start + i;
	if (colon == NULL)
		return "Each server must be given as host:port.";

	hostlen = colon - start;
	portlen = len - hostlen - 1;
	if (hostlen >= 2 && start[0] == '[' && start[hostlen - 1] == ']')
	{
		start++;
		hostlen -= 2;
	}
	if (hostlen == 0 || hostlen > HOST_MAX ||
		strcspn(start, " []") < hostlen)
		return "A server's host name is empty, too long or has a blank in it.";
	memcpy(hp->host, start, hostlen);
	hp->host[hostlen] = '\0';

	if (portlen == 0 || strspn(colon + 1, "0123456789") < portlen)
		return "A server's port is not a number.";
	if (portlen > PORT_MAX)
		return "A server's port is not between 1 and 65535.";
	memcpy(hp->port, colon + 1, portlen);
	hp->port[portlen] = '\0';
	port = strtol(hp->port, NULL, 10);
	if (port < 1 || port > 65535)
		return "A server's port is not between 1 and 65535.";
	return NULL;
}

const char *
zklock_zkhosts_check(const char *hosts)
{
	const char *rest = hosts;
	const char *chroot = strchr(hosts, '/');
	const char *why;
	HostPort	hp;
	bool		done;
	int			n = 0;

	for (;;)
	{
		why = next_host(&rest, &hp, &done);
		if (why != NULL)
			return why;
		if (done)
			break;
		n++;
	}
	if (n == 0)
		return "No server is named.";
	if (chroot != NULL && strchr(chroot, ',') != NULL)
		return "The path must come last, once for all servers.";
	if (chroot != NULL && chroot[1] != '\0')
		return zklock_path_check(chroot, strlen(chroot));
	return NULL;
}

/* A growing list of "address:port," as the library reads it. */
typedef struct Addresses
{
	char	   *text;
	size_t		len;
	int			n;
} Addresses;

static bool
add_address(Addresses *list, const char *host, const char *port)
{
	size_t		more = strlen(host) + strlen(port) + 3;
	char	   *text = realloc(list->text, list->len + more);

	if (text == NULL)
		return false;
	list->text = text;
	list->len += sprintf(text + list->len, "%s%s:%s",
						 list->n > 0 ? "," : "", host, port);
	list->n++;
	return true;
}

static bool
resolve_host(Addresses *list, const HostPort *hp)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC,.ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	bool		ok = true;

	if (getaddrinfo(hp->host, hp->port, &hints, &found) != 0)
		return true;			/* the other hosts may do */

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

char *
zklock_zkhosts_resolve(const char *hosts, const char **why)
{
	const char *chroot = strchr(hosts, '/');
	const char *rest = hosts;
	Addresses	list = {NULL, 0, 0};
	HostPort	hp;
	bool		done;
	bool		ok = true;

	while (ok && next_host(&rest, &hp, &done) == NULL && !done)
		ok = resolve_host(&list, &hp);

	if (ok && list.n > 0 && list.n % 2 == 0)
	{
		size_t		hostlen;

		/* Repeat the first. */
		memset(&hp, 0, sizeof(hp));
		hostlen = strcspn(list.text, ",");
		while (list.text[hostlen - 1] != ':')
			hostlen--;
		memcpy(hp.host, list.text, hostlen - 1);
		memcpy(hp.port, list.text + hostlen,
			   strcspn(list.text + hostlen, ","));
		ok = add_address(&list, hp.host, hp.port);
	}
	if (ok && list.n > 0 && chroot != NULL && chroot[1] != '\0')
	{
		char	   *text = realloc(list.text, list.len + strlen(chroot) + 1);

		ok = text != NULL;
		if (ok)
		{
			list.text = text;
			strcpy(text + list.len, chroot);
		}
	}
	if (ok && list.n > 0)
		return list.text;

	*why = ok ? "None of the host names could be resolved." : "Out of memory.";
	free(list.text);
	return NULL;
}
