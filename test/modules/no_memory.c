/*
 * A library that has zklock run out of memory: in one process, a chosen one of its
 * calls that allocate fails, be it one of PostgreSQL's, of libc, or of ZooKeeper's
 * client, which then does not take a request.  To be preloaded behind zklock, of
 * which it replaces the addresses of these functions.
 */
#define _GNU_SOURCE
#include "postgres.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(no_memory);
PG_FUNCTION_INFO_V1(no_memory_calls);

extern PGDLLEXPORT void _PG_init(void);
extern PGDLLEXPORT Datum no_memory(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum no_memory_calls(PG_FUNCTION_ARGS);

/* In memory of all processes */
typedef struct Control
{
	volatile int pid;			/* whose calls count; 0: nobody's */
	volatile int calls;			/* so many there were */
	volatile int which;			/* the one that fails */
	char		name[64];		/* what that was */
} Control;

static Control *control;

static bool
fails(const char *name)
{
	if (control->pid == 0 || control->pid != (int) getpid() ||
		__sync_add_and_fetch(&control->calls, 1) != control->which)
		return false;
	strncpy(control->name, name, sizeof(control->name) - 1);
	return true;
}

static void
raise_if(const char *name)
{
	if (fails(name))
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory"),
				 errdetail("Failed in %s, on purpose.", name)));
}

/* Those that raise an error */
#define RAISING(type, name, params, args) \
	static type my_##name params { raise_if(#name); return name args; }

RAISING(void *, palloc, (Size size), (size))
RAISING(void *, palloc0, (Size size), (size))
RAISING(char *, pstrdup, (const char *s), (s))
RAISING(void *, MemoryContextAlloc, (MemoryContext c, Size size), (c, size))
RAISING(char *, MemoryContextStrdup, (MemoryContext c, const char *s), (c, s))
RAISING(void *, repalloc, (void *p, Size size), (p, size))
RAISING(MemoryContext, AllocSetContextCreateInternal,
		(MemoryContext parent, const char *name, Size min, Size init, Size max),
		(parent, name, min, init, max))

static void *
my_hash_search(HTAB *table, const void *key, HASHACTION action, bool *found)
{
	if (action == HASH_ENTER)
		raise_if("hash_search");
	return hash_search(table, key, action, found);
}

/* Those that return so */
#define RETURNING(type, name, params, args, failure) \
	static type my_##name params { return fails(#name) ? failure : name args; }

RETURNING(void *, malloc, (size_t size), (size), NULL)
RETURNING(void *, calloc, (size_t n, size_t size), (n, size), NULL)
RETURNING(void *, realloc, (void *p, size_t size), (p, size), NULL)
RETURNING(char *, strdup, (const char *s), (s), NULL)
RETURNING(char *, strndup, (const char *s, size_t n), (s, n), NULL)
RETURNING(int, zoo_adelete,
		  (zhandle_t *zh, const char *path, int version, void_completion_t done, const void *data),
		  (zh, path, version, done, data), ZMARSHALLINGERROR)
RETURNING(int, zoo_aset,
		  (zhandle_t *zh, const char *path, const char *value, int len, int version,
		   stat_completion_t done, const void *data),
		  (zh, path, value, len, version, done, data), ZMARSHALLINGERROR)
RETURNING(int, zoo_aget_children,
		  (zhandle_t *zh, const char *path, int watch, strings_completion_t done, const void *data),
		  (zh, path, watch, done, data), ZMARSHALLINGERROR)
RETURNING(int, zoo_acreate2,
		  (zhandle_t *zh, const char *path, const char *value, int len,
		   const struct ACL_vector *acl, int mode, string_stat_completion_t done, const void *data),
		  (zh, path, value, len, acl, mode, done, data), ZMARSHALLINGERROR)
RETURNING(int, zoo_async,
		  (zhandle_t *zh, const char *path, string_completion_t done, const void *data),
		  (zh, path, done, data), ZMARSHALLINGERROR)

