/*-------------------------------------------------------------------------
 *
 * zklog.c
 *	  Passes log lines of the client library to the backend.  See zklog.h.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zklog.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "protocol/check.h"

#define RING_LINES 32

/*
 * The library writes hundreds of thousands of lines a second when it cannot
 * resolve a name.
 */
#define LINES_PER_SECOND 10

typedef struct LogLine
{
	bool		connecting;
	unsigned	suppressed;		/* lines dropped before this one */
	char		text[ZKLOCK_LOG_LINE];
} LogLine;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LogLine ring[RING_LINES];
static unsigned first;			/* index of the oldest line */
static unsigned count;			/* lines in the ring */
static unsigned dropped;		/* since the last accepted line */
static time_t second;			/* the second that in_second counts */
static unsigned in_second;		/* lines accepted in that second */

void
zklock_zklog_put(const char *line, bool connecting)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	pthread_mutex_lock(&lock);
	ZKLOCK_ASSERT(count <= RING_LINES && first < RING_LINES);
	if (now.tv_sec != second)
	{
		second = now.tv_sec;
		in_second = 0;
	}
	if (count >= (connecting ? RING_LINES / 2 : RING_LINES) ||
		in_second == LINES_PER_SECOND)
		dropped++;
	else
	{
		LogLine    *slot = &ring[(first + count) % RING_LINES];
		size_t		len = strcspn(line, "\n");

		if (len >= ZKLOCK_LOG_LINE)
			len = ZKLOCK_LOG_LINE - 1;
		memcpy(slot->text, line, len);
		slot->text[len] = '\0';
		slot->suppressed = dropped;
		slot->connecting = connecting;
		dropped = 0;
		in_second++;
		count++;
	}
	pthread_mutex_unlock(&lock);
}

bool
zklock_zklog_take(char *line, bool *connecting, unsigned *suppressed)
{
	bool		found;

	pthread_mutex_lock(&lock);
	found = count > 0;
	if (found)
	{
		strcpy(line, ring[first].text);
		*suppressed = ring[first].suppressed;
		*connecting = ring[first].connecting;
		first = (first + 1) % RING_LINES;
		count--;
	}
	pthread_mutex_unlock(&lock);
	return found;
}
