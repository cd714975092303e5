/*-------------------------------------------------------------------------
 *
 * campaign.c
 *	  The worker's campaign for each path of zklock.leaders.  See campaign.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "access/xlog.h"
#include "common/clock.h"
#include "common/guc.h"
#include "session/errors.h"
#include "session/nodedata.h"
#include "session/session.h"
#include "shared/claims.h"
#include "shared/leaders.h"
#include "shared/sessionstate.h"
#include "shared/slots.h"
#include "worker/campaign.h"
#include "worker/keeper.h"
#include "worker/workerattempts.h"

/* Pause after a failure */
#define PAUSE_MS 1000

/* How often the worker checks whether commits have ended, and a node is deleted */
#define POLL_MS 10

typedef enum Phase
{
	IDLE,
	QUEUED,						/* a node is requested */
	LEADING,
	ENDING,						/* the term is over, commits may be under way */
	LEAVING						/* the node is given up */
} Phase;

typedef struct Campaign
{
	char		path[ZKLOCK_PATH_SIZE]; /* "": none */
	bool		listed;			/* in zklock.leaders? */
	Phase		phase;
	ZkLockClaim *claim;			/* NULL: none yet */
	ZkLockGeneration generation;	/* of the request */
	int64		pause_until;
	bool		failed;			/* was a failure logged, and no success since? */

	/* the question that is passed on; 0: none */
	uint32		question;		/* its number at the slot */
	uint32		asked;			/* that of those who ask */
} Campaign;

/* Their numbers are those of leaders.h. */
static Campaign campaigns[ZKLOCK_MAX_LEADERS];
static int	ncampaigns = 0;		/* those from here on are empty */

/* Must the setting be read again?  Has it been read since it may have changed? */
static bool is_unread = true;
static bool was_read = false;

/* The data of all nodes */
static char *data;

void
zklock_campaign_init(void)
{
	data = zklock_nodedata_leader();
	zklock_leaders_worker_starts();
}

void
zklock_campaign_reload(void)
{
	is_unread = true;
	was_read = false;
}

static int
number_of(const Campaign *c)
{
	return (int) (c - campaigns);
}

static Campaign *
find(const char *path)
{
	for (Campaign *c = campaigns; c < campaigns + ncampaigns; c++)
		if (strcmp(c->path, path) == 0)
			return c;
	return NULL;
}

/* Is the path not below that of all the server's locks? */
static bool
is_outside(const char *path)
{
	const char *prefix = zklock_guc_path_prefix();

	return prefix[0] != '\0' && !zklock_path_is_below(path, prefix);
}

/* Add a path.  Returns false as long as those that it replaces have not left their queues. */
static bool
add(const char *path)
{
	Campaign   *c = find("");

	if (c == NULL && ncampaigns < ZKLOCK_MAX_LEADERS)
		c = &campaigns[ncampaigns++];
	if (c == NULL)
		return false;
	memset(c, 0, sizeof(*c));
	strlcpy(c->path, path, sizeof(c->path));
	c->listed = true;
	zklock_leaders_set_path(number_of(c), path);
	return true;
}

static void
read_setting(void)
{
	const char *rest = zklock_guc_leaders;
	char		path[ZKLOCK_PATH_SIZE];

	is_unread = false;
	for (Campaign *c = campaigns; c < campaigns + ncampaigns; c++)
		c->listed = false;
	while (zklock_path_next(&rest, path))
	{
		Campaign   *c = find(path);

		if (is_outside(path))
		{
			if (!was_read)
				ereport(LOG,
						(errmsg("this server does not campaign for \"%s\"",
								zklock_errors_path(path)),
						 errdetail("It is in zklock.leaders, but not below zklock.path_prefix.")));
		}
		else if (c != NULL)
			c->listed = true;
		else if (!add(path))
			is_unread = true;
	}
	was_read = true;
}

/* Try again later. */
static void
put_off(Campaign *c, const char *why)
{
	c->pause_until = zklock_clock_now() + PAUSE_MS * ZKLOCK_NS_PER_MS;
	if (!c->failed)
		ereport(LOG,
				(errmsg("this server cannot campaign for \"%s\" now", zklock_errors_path(c->path)),
				 errdetail("%s", why)));
	c->failed = true;
}

