/*-------------------------------------------------------------------------
 *
 * memory.c
 *	  Memory contexts.  See backend.h.
 *
 * Each piece is malloc'd, so that AddressSanitizer knows it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <stdarg.h>
#include <stdio.h>

#include "nodes/memnodes.h"
#include "shim/backend.h"
#include "shim/shim.h"
#include "utils/memutils.h"

/* Signatures are those of PostgreSQL. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

typedef struct Piece
{
	struct Piece *prev;
	struct Piece *next;
	struct Context *context;
	size_t		size;
} Piece;

typedef struct Context
{
	MemoryContextData header;	/* of no use here */
	struct Context *next;
	Piece	   *pieces;
} Context;

static Context top;
static Context *others = NULL;

MemoryContext TopMemoryContext = (MemoryContext) &top;
MemoryContext TopTransactionContext = (MemoryContext) &top;
MemoryContext CurrentMemoryContext = (MemoryContext) &top;

/*
 * At the end of a transaction nothing may be allocated: an error there is a PANIC.
 * Under a lock nothing may, for an error would leave it.
 */
static void *
allocate(MemoryContext context, size_t size, bool zero)
{
	Context    *c = (Context *) context;
	Piece	   *piece;

	shim_point();
	if (shim_is_locked())
		shim_fail("memory is allocated under a lock");
	if (shim_xact_phase() != SHIM_XACT_NONE)
		shim_fail("memory is allocated at the end of a transaction");
	if (shim_is_out_of_memory())
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	piece = malloc(sizeof(Piece) + size);
	memset(piece + 1, zero ? 0 : 0x7F, size);
	piece->size = size;
	piece->context = c;
	piece->prev = NULL;
	piece->next = c->pieces;
	if (c->pieces != NULL)
		c->pieces->prev = piece;
	c->pieces = piece;
	return piece + 1;
}

void
pfree(void *pointer)
{
	Piece	   *piece = (Piece *) pointer - 1;

	if (piece->prev != NULL)
		piece->prev->next = piece->next;
	else
		piece->context->pieces = piece->next;
	if (piece->next != NULL)
		piece->next->prev = piece->prev;
	free(piece);
}

static void
free_pieces(Context *context)
{
	while (context->pieces != NULL)
		pfree(context->pieces + 1);
}

void
shim_memory_clear(void)
{
	free_pieces(&top);
	while (others != NULL)
		MemoryContextDelete((MemoryContext) others);
}

MemoryContext
AllocSetContextCreateInternal(MemoryContext parent, const char *name,
							  Size min, Size init, Size max)
{
	Context    *context;

	if (shim_is_out_of_memory())
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	context = calloc(1, sizeof(Context));
	context->next = others;
	others = context;
	return (MemoryContext) context;
}

void
MemoryContextReset(MemoryContext context)
{
	free_pieces((Context *) context);
}

void
MemoryContextSetParent(MemoryContext context, MemoryContext parent)
{
}

void
MemoryContextDelete(MemoryContext context)
{
	Context   **link = &others;

	while (*link != (Context *) context)
		link = &(*link)->next;
	*link = (*link)->next;
	free_pieces((Context *) context);
	free(context);
}

void *
MemoryContextAlloc(MemoryContext context, Size size)
{
	return allocate(context, size, false);
}

void *
MemoryContextAllocExtended(MemoryContext context, Size size, int flags)
{
	return shim_is_out_of_large_memory() ? NULL : allocate(context, size, false);
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return allocate(context, size, true);
}

void *
palloc(Size size)
{
	return allocate(CurrentMemoryContext, size, false);
}

void *
palloc0(Size size)
{
	return allocate(CurrentMemoryContext, size, true);
}

void *
repalloc(void *pointer, Size size)
{
	const Piece *piece = (Piece *) pointer - 1;
	void	   *copy = allocate((MemoryContext) piece->context, size, false);

	memcpy(copy, pointer, Min(size, piece->size));
	pfree(pointer);
	return copy;
}

char *
MemoryContextStrdup(MemoryContext context, const char *text)
{
	return strcpy(allocate(context, strlen(text) + 1, false), text);
}

char *
pstrdup(const char *text)
{
	return MemoryContextStrdup(CurrentMemoryContext, text);
}

char *
pnstrdup(const char *text, Size len)
{
	char	   *copy;

	len = strnlen(text, len);
	copy = palloc(len + 1);
	memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

char *
psprintf(const char *fmt,...)
{
	va_list		args;
	char	   *text;
	int			size;

	va_start(args, fmt);
	size = vsnprintf(NULL, 0, fmt, args) + 1;
	va_end(args);
	text = palloc(size);
	va_start(args, fmt);
	vsnprintf(text, size, fmt, args);
	va_end(args);
	return text;
}
