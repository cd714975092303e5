/*-------------------------------------------------------------------------
 *
 * server_shrink.h
 *	  Makes a schedule that violates a property smaller, for the simulation of servers.
 *
 * All of a schedule comes from one stream of random numbers, so that a part of it that
 * is left out changes all the rest.  So first what is drawn for it is reduced: servers,
 * backends, transactions, kinds of faults, and so on.  With each reduction some schedules
 * are tried, which differ in their `salt`; it is kept if one of them violates the same
 * property.  Then single steps of the shortest one are left out, faults and statements, as
 * long as it violates the property.  Behind a fault that is left out the random numbers are
 * those that followed it, so that usually all the rest is the same.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_SHRINK_H
#define SERVER_SHRINK_H

#include <stdbool.h>
#include <stdint.h>

/* A number that can be reduced to a minimum: by one each time; -1 (none) is one step off */
typedef struct ServerKnob
{
	int		   *value;
	int			minimum;
} ServerKnob;

/*
 * --shrink N: try so many schedules for each reduction; --less DIGITS: how often each
 * knob was reduced; --salt N; --without N,N,...: these steps are left out
 */
extern bool server_shrink_option(const char *name, const char *value);

/* Reduce what was drawn, and begin the random numbers of this salt. */
extern void server_shrink_plan(uint64_t seed, const ServerKnob *knobs, int n);

/* A step begins: is it left out?  Behind a fault that was not: */
extern bool server_shrink_omits(void);
extern void server_shrink_is_behind(void);

/* Play a schedule; shrink it if that was asked for, and it violates a property. */
extern void server_shrink_play(uint64_t seed, void (*play) (uint64_t seed));

#endif							/* SERVER_SHRINK_H */
