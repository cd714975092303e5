/*-------------------------------------------------------------------------
 *
 * hosts.c
 *	  ZooKeeper connect strings.  See hosts.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/path.h"

const char *
zklock_hosts_next(const char **rest, ZkLockHostPort *hp, bool *done)
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
	if (memchr(start, ';', len) != NULL)
		return "Servers are separated by commas, not semicolons.";
	if (colon == NULL)
		return "Each server must be given as host:port.";

	hostlen = colon - start;
	portlen = len - hostlen - 1;
	if (hostlen >= 2 && start[0] == '[' && start[hostlen - 1] == ']')
	{
		start++;
		hostlen -= 2;
	}
	if (hostlen == 0 || hostlen > ZKLOCK_HOST_MAX ||
		strcspn(start, " []") < hostlen)
		return "A server's host name is empty, too long or has a blank in it.";
	memcpy(hp->host, start, hostlen);
	hp->host[hostlen] = '\0';

	if (portlen == 0 || strspn(colon + 1, "0123456789") < portlen)
		return "A server's port is not a number.";
	if (portlen > ZKLOCK_PORT_MAX)
		return "A server's port is not between 1 and 65535.";
	memcpy(hp->port, colon + 1, portlen);
	hp->port[portlen] = '\0';
	port = strtol(hp->port, NULL, 10);
	if (port < 1 || port > 65535)
		return "A server's port is not between 1 and 65535.";
	return NULL;
}

const char *
zklock_hosts_check(const char *hosts)
{
	const char *rest = hosts;
	const char *chroot = strchr(hosts, '/');
	const char *why;
	ZkLockHostPort hp;
	bool		done;
	int			n = 0;

	for (;;)
	{
		why = zklock_hosts_next(&rest, &hp, &done);
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
