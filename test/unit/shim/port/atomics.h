/*-------------------------------------------------------------------------
 *
 * atomics.h
 *	  Stands for PostgreSQL's port/atomics.h.  See shim.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ATOMICS_H
#define ATOMICS_H

#include "shim/shim.h"

typedef struct pg_atomic_flag
{
	volatile int value;
} pg_atomic_flag;

typedef struct pg_atomic_uint32
{
	volatile uint32 value;
} pg_atomic_uint32;

typedef struct pg_atomic_uint64
{
	volatile uint64 value;
} pg_atomic_uint64;

#define pg_compiler_barrier() __asm__ __volatile__("" ::: "memory")
#define pg_memory_barrier() shim_fence()
#define pg_read_barrier() shim_fence()
#define pg_write_barrier() shim_fence()
#define pg_spin_delay() ((void) 0)

#define SHIM_ATOMICS(bits) \
static inline void \
pg_atomic_init_u##bits(volatile pg_atomic_uint##bits *p, uint##bits value) \
{ \
	shim_write(&p->value, sizeof(p->value), value); \
} \
static inline uint##bits \
pg_atomic_read_u##bits(volatile pg_atomic_uint##bits *p) \
{ \
	return (uint##bits) shim_read(&p->value, sizeof(p->value)); \
} \
static inline void \
pg_atomic_write_u##bits(volatile pg_atomic_uint##bits *p, uint##bits value) \
{ \
	shim_write(&p->value, sizeof(p->value), value); \
} \
static inline uint##bits \
pg_atomic_exchange_u##bits(volatile pg_atomic_uint##bits *p, uint##bits value) \
{ \
	return (uint##bits) shim_exchange(&p->value, sizeof(p->value), value); \
} \
static inline bool \
pg_atomic_compare_exchange_u##bits(volatile pg_atomic_uint##bits *p, \
								   uint##bits *expected, uint##bits value) \
{ \
	uint64		found = *expected; \
	bool		done = shim_compare_exchange(&p->value, sizeof(p->value), \
											 &found, value); \
\
	*expected = (uint##bits) found; \
	return done; \
} \
static inline uint##bits \
pg_atomic_fetch_add_u##bits(volatile pg_atomic_uint##bits *p, int##bits n) \
{ \
	return (uint##bits) shim_fetch_add(&p->value, sizeof(p->value), \
									   (uint64) n); \
} \
static inline uint##bits \
pg_atomic_fetch_or_u##bits(volatile pg_atomic_uint##bits *p, uint##bits mask) \
{ \
	uint##bits	found = pg_atomic_read_u##bits(p); \
\
	while (!pg_atomic_compare_exchange_u##bits(p, &found, found | mask)) \
		; \
	return found; \
} \
static inline uint##bits \
pg_atomic_fetch_and_u##bits(volatile pg_atomic_uint##bits *p, uint##bits mask) \
{ \
	uint##bits	found = pg_atomic_read_u##bits(p); \
\
	while (!pg_atomic_compare_exchange_u##bits(p, &found, found & mask)) \
		; \
	return found; \
} \
static inline uint##bits \
pg_atomic_fetch_sub_u##bits(volatile pg_atomic_uint##bits *p, int##bits n) \
{ \
	return pg_atomic_fetch_add_u##bits(p, -n); \
} \
static inline uint##bits \
pg_atomic_add_fetch_u##bits(volatile pg_atomic_uint##bits *p, int##bits n) \
{ \
	return pg_atomic_fetch_add_u##bits(p, n) + (uint##bits) n; \
} \
static inline uint##bits \
pg_atomic_sub_fetch_u##bits(volatile pg_atomic_uint##bits *p, int##bits n) \
{ \
	return pg_atomic_add_fetch_u##bits(p, -n); \
}

SHIM_ATOMICS(32)
SHIM_ATOMICS(64)

#endif							/* ATOMICS_H */
