/*-------------------------------------------------------------------------
 *
 * timer.c
 *	  A timer of the kernel that sends a signal to this process.  See timer.h.
 *
 *-------------------------------------------------------------------------
 */
#include "common/timer.h"

#include <signal.h>

bool
zklock_timer_create(timer_t *timer, int signal)
{
	struct sigevent event = {
		.sigev_notify = SIGEV_SIGNAL,
		.sigev_signo = signal
	};

	return timer_create(CLOCK_BOOTTIME, &event, timer) == 0;
}

void
zklock_timer_set(timer_t timer, int64_t at)
{
	struct itimerspec when = {
		.it_value = {at / 1000000000, at % 1000000000}
	};

	timer_settime(timer, TIMER_ABSTIME, &when, NULL);
}
