/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  The clock.  See clock.h.
 *
 *-------------------------------------------------------------------------
 */
#include "common/clock.h"

#include <time.h>

int64_t
zklock_clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}
