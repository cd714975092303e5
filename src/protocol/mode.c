/*-------------------------------------------------------------------------
 *
 * mode.c
 *	  The modes of locks, and all their differences.  See mode.h.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/mode.h"

const ZkLockModeRow zklock_mode_table[ZKLOCK_N_MODES] = {
	[ZKLOCK_EXCLUSIVE] = {
		.name = "exclusive",
		.marker = "lock-",
		.kind = &zklock_contender_mutex,
		.has_gate = true,
		.revocable = true
	},
	[ZKLOCK_SHARED] = {
		.name = "shared",
		.marker = "__READ__",
		.kind = &zklock_contender_reader,
		.has_gate = true,
		.revocable = true
	},
	[ZKLOCK_WRITE] = {
		.name = "write",
		.marker = "__WRIT__",
		.kind = &zklock_contender_writer,
		.has_gate = true,
		.revocable = true
	},
	/* The data of its node distinguishes it from other clients' nodes. */
	[ZKLOCK_SIMPLE] = {
		.name = "simple"
	},
	/* InterProcessSemaphoreV2 */
	[ZKLOCK_SEMAPHORE] = {
		.name = "semaphore",
		.marker = "lease-",
		.dir = "leases",
		.mutex = "locks",
		.has_permits = true,
		.revocable = true
	}
};