#define MINE(name) {#name, (void *) my_##name}

static const struct
{
	const char *name;
	void	   *address;
}			mine[] = {
	MINE(palloc), MINE(palloc0), MINE(pstrdup), MINE(MemoryContextAlloc),
	MINE(MemoryContextStrdup), MINE(repalloc), MINE(AllocSetContextCreateInternal),
	MINE(hash_search), MINE(malloc), MINE(calloc), MINE(realloc), MINE(strdup),
	MINE(strndup), MINE(zoo_adelete), MINE(zoo_aset), MINE(zoo_aget_children),
	MINE(zoo_acreate2), MINE(zoo_async)
};

/* Where zklock has the address of a function, if it is one of these, put ours. */
static void
replace(ElfW(Addr) base, const char *name, ElfW(Addr) offset)
{
	void	  **slot = (void **) (base + offset);
	uintptr_t	page = (uintptr_t) slot & ~((uintptr_t) getpagesize() - 1);

	for (int i = 0; i < (int) lengthof(mine); i++)
	{
		if (strcmp(mine[i].name, name) != 0)
			continue;
		if (mprotect((void *) page, getpagesize(), PROT_READ | PROT_WRITE) != 0)
			elog(ERROR, "mprotect: %m");
		*slot = mine[i].address;
	}
}

static int
patch(struct dl_phdr_info *info, size_t size, void *arg)
{
	const ElfW(Dyn) *dyn = NULL;
	const ElfW(Sym) *symbols = NULL;
	const char *names = NULL;
	const ElfW(Rela) *tables[2] = {NULL, NULL};
	size_t		bytes[2] = {0, 0};

	if (strstr(info->dlpi_name, "/zklock.so") == NULL)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dyn = (const ElfW(Dyn) *) (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	}
	for (; dyn != NULL && dyn->d_tag != DT_NULL; dyn++)
	{
		switch (dyn->d_tag)
		{
			case DT_SYMTAB:
				symbols = (const ElfW(Sym) *) dyn->d_un.d_ptr;
				break;
			case DT_STRTAB:
				names = (const char *) dyn->d_un.d_ptr;
				break;
			case DT_JMPREL:
				tables[0] = (const ElfW(Rela) *) dyn->d_un.d_ptr;
				break;
			case DT_PLTRELSZ:
				bytes[0] = dyn->d_un.d_val;
				break;
			case DT_RELA:
				tables[1] = (const ElfW(Rela) *) dyn->d_un.d_ptr;
				break;
			case DT_RELASZ:
				bytes[1] = dyn->d_un.d_val;
				break;
		}
	}
	for (int t = 0; t < 2; t++)
	{
		for (size_t i = 0; i < bytes[t] / sizeof(ElfW(Rela)); i++)
		{
			const ElfW(Rela) *r = &tables[t][i];

			if (ELF64_R_SYM(r->r_info) != 0)
				replace(info->dlpi_addr,
						names + symbols[ELF64_R_SYM(r->r_info)].st_name, r->r_offset);
		}
	}
	*(bool *) arg = true;
	return 1;
}

void
_PG_init(void)
{
	bool		found = false;

	if (!process_shared_preload_libraries_in_progress)
		return;
	control = mmap(NULL, sizeof(Control), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (control == MAP_FAILED)
		elog(ERROR, "mmap: %m");
	dl_iterate_phdr(patch, &found);
	if (!found)
		elog(ERROR, "zklock is not loaded");
}

/* Have the n-th call of a process from now on fail. */
Datum
no_memory(PG_FUNCTION_ARGS)
{
	control->pid = 0;
	control->calls = 0;
	control->name[0] = '\0';
	control->which = PG_GETARG_INT32(1);
	control->pid = PG_GETARG_INT32(0);
	PG_RETURN_VOID();
}

/* None any more.  What has failed; null: nothing has. */
Datum
no_memory_calls(PG_FUNCTION_ARGS)
{
	control->pid = 0;
	if (control->name[0] == '\0')
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(control->name));
}
