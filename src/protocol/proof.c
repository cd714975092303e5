/*-------------------------------------------------------------------------
 *
 * proof.c
 *	  What proves that a ZooKeeper session lives.  See proof.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/proof.h"

#include <string.h>

#include "protocol/check.h"

/* Marks that are not further apart would only take the place of older ones. */
#define PART_APART 48

/* Distance of a mark's answer and the write that proves it: half a tick, and T/24 */
static int64_t
distance(int64_t timeout)
{
	return timeout * 7 / 24;
}

static void
forget_marks(ZkLockProof *proof, int n)
{
	proof->nmarks -= n;
	memmove(proof->mark, proof->mark + n, proof->nmarks * sizeof(proof->mark[0]));
}

static void
add_mark(ZkLockProof *proof, int64_t sent, int64_t answered)
{
	if (proof->nmarks == ZKLOCK_PROOF_MARKS)
		forget_marks(proof, 1);
	proof->mark[proof->nmarks].sent = sent;
	proof->mark[proof->nmarks].answered = answered;
	proof->mark[proof->nmarks].connection = proof->connection;
	proof->nmarks++;
}

void
zklock_proof_connected(ZkLockProof *proof, int64_t begun)
{
	ZKLOCK_ASSERT(begun == 0 || (proof->confirmed == 0 && proof->connection == 0));
	if (begun != 0)
		proof->confirmed = begun;
	proof->connection++;
}

bool
zklock_proof_answered(ZkLockProof *proof, int64_t timeout, int64_t sent,
					  int64_t answered)
{
	int			n;
	bool		changed = false;

	ZKLOCK_ASSERT(timeout > 0 && proof->nmarks <= ZKLOCK_PROOF_MARKS);
	if (answered - sent > zklock_proof_answer(timeout))
		proof->nmarks = 0;
	n = proof->nmarks;
	while (n > 0 && proof->mark[n - 1].connection == proof->connection &&
		   proof->mark[n - 1].answered + distance(timeout) > sent)
		n--;
	if (n > 0)
	{
		changed = proof->mark[n - 1].sent > proof->confirmed;
		if (changed)
			proof->confirmed = proof->mark[n - 1].sent;
		forget_marks(proof, n);
	}
	if (proof->nmarks == 0 ||
		sent >= proof->mark[proof->nmarks - 1].sent + timeout / PART_APART)
		add_mark(proof, sent, answered);
	return changed;
}
