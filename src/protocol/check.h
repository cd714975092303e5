/*-------------------------------------------------------------------------
 *
 * check.h
 *	  Assertions, for the folders that include no header of PostgreSQL.
 *
 * They are compiled where PostgreSQL has its own, which the Makefile finds out, and in
 * all tests.  A release build has none of them, nor of the functions that only they
 * call, which are inside #ifdef USE_ASSERT_CHECKING.  A condition has no effect.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CHECK_H
#define ZKLOCK_CHECK_H

#ifdef USE_ASSERT_CHECKING
#undef NDEBUG
#include <assert.h>
#define ZKLOCK_ASSERT(condition) assert(condition)
#else
#define ZKLOCK_ASSERT(condition) ((void) 0)
#endif

#endif							/* ZKLOCK_CHECK_H */
