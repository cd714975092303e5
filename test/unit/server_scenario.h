/*-------------------------------------------------------------------------
 *
 * server_scenario.h
 *	  Short programs of a few processes, for the simulation of servers.
 *
 * They are in the file `scenarios`, which says how they are written.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_SCENARIO_H
#define SERVER_SCENARIO_H

#include "server_sim.h"
#include "shim/backend.h"

#define SERVER_MAX_STEPS 24
#define SERVER_MAX_RIVALS 2
#define SERVER_MAX_GIVEN 2
#define SERVER_MAX_FAULT_NAMES 14

/* Another client, which takes one lock */
typedef struct ServerRival
{
	int			path;
	bool		reader;
	bool		hides;			/* its node must not be read */
	int64_t		at;				/* ms */
	int64_t		holds_for;		/* ms */
} ServerRival;

/* A fault of the default schedule */
typedef struct ServerGivenFault
{
	char		name[16];
	int			server;
	int			backend;		/* of that server, from 1 on; 0: its worker */
	int64_t		at;				/* ms */
	bool		is_long;		/* longer than all timeouts */
	int64_t		lasts;			/* ms; 0: as a fault of this kind does */
} ServerGivenFault;

typedef struct ServerScenario
{
	char		name[40];
	ShimSettings settings;		/* of all servers */
	int			nleases;
	int			tick;			/* ms */
	int			chroot_len;		/* of the path that is ahead of all nodes */
	int			refuses;		/* percent of deletes that are refused */
	int			no_spares;		/* so many watches of look-aheads are refused
								 * first, in each session's client */
	int			no_parents;		/* so many requests for the parent of records
								 * lose the connection, likewise */
	int			leads;			/* the servers campaign */
	int			suspension;		/* ms for which a process stands still at
								 * least, if time passes meanwhile */
	int			nservers;
	int			nbackends[SERVER_MAX_SERVERS];
	int			from;			/* of the deviations, in ms */
	int			to;
	bool		has_own;		/* has any backend a session of its own? */
	ServerStep	steps[SERVER_MAX_PLACES][SERVER_MAX_STEPS];
	int			nsteps[SERVER_MAX_PLACES];
	ServerRival rivals[SERVER_MAX_RIVALS];
	int			nrivals;
	ServerGivenFault given[SERVER_MAX_GIVEN];
	int			ngiven;
	char		faults[SERVER_MAX_FAULT_NAMES][16]; /* of other schedules */
	int			nfaults;
} ServerScenario;

/* Read the scenarios of a file.  Returns their number; what is wrong there ends the program. */
extern int	server_scenario_read(const char *file, const ServerScenario **scenarios);

#endif							/* SERVER_SCENARIO_H */
