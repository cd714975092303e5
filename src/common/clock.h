/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  The clock of all times here: nanoseconds on CLOCK_BOOTTIME, which also
 *	  runs while the machine is suspended, as ZooKeeper's servers do.
 *
 * Promises that the clock is never set back, and that it is the same for all processes of the
 * machine, so that times in shared memory can be compared.  After a restart of the machine,
 * earlier times mean nothing.  Any thread may read it, and a signal handler, too.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CLOCK_H
#define ZKLOCK_CLOCK_H

#include <stdint.h>

#define ZKLOCK_NEVER INT64_MAX
#define ZKLOCK_NS_PER_MS INT64_C(1000000)

extern int64_t zklock_clock_now(void);

#endif							/* ZKLOCK_CLOCK_H */
