/*-------------------------------------------------------------------------
 *
 * mode.c
 *	  The modes of locks, and everything in which they differ.  See mode.h.
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
		.revocable = true
	},
	[ZKLOCK_WRITE] = {
		.name = "write",
		.marker = "__WRIT__",
		.kind = &zklock_contender_writer,
		.has_gate = true,
		.revocable = true
	},
	/* Its node's data tells it from those of others. */
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