/*
 * Nobody else of this server uses the path, except from before it was in the setting.  To stand in
 * the queue is no wait that anybody has to look at, so the claim is hidden until the grant.
 */
static void
join_queue(Campaign *c)
{
	ZkLockSlotParams asked = {
		.request = {.params = {.mode = ZKLOCK_EXCLUSIVE},.path = c->path},
		.generation = zklock_sessionstate_generation(),
		.data = data
	};

	if (c->claim == NULL)
		c->claim = zklock_claims_enter(c->path, ZKLOCK_EXCLUSIVE, NULL, true);
	if (c->claim == NULL)
	{
		/* It may be there with the next try. */
		zklock_keeper_give_up_all();
		put_off(c, "There is no room in shared memory: see zklock.max_locks.");
		return;
	}
	zklock_claims_count(c->claim, 1, 0);
	zklock_slots_make_way(c->claim, false);
	zklock_slots_request(c->claim, &asked);
	c->generation = asked.generation;
	c->phase = QUEUED;
}

static void
leave_queue(Campaign *c)
{
	zklock_claims_show(c->claim, false);
	(void) zklock_slots_give_up(c->claim, 0, NULL);
	c->question = 0;
	c->phase = LEAVING;
}

static void
begin_term(Campaign *c, const ZkLockOutcome *outcome)
{
	if (!zklock_slots_accept(c->claim))
	{
		leave_queue(c);
		return;
	}
	zklock_claims_show(c->claim, true);
	zklock_leaders_begin(number_of(c), c->generation, outcome->token);
	c->failed = false;
	c->phase = LEADING;
	ereport(LOG,
			(errmsg("this server leads \"%s\"", zklock_errors_path(c->path))));
}

static const char *
reason_of(const ZkLockSlotState *state)
{
	switch (state->outcome.verdict)
	{
		case ZKLOCK_TOO_MANY_NODES:
			return "There is no room in the session: see zklock.max_session_size.";
		case ZKLOCK_TOO_MANY_WATCHES:
			return "There is no room in the session for one more watch.";
		case ZKLOCK_EXHAUSTED:
			return "The sequence numbers of the path are used up.";
		default:
			return state->text[0] == '\0' ? "The path is used for something else." :
				psprintf("ZooKeeper refused to %s.", zklock_errors_path(state->text));
	}
}

/* The session's end may have been noticed before the slot's state was changed. */
static void
look_at_queue(Campaign *c)
{
	static ZkLockSlotState state;

	zklock_slots_get_state(c->claim, &state);
	if (c->generation != zklock_sessionstate_generation() ||
		state.outcome.verdict == ZKLOCK_EXPIRED)
		leave_queue(c);
	else if (state.outcome.verdict == ZKLOCK_GRANTED)
		begin_term(c, &state.outcome);
	else if (state.outcome.verdict == ZKLOCK_PENDING && state.outcome.queued)
	{
		zklock_leaders_set(number_of(c), ZKLOCK_LEADING_WAITS);
		c->failed = false;
	}
	else if (state.outcome.verdict != ZKLOCK_PENDING)
	{
		put_off(c, c->failed ? "" : reason_of(&state));
		leave_queue(c);
	}
}

/* Pass a question of those who rely on the term on to the slot, and the answer back. */
static void
pass_on_question(Campaign *c)
{
	int			present = ZKLOCK_ANSWER_GONE;

	if (c->question == 0)
	{
		c->asked = zklock_leaders_asked(number_of(c));
		if (c->asked != 0)
			c->question = zklock_slots_ask(c->claim);
	}
	if (c->question == 0 || !zklock_slots_is_answered(c->claim, c->question, &present))
		return;
	zklock_leaders_answer(number_of(c), c->asked, present);
	c->question = 0;
}

static void
end_term(Campaign *c, const char *why)
{
	zklock_leaders_end(number_of(c));
	c->phase = ENDING;
	ereport(LOG,
			(errmsg("this server no longer leads \"%s\"", zklock_errors_path(c->path)),
			 errdetail("%s", why)));
}

