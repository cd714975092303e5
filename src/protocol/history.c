/*-------------------------------------------------------------------------
 *
 * history.c
 *	  Whether a lock is used by this server alone.  See history.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/history.h"

#include "protocol/check.h"

bool
zklock_history_may_keep(const ZkLockHistory *history, uint32_t hash, int64_t now,
						int64_t keep)
{
	return history->hash == hash && history->alone &&
		now - history->used_at < keep && now >= history->pause_until;
}

bool
zklock_history_granted(ZkLockHistory *history, uint32_t hash, int64_t number)
{
	ZKLOCK_ASSERT(number >= 0);
	if (history->hash != hash)
		*history = (ZkLockHistory) {.hash = hash,.number = -1};
	history->alone = history->number >= 0 && number == history->number + 1;
	history->number = number;
	return history->alone;
}

void
zklock_history_ended(ZkLockHistory *history, uint32_t hash, int64_t used_at)
{
	if (history->hash == hash)
		history->used_at = used_at;
}

/* A pause is doubled if it follows soon, measured by the previous one. */
void
zklock_history_recalled(ZkLockHistory *history, uint32_t hash, int64_t now)
{
	int64_t		pause = ZKLOCK_HISTORY_PAUSE;

	if (history->hash != hash)
		return;
	if (history->pause != 0 && now - history->pause_until < 10 * history->pause)
		pause = 2 * history->pause;
	if (pause > ZKLOCK_HISTORY_MAX_PAUSE)
		pause = ZKLOCK_HISTORY_MAX_PAUSE;
	ZKLOCK_ASSERT(pause >= ZKLOCK_HISTORY_PAUSE && pause <= ZKLOCK_HISTORY_MAX_PAUSE);
	history->pause = pause;
	history->pause_until = now + pause;
}
