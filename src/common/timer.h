/*-------------------------------------------------------------------------
 *
 * timer.h
 *	  A timer of the kernel that sends a signal to this process, at a time of
 *	  the clock (clock.h).
 *
 * It needs no thread, and expires whatever the process does.  A new process
 * does not inherit it, and its process's end deletes it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_TIMER_H
#define ZKLOCK_TIMER_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Create a timer that is not set.  Returns false if the kernel has none left. */
extern bool zklock_timer_create(timer_t *timer, int signal);

/*
 * Have the signal sent once, at the time `at`, at once if that has passed, or
 * never if it is 0.  Replaces an earlier time.  For signal handlers, too.
 */
extern void zklock_timer_set(timer_t timer, int64_t at);

#endif							/* ZKLOCK_TIMER_H */