/*
 * Must the node be given up, so that the session can end?  This comes last, because somebody may
 * hold a lock of the session for days, and nobody would lead meanwhile if the others fail.  A
 * backend that waited before the path was in the setting may be behind the node, and the end of
 * the session waits for the backend.
 */
static bool
ends_session(const Campaign *c, ZkLockCampaignStage stage)
{
	return stage == ZKLOCK_CAMPAIGN_END ||
		(stage == ZKLOCK_CAMPAIGN_WITHDRAW && zklock_workerattempts_waits_at(c->path));
}

/* Why must the term end now?  NULL: it lasts. */
static const char *
end_of_term(const Campaign *c, ZkLockCampaignStage stage)
{
	return c->generation != zklock_sessionstate_generation() ?
		"The ZooKeeper session has ended." :
		zklock_slots_is_node_deleted(c->claim) ? "Its node in ZooKeeper is gone." :
		zklock_leaders_is_resigned(number_of(c)) ? "It was asked to resign." :
		!c->listed ? "zklock.leaders has changed." :
		ends_session(c, stage) ? "The ZooKeeper session will end." : NULL;
}

/* Is the node gone, as far as ZooKeeper has answered?  It is with its session. */
static bool
is_gone(const Campaign *c)
{
	return zklock_slots_is_idle(c->claim) &&
		(c->generation != zklock_sessionstate_generation() || zklock_session_status() == NULL ||
		 !zklock_zkclient_is_deleting(zklock_session_client(), c->path));
}

static void
forget(Campaign *c)
{
	if (c->claim != NULL)
		zklock_claims_remove(c->claim);
	zklock_leaders_set_path(number_of(c), "");
	memset(c, 0, sizeof(*c));
}

/* Leave the queue unless a commit still relies on the term. */
static void
leave_after_commits(Campaign *c)
{
	if (!zklock_leaders_is_committing(number_of(c)))
		leave_queue(c);
}

/* There is no node. */
static void
go_on(Campaign *c, ZkLockCampaignStage stage)
{
	if (!c->listed)
		forget(c);
	else if (stage == ZKLOCK_CAMPAIGN_JOIN && zklock_clock_now() >= c->pause_until &&
			 !RecoveryInProgress())
		join_queue(c);
}

static void
step(Campaign *c, ZkLockCampaignStage stage)
{
	const char *why;

	switch (c->phase)
	{
		case IDLE:
			go_on(c, stage);
			break;
		case QUEUED:
			if (!c->listed || ends_session(c, stage))
				leave_queue(c);
			else
				look_at_queue(c);
			break;
		case LEADING:
			why = end_of_term(c, stage);
			if (why == NULL)
				pass_on_question(c);
			else
			{
				end_term(c, why);
				leave_after_commits(c);
			}
			break;
		case ENDING:
			leave_after_commits(c);
			break;
		case LEAVING:
			if (!is_gone(c))
				break;
			zklock_leaders_set(number_of(c), ZKLOCK_LEADING_NOT);
			c->phase = IDLE;
			go_on(c, stage);
			break;
	}
}

void
zklock_campaign_run(ZkLockCampaignStage stage)
{
	if (is_unread)
		read_setting();
	for (Campaign *c = campaigns; c < campaigns + ncampaigns; c++)
		if (c->path[0] != '\0')
			step(c, stage);
	while (ncampaigns > 0 && campaigns[ncampaigns - 1].path[0] == '\0')
		ncampaigns--;
}

int
zklock_campaign_short_ms(void)
{
	for (const Campaign *c = campaigns; c < campaigns + ncampaigns; c++)
		if (c->phase == ENDING || c->phase == LEAVING)
			return POLL_MS;
	return INT_MAX;
}

bool
zklock_campaign_needs_session(void)
{
	return ncampaigns > 0 && !RecoveryInProgress();
}

bool
zklock_campaign_is_over(void)
{
	for (const Campaign *c = campaigns; c < campaigns + ncampaigns; c++)
		if (c->phase != IDLE && (c->phase != LEAVING || !zklock_slots_is_idle(c->claim)))
			return false;
	return true;
}
