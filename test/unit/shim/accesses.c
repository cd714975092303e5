/*-------------------------------------------------------------------------
 *
 * accesses.c
 *	  What the compiler calls before accesses that concern nobody.
 *
 * What is compiled for ThreadSanitizer calls a function before each access to memory.
 * Here those before accesses to something volatile are points of the scheduler; these are
 * the others.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

/* AddressSanitizer cannot be had together with these. */
#ifndef __SANITIZE_ADDRESS__

/* Signatures are those of ThreadSanitizer. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

void		__tsan_init(void);
void		__tsan_func_entry(void *caller);
void		__tsan_func_exit(void);
void		__tsan_read_range(void *p, unsigned long size);
void		__tsan_write_range(void *p, unsigned long size);
void	   *__tsan_memcpy(void *to, const void *from, size_t size);
void	   *__tsan_memset(void *to, int c, size_t size);

void
__tsan_init(void)
{
}

void
__tsan_func_entry(void *caller)
{
}

void
__tsan_func_exit(void)
{
}

void
__tsan_read_range(void *p, unsigned long size)
{
}

void
__tsan_write_range(void *p, unsigned long size)
{
}

void *
__tsan_memcpy(void *to, const void *from, size_t size)
{
	return memcpy(to, from, size);
}

void *
__tsan_memset(void *to, int c, size_t size)
{
	return memset(to, c, size);
}

#define ACCESS(name) \
void		__tsan_##name(void *p); \
void \
__tsan_##name(void *p) \
{ \
}

#define ACCESSES(size) \
ACCESS(read##size) \
ACCESS(write##size) \
ACCESS(unaligned_read##size) \
ACCESS(unaligned_write##size)

ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

#endif
