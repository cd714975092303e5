/*-------------------------------------------------------------------------
 *
 * fuzz_walk.c
 *	  Fuzzes a search for a deadlock with all that it reads from ZooKeeper.
 *
 * The input is a list of records and queues.  A byte below 0x80 stands for itself, and any
 * other one for a part of a record.  The first record is the process's own.  Lines of a
 * use that is not known must make no difference.
 *
 *-------------------------------------------------------------------------
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/deadlock_walk.h"
#include "protocol/path.h"
#include "protocol/recipe_types.h"

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_TEXTS 16
#define MAX_NAMES 200
#define END 0xff

#define WRITER "_c_00000000-0000-4000-8000-000000000000-__WRIT__000000000"
#define READER "_c_00000000-0000-4000-8000-000000000000-__READ__000000000"

#define LONG FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY
#define FIFTY "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static const char *const parts[] = {
	"zklock-1\tserver\tprocess\n", "zklock-1\tserver\thost=h port=1\n",
	"waits\twrite\t/a\t" WRITER "2\n", "waits\twrite\t/b\t" WRITER "2\n",
	"waits\tshared\t/a\t" READER "3\n", "waits\tshared\t/b\t" READER "3\n",
	"holds\twrite\t/a\t" WRITER "1\n", "holds\twrite\t/b\t" WRITER "1\n",
	"holds\tshared\t/a\t" READER "1\n", "behind\twrite\t/b\t" WRITER "1\n",
	"waits\texclusive\t/c\tlock-1\n", "holds\texclusive\t/c\tlock-0\n",
	"waits\twrite\t/a//b\t" WRITER "2\n", "holds\twrite\t/a\t" LONG WRITER "1\n",
	"zklock-1\t" LONG "\tprocess\n", "zklock-1\tserver\t" LONG LONG LONG LONG "\n",
	"zklock-2\tserver\tprocess\n", "other\twrite\t/b\t" WRITER "1\n", "other\n",
	"holds\tother\t/b\tother-1\n",
	"zklock-1\t", "waits\t", "holds\t", "behind\t", "simple\t", "semaphore\t", "\t/a//b\t",
	"\t/zklock/waits\t", WRITER, READER
};

typedef struct Text
{
	char		data[2 * ZKLOCK_RECORD_SIZE];
	size_t		size;
	char		name[ZKLOCK_RECORD_NAME_SIZE];
	int64_t		czxid;
} Text;

static Text texts[MAX_TEXTS];
static int	ntexts;
static char all[sizeof(texts)];
static const char *names[MAX_NAMES];
static int	nnames;

static void
add(Text *text, const char *part, size_t size)
{
	if (size > sizeof(text->data) - 1 - text->size)
		size = sizeof(text->data) - 1 - text->size;
	memcpy(text->data + text->size, part, size);
	text->size += size;
	text->data[text->size] = '\0';
}

/* The name of the own record is true; others may have any node. */
static void
name_text(Text *text, bool own)
{
	const char *whole = own && strchr(text->data, '\n') != NULL &&
		text->size < ZKLOCK_RECORD_SIZE && strlen(text->data) == text->size &&
		text->data[text->size - 1] == '\n' ? text->data : "\n";

	zklock_waitrecord_write_name(text->name, whole, (uint64_t) (text - texts));
	if (!own)
		memset(text->name, 'f', 64);
	text->czxid = (own ? INT64_MAX - 100 : INT64_MAX - 200) + (text - texts);
}

/* All that looks like a field is listed in each queue. */
static void
find_names(void)
{
	char	   *to = all;

	nnames = 0;
	for (int i = 0; i < ntexts; i++)
	{
		char	   *copied = memcpy(to, texts[i].data, texts[i].size + 1);

		to += texts[i].size + 1;
		for (char *name = strtok(copied, "\t\n"); name != NULL && nnames < MAX_NAMES;
			 name = strtok(NULL, "\t\n"))
			names[nnames++] = name;
	}
}

static void
read_input(const uint8_t *data, size_t size)
{
	Text	   *text = &texts[0];

	memset(texts, 0, sizeof(texts));
	for (; size > 0 && text < texts + MAX_TEXTS - 1; data++, size--)
		if (*data == END)
			text++;
		else if (*data < 0x80)
			add(text, (const char *) data, 1);
		else
		{
			const char *part = parts[(*data - 0x80) % (sizeof(parts) / sizeof(parts[0]))];

			add(text, part, strlen(part));
		}
	ntexts = (int) (text - texts) + 1;
	for (int i = 0; i < ntexts; i++)
		name_text(&texts[i], i == 0);
	find_names();
}

