/*-------------------------------------------------------------------------
 *
 * server_data.c
 *	  The data of servers that copy each other's.  See server_data.h.
 *
 *-------------------------------------------------------------------------
 */
#include "server_data.h"

#include <stdint.h>
#include <string.h>

#include "server_sim.h"
#include "shim/scheduler.h"

/* So many commits may be on their way; older ones are there. */
#define MAX_UNDER_WAY 1024

/* What a server shows of another one's data */
typedef struct Copy
{
	int64_t		last_arrival;
	int64_t		arrivals[MAX_UNDER_WAY];	/* by position */
} Copy;

/* The position of a server's last commit; it is 0 before the first. */
static int64_t positions[SERVER_MAX_SERVERS];
static int64_t positions_of_lock[SERVER_N_LOCKS][SERVER_MAX_SERVERS];
static Copy copies[SERVER_MAX_SERVERS][SERVER_MAX_SERVERS]; /* of the first, on the
															 * second */
static bool stale[SERVER_MAX_PLACES][SERVER_N_LOCKS];

/* Was the last wait of a server without success? */
static bool is_behind[SERVER_MAX_SERVERS];

void
server_data_reset(void)
{
	memset(positions, 0, sizeof(positions));
	memset(positions_of_lock, 0, sizeof(positions_of_lock));
	memset(copies, 0, sizeof(copies));
	memset(stale, 0, sizeof(stale));
	memset(is_behind, 0, sizeof(is_behind));
}

static int
current_server(void)
{
	return shim_scheduler_server(shim_scheduler_current());
}

/* When does the second server show this position of the first? */
static int64_t
shown_at(int from, int to, int64_t position)
{
	if (from == to || position <= positions[from] - MAX_UNDER_WAY || position == 0)
		return 0;
	return copies[from][to].arrivals[position % MAX_UNDER_WAY];
}

/* Apply may have to begin anew. */
static int64_t
draw_delay(void)
{
	return (sim_percent(5) ? sim_random(400000) : sim_random(20000)) * SERVER_MS / 1000;
}

void
server_data_committed(int process, int lock)
{
	int			server = process / SERVER_PLACES;
	int64_t		position;

	if (!server_plan.copies)
		return;
	position = ++positions[server];
	positions_of_lock[lock][server] = position;
	for (int to = 0; to < server_plan.nservers; to++)
	{
		Copy	   *copy = &copies[server][to];
		int64_t		arrival = sim.now + draw_delay();

		if (arrival > copy->last_arrival)
			copy->last_arrival = arrival;
		copy->arrivals[position % MAX_UNDER_WAY] = copy->last_arrival;
	}
}

bool
server_data_is_stale(int process, int lock)
{
	return stale[process][lock];
}

void
server_data_ask(int64_t *asked)
{
	memcpy(asked, positions, sizeof(positions));
}

int64_t
server_data_reached_at(const int64_t *asked)
{
	int64_t		at = 0;

	for (int from = 0; from < server_plan.nservers; from++)
	{
		int64_t		shown = shown_at(from, current_server(), asked[from]);

		if (shown > at)
			at = shown;
	}
	return at;
}

void
server_data_granted(int lock, bool catches_up)
{
	stale[shim_scheduler_current()][lock] = catches_up &&
		server_data_reached_at(positions_of_lock[lock]) > sim.now;
	if (catches_up)
		sim_count(SERVER_N_CAUGHT_UP);
}

bool
server_data_is_behind(void)
{
	return is_behind[current_server()];
}

void
server_data_set_behind(bool behind)
{
	is_behind[current_server()] = behind;
}
