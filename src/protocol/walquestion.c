/*-------------------------------------------------------------------------
 *
 * walquestion.c
 *	  Who asks for a position in the WAL, and who answers.  See walquestion.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/walquestion.h"

#include "protocol/check.h"

/* Only a question that has been read is waited for. */
int64_t
zklock_answerer_due(const ZkLockAnswerer *answerer)
{
	return answerer->step != ZKLOCK_ANSWER_READ ||
		answerer->question == answerer->position.question ? INT64_MAX :
		answerer->written_at + ZKLOCK_ANSWERER_PACE;
}

/*
 * A record that was begun is published even if a newer question was read meanwhile, which
 * it does not answer.  An answer in time serves those who have asked the older one.
 */
ZkLockAnswerStep
zklock_answerer_next(ZkLockAnswerer *answerer, int64_t now)
{
	if (answerer->step != ZKLOCK_ANSWER_READ)
		return answerer->step;
	if (!answerer->watching)
		return ZKLOCK_ANSWER_READ;
	if (now < zklock_answerer_due(answerer))
		return ZKLOCK_ANSWER_WAIT;
	answerer->position.question = answerer->question;
	return answerer->step = ZKLOCK_ANSWER_WRITE;
}

/* The watch may fire before the reply is there. */
void
zklock_answerer_reads(ZkLockAnswerer *answerer)
{
	answerer->watching = true;
}

void
zklock_answerer_read(ZkLockAnswerer *answerer, int64_t question)
{
	answerer->question = question;
}

void
zklock_answerer_changed(ZkLockAnswerer *answerer)
{
	answerer->watching = false;
}

void
zklock_answerer_written(ZkLockAnswerer *answerer, int64_t now)
{
	ZKLOCK_ASSERT(answerer->step == ZKLOCK_ANSWER_WRITE);
	answerer->written_at = now;
	answerer->step = ZKLOCK_ANSWER_FLUSH;
}

void
zklock_answerer_flushed(ZkLockAnswerer *answerer)
{
	ZKLOCK_ASSERT(answerer->step == ZKLOCK_ANSWER_FLUSH);
	answerer->step = ZKLOCK_ANSWER_PUBLISH;
}

void
zklock_answerer_published(ZkLockAnswerer *answerer)
{
	ZKLOCK_ASSERT(answerer->step == ZKLOCK_ANSWER_PUBLISH);
	answerer->step = ZKLOCK_ANSWER_READ;
}

/*
 * One question is under way at a time.  Without that, backends that catch up in a loop have
 * the source flush in a loop for each of them.  If nobody has to answer, they would still
 * write to ZooKeeper in a loop.
 */
int64_t
zklock_asker_due(const ZkLockAsker *asker, uint64_t newest)
{
	return newest <= asker->ticket ? INT64_MAX :
		asker->asked_at + (asker->answered >= asker->question ?
						   ZKLOCK_ANSWERER_PACE : ZKLOCK_ASKER_PATIENCE);
}

void
zklock_asker_asked(ZkLockAsker *asker, uint64_t ticket, int64_t question, int64_t now)
{
	ZKLOCK_ASSERT(ticket > asker->ticket);
	asker->ticket = ticket;
	asker->question = question;
	asker->asked_at = now;
}

void
zklock_asker_answered(ZkLockAsker *asker, int64_t question)
{
	if (question > asker->answered)
		asker->answered = question;
}

/* Find what is kept of a server; -1: nothing. */
static int
find_kept(const ZkLockWalWait *wait, uint64_t server)
{
	for (int i = 0; i < wait->n; i++)
		if (wait->kept[i].answer.server == server)
			return i;
	return -1;
}

void
zklock_walwait_answered(ZkLockWalWait *wait, const ZkLockWalAnswer *answer)
{
	if (wait->question != 0 && answer->position.question >= wait->question &&
		wait->n < ZKLOCK_WAL_SERVERS && find_kept(wait, answer->server) < 0)
		wait->kept[wait->n++].answer = *answer;
}

bool
zklock_walwait_is_over(ZkLockWalWait *wait, uint64_t replayed, ZkLockFindWalRecord find)
{
	for (int i = 0; i < wait->n; i++)
	{
		const ZkLockWalPosition *position = &wait->kept[i].answer.position;
		ZkLockWalRecord record = ZKLOCK_WAL_RECORD_OTHER;

		if (wait->kept[i].is_foreign || position->end > replayed)
			continue;
		if (position->start < position->end)
			record = find(position);
		if (record == ZKLOCK_WAL_RECORD_FOUND)
			return true;
		wait->too_late |= record == ZKLOCK_WAL_RECORD_REMOVED;
		wait->kept[i].is_foreign = record == ZKLOCK_WAL_RECORD_OTHER;
	}
	return false;
}

bool
zklock_walwait_has_no_source(const ZkLockWalWait *wait, const ZkLockWalAnswer *answers, int n)
{
	for (int i = 0; i < n; i++)
	{
		int			kept = find_kept(wait, answers[i].server);

		if (kept < 0 || !wait->kept[kept].is_foreign)
			return false;
	}
	return n > 0;
}

const ZkLockWalPosition *
zklock_walwait_next(const ZkLockWalWait *wait)
{
	for (int i = 0; i < wait->n; i++)
		if (!wait->kept[i].is_foreign)
			return &wait->kept[i].answer.position;
	return NULL;
}