static void
answer(ZkLockWalk *walk, const ZkLockWalkRead *read)
{
	const char *records[MAX_TEXTS + 2] = {"garbage", ""};

	switch (read->kind)
	{
		case ZKLOCK_WALK_LIST_RECORDS:
			for (int i = 0; i < ntexts; i++)
				records[2 + i] = texts[i].name;
			zklock_deadlock_walk_listed(walk, read, records, ntexts + 2);
			break;
		case ZKLOCK_WALK_READ_RECORD:
			for (int i = 0; i < ntexts; i++)
				if (strcmp(texts[i].name, read->name) == 0)
				{
					zklock_deadlock_walk_record(walk, read, texts[i].data, texts[i].size,
												texts[i].czxid);
					return;
				}
			abort();
		case ZKLOCK_WALK_LIST_NODES:
			/* Otherwise the client library would have to check it. */
			assert(zklock_path_check(read->name, strlen(read->name)) == NULL);
			zklock_deadlock_walk_listed(walk, read, names, nnames);
			break;
		case ZKLOCK_WALK_SYNC:
			zklock_deadlock_walk_synced(walk);
			break;
	}
}

static void
check_member(const ZkLockWalkMember *member)
{
	assert(strlen(member->server) < 64);
	assert(strlen(member->process) < ZKLOCK_PROCESS_SIZE);
	assert(strlen(member->node) < ZKLOCK_NAME_SIZE);
	assert(zklock_path_check(member->path, strlen(member->path)) == NULL);
	assert(member->mode <= ZKLOCK_WRITE);
}

/* What the backend gets is what the walk has found, as far as it has room. */
static void
check_deadlock(const ZkLockWalk *walk)
{
	ZkLockDeadlock deadlock;
	ZkLockWalkMember members[ZKLOCK_DEADLOCK_MEMBERS];
	ZkLockWalkMember closing;
	int			n;

	memset(&deadlock, 0xaa, sizeof(deadlock));
	zklock_deadlock_members_pack(walk->members, walk->nmembers, &deadlock);
	n = zklock_deadlock_members_unpack(&deadlock, members, &closing);
	assert(n >= 2 && n <= walk->nmembers);
	check_member(&closing);
	assert(strcmp(closing.node, walk->members[walk->nmembers - 1].node) == 0);
	assert(strcmp(members[0].process, closing.process) == 0);
	for (int i = 0; i < n; i++)
	{
		check_member(&members[i]);
		assert(strcmp(members[i].node, walk->members[i].node) == 0);
		assert(strcmp(members[i].path, walk->members[i].path) == 0);
		assert(members[i].czxid == walk->members[i].czxid);
	}
}

static void
run(ZkLockWalk *walk, void *memory, size_t room)
{
	ZkLockWalkRead read;

	zklock_deadlock_walk_begin(walk, texts[0].name, memory, room, 0);
	while (zklock_deadlock_walk_next(walk, &read))
		answer(walk, &read);
	assert(walk->verdict != ZKLOCK_WALK_PENDING);
	assert(walk->nreads <= ZKLOCK_WALK_MAX_READS);
}

/* Add a line of another use to each record that has room for it. */
static void
add_unknown(void)
{
	static const char line[] = "unknown\twrite\t/b\t" WRITER "1\n";

	for (int i = 0; i < ntexts; i++)
		if (texts[i].size > 0 && texts[i].data[texts[i].size - 1] == '\n' &&
			texts[i].size + sizeof(line) <= ZKLOCK_RECORD_SIZE)
			add(&texts[i], line, sizeof(line) - 1);
}

static void
check_same(const ZkLockWalk *a, const ZkLockWalk *b)
{
	assert(a->verdict == b->verdict && a->nreads == b->nreads);
	assert(a->nmembers == b->nmembers);
	for (int i = 0; i < a->nmembers; i++)
	{
		assert(strcmp(a->members[i].node, b->members[i].node) == 0);
		assert(a->members[i].czxid == b->members[i].czxid);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char memory[2][100000];
	ZkLockWalk	walk;
	ZkLockWalk	other;
	size_t		room = sizeof(memory[0]);

	if (size < 1)
		return 0;
	if (data[0] < 0x80)
		room = (size_t) data[0] * 200;
	read_input(data + 1, size - 1);
	run(&walk, memory[0], room);
	if (walk.verdict == ZKLOCK_WALK_VICTIM)
		check_deadlock(&walk);
	add_unknown();
	run(&other, memory[1], room);
	check_same(&walk, &other);
	return 0;
}
