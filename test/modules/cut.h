/*
 * Cuts the connections of a process to ZooKeeper.
 */
#ifndef CUT_H
#define CUT_H

#include <sys/socket.h>

#define MAX_FDS 1024

/* All connections of the process, except that to its client, are to ZooKeeper. */
static void
cut_connections(void)
{
	for (int fd = 0; fd < MAX_FDS; fd++)
	{
		int			type = 0;
		socklen_t	size = sizeof(type);
		struct sockaddr_storage address;
		socklen_t	length = sizeof(address);

		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
			getpeername(fd, (struct sockaddr *) &address, &length) == 0 &&
			address.ss_family != AF_UNIX)
			shutdown(fd, SHUT_RDWR);
	}
}

#endif							/* CUT_H */
