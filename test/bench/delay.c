/*-------------------------------------------------------------------------
 *
 * delay.c
 *	  A relay that delays the frames to and from ZooKeeper.
 *
 *	delay <port of the server> <microseconds>
 *
 * Listens on a free port of this machine, which it prints first, and forwards
 * all bytes in both directions after the delay. The delay is the same for all
 * bytes, so they leave in the order of arrival, on whatever connection.
 *
 * For each line that it reads it prints how many bytes have come from clients and
 * from the server.  It ends with its standard input.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_US 1000
#define NS_PER_S INT64_C(1000000000)

/* One end of a connection */
typedef struct End
{
	int			fd;
	bool		of_client;
	bool		shut;			/* nothing more is sent to it */
	struct End *other;
} End;

/* Bytes on their way; length zero: the end of the stream */
typedef struct Chunk
{
	struct Chunk *next;
	int64_t		due;
	End		   *to;
	size_t		len;
	char		data[];
} Chunk;

static Chunk *first;
static Chunk **last = &first;
static int64_t lateness;
static int64_t bytes[2];		/* from servers, from clients */
static int	set;
static int	timer;
static uint16_t server_port;

static void
check(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static int64_t
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static void
watch(int fd, void *ptr)
{
	struct epoll_event event = {.events = EPOLLIN,.data.ptr = ptr};

	check(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
}

static struct sockaddr_in
local(uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,.sin_port = htons(port)};

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

static End *
new_end(int fd, bool of_client)
{
	int			on = 1;
	End		   *end = calloc(1, sizeof(End));

	check(end != NULL, "calloc");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	end->fd = fd;
	end->of_client = of_client;
	return end;
}

static void
accept_client(int listener)
{
	struct sockaddr_in address = local(server_port);
	int			client = accept(listener, NULL, NULL);
	int			server = socket(AF_INET, SOCK_STREAM, 0);
	End		   *a;
	End		   *b;

	check(client >= 0 && server >= 0, "socket");
	if (connect(server, (struct sockaddr *) &address, sizeof(address)) != 0)
	{
		close(client);
		close(server);
		return;
	}
	a = new_end(client, true);
	b = new_end(server, false);
	a->other = b;
	b->other = a;
	watch(client, a);
	watch(server, b);
}

/* Sets the timer to the time when the first chunk is due. */
static void
arm(void)
{
	struct itimerspec when = {{0, 0}, {0, 0}};

	if (first != NULL)
	{
		when.it_value.tv_sec = first->due / NS_PER_S;
		when.it_value.tv_nsec = first->due % NS_PER_S;
	}
	timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void
take_in(End *from)
{
	static char buffer[65536];
	ssize_t		len = recv(from->fd, buffer, sizeof(buffer), 0);
	Chunk	   *chunk;

	if (len < 0 && errno == EINTR)
		return;
	if (len <= 0)
	{
		len = 0;
		epoll_ctl(set, EPOLL_CTL_DEL, from->fd, NULL);
	}
	bytes[from->of_client] += len;
	chunk = malloc(sizeof(Chunk) + len);
	check(chunk != NULL, "malloc");
	chunk->next = NULL;
	chunk->due = now() + lateness;
	chunk->to = from->other;
	chunk->len = len;
	memcpy(chunk->data, buffer, len);
	*last = chunk;
	last = &chunk->next;
	if (first == chunk)
		arm();
}

/* The other end has closed its side of the connection. */
static void
shut(End *end)
{
	shutdown(end->fd, SHUT_WR);
	end->shut = true;
	if (!end->other->shut)
		return;					/* the other direction stays open */
	close(end->fd);
	close(end->other->fd);
	free(end->other);
	free(end);
}

/* Sockets block, which causes no deadlock as long as all peers read. */
static void
pass_on(void)
{
	while (first != NULL && first->due <= now())
	{
		Chunk	   *chunk = first;
		size_t		done = 0;

		first = chunk->next;
		if (first == NULL)
			last = &first;
		while (done < chunk->len)
		{
			ssize_t		n = send(chunk->to->fd, chunk->data + done,
								 chunk->len - done, MSG_NOSIGNAL);

			if (n < 0 && errno != EINTR)
				break;			/* its end will be read */
			done += n > 0 ? n : 0;
		}
		if (chunk->len == 0)
			shut(chunk->to);
		free(chunk);
	}
	arm();
}

int
main(int argc, char **argv)
{
	struct sockaddr_in address = local(0);
	socklen_t	size = sizeof(address);
	int			listener = socket(AF_INET, SOCK_STREAM, 0);

	if (argc != 3)
		return 2;
	server_port = atoi(argv[1]);
	lateness = atoll(argv[2]) * NS_PER_US;
	set = epoll_create1(0);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	check(bind(listener, (struct sockaddr *) &address, sizeof(address)) == 0 &&
		  listen(listener, 1024) == 0 &&
		  getsockname(listener, (struct sockaddr *) &address, &size) == 0,
		  "listen");
	watch(listener, &listener);
	watch(timer, &timer);
	watch(STDIN_FILENO, NULL);
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);

	for (;;)
	{
		struct epoll_event events[64];
		int			n = epoll_wait(set, events, 64, -1);

		for (int i = 0; i < n; i++)
		{
			void	   *ptr = events[i].data.ptr;
			char		line[64];
			uint64_t	count;

			if (ptr == &listener)
				accept_client(listener);
			else if (ptr == &timer)
			{
				if (read(timer, &count, sizeof(count)) < 0)
					continue;
			}
			else if (ptr != NULL)
				take_in(ptr);
			else if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
				return 0;
			else
			{
				printf("%lld %lld\n", (long long) bytes[1],
					   (long long) bytes[0]);
				fflush(stdout);
			}
		}
		pass_on();
	}
}
