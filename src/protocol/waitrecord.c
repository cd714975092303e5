/*-------------------------------------------------------------------------
 *
 * waitrecord.c
 *	  The record of a wait: its text and its name.  See waitrecord.h.
 *
 * The text of a record has these lines, whose fields are separated by tabs.  A path has
 * no control characters.
 *
 *		zklock-1	SERVER	PROCESS
 *		waits	MODE	PATH	NODE
 *		holds	MODE	PATH	NODE
 *		behind	MODE	PATH	NODE
 *
 * It has one line "waits", which is the first of these.  The first field of all is the
 * version.  A record of another version is not understood.  A line of another use, or with
 * another mode, is left out.  So a use may be added to this version if those who ignore it
 * find fewer deadlocks, and none that does not exist.  Any other change needs another
 * version.
 *
 * Its name is a Bloom filter of the names of its nodes, and a random number, in hexadecimal
 * digits.  A walk reads a record only if its filter has a node of a queue that the walk has
 * listed, and only keeps nodes that are listed.  So records that it does not reach cost it
 * their names.
 *
 *-------------------------------------------------------------------------
 */
#include "protocol/waitrecord.h"

#include <string.h>

#include "protocol/check.h"
#include "protocol/contender.h"
#include "protocol/path.h"
#include "protocol/recipe_types.h"

#define VERSION "zklock-1"

/* Longest text of a server, with its terminating zero */
#define SERVER_SIZE 64

#define ELEMENTS(array) ((int) (sizeof(array) / sizeof((array)[0])))

static const char *const uses[] = {
	[ZKLOCK_WALK_WAITS] = "waits",
	[ZKLOCK_WALK_HOLDS] = "holds",
	[ZKLOCK_WALK_HELD_BEHIND] = "behind"
};

/* Cut off the line at `*text`, and advance `*text` behind it.  NULL: it has no end. */
static char *
next_line(char **text)
{
	char	   *line = *text;
	char	   *end = strchr(line, '\n');

	if (end == NULL)
		return NULL;
	*end = '\0';
	*text = end + 1;
	return line;
}

/* Split a line into n fields.  Returns false if it has another number of them. */
static bool
split(char *line, const char **fields, int n)
{
	for (int i = 0; i < n; i++)
	{
		char	   *tab = strchr(line, '\t');

		fields[i] = line;
		if ((tab == NULL) != (i == n - 1))
			return false;
		if (tab != NULL)
		{
			*tab = '\0';
			line = tab + 1;
		}
	}
	return true;
}

/* A mode without a queue is not in a record. */
static bool
find_mode(const char *name, ZkLockMode *mode)
{
	for (int i = 0; i < ZKLOCK_N_MODES; i++)
		if (strcmp(zklock_mode_table[i].name, name) == 0)
		{
			*mode = (ZkLockMode) i;
			return zklock_mode_table[i].kind != NULL;
		}
	return false;
}

/* The use that a line begins with */
static bool
find_use(const char *line, ZkLockWalkUse *use)
{
	size_t		len = strcspn(line, "\t");

	for (int i = 0; i < ELEMENTS(uses); i++)
		if (strlen(uses[i]) == len && strncmp(uses[i], line, len) == 0)
		{
			*use = (ZkLockWalkUse) i;
			return true;
		}
	return false;
}

bool
zklock_waitrecord_open(ZkLockRecordText *text, const char *data, size_t size)
{
	const char *head[3];
	char	   *line;

	text->understood = false;
	if (size >= sizeof(text->data) || memchr(data, '\0', size) != NULL)
		return false;
	memcpy(text->data, data, size);
	text->data[size] = '\0';
	text->rest = text->data;
	text->waits = false;
	line = next_line(&text->rest);
	if (line == NULL || !split(line, head, ELEMENTS(head)) ||
		strcmp(head[0], VERSION) != 0 || strlen(head[1]) >= SERVER_SIZE ||
		strlen(head[2]) >= ZKLOCK_PROCESS_SIZE)
		return false;
	text->server = head[1];
	text->process = head[2];
	return true;
}

/*
 * Read a line.  Only the first node is waited with.  Sets `*known` if the line has a use and
 * a mode that this build knows.  Returns false if the record is not understood.
 */
static bool
parse_line(ZkLockRecordText *text, char *line, ZkLockRecordNode *node, bool *known)
{
	const char *fields[4];
	int64_t		number;

	*known = false;
	if (!find_use(line, &node->use))
		return true;
	if (!split(line, fields, ELEMENTS(fields)))
		return false;
	if (!find_mode(fields[1], &node->mode))
		return true;
	if ((node->use == ZKLOCK_WALK_WAITS) == text->waits)
		return false;
	text->waits = *known = true;
	node->path = fields[2];
	node->name = fields[3];
	return zklock_path_check_lock(node->path, strlen(node->path)) == NULL &&
		strlen(node->name) < ZKLOCK_NAME_SIZE &&
		zklock_contender_parse(node->name, &number) == zklock_mode_table[node->mode].kind;
}

bool
zklock_waitrecord_next(ZkLockRecordText *text, ZkLockRecordNode *node)
{
	bool		known = false;

	while (!known)
	{
		char	   *line;

		if (text->rest[0] == '\0')
		{
			text->understood = text->waits;
			return false;
		}
		line = next_line(&text->rest);
		if (line == NULL || !parse_line(text, line, node, &known))
			return false;
	}
	return true;
}

/* Append fields as one line. */
static size_t
write_line(char *text, size_t size, size_t room, const char *const *fields, int n)
{
	for (int i = 0; i < n; i++)
	{
		size_t		len = strlen(fields[i]);

		if (room - size < len + 2)
			return 0;
		for (size_t k = 0; k < len; k++)
			text[size++] = (unsigned char) fields[i][k] < ' ' ? '?' : fields[i][k];
		text[size++] = i < n - 1 ? '\t' : '\n';
	}
	text[size] = '\0';
	return size;
}

size_t
zklock_waitrecord_write_head(char *text, size_t room, const char *server,
							 const char *process)
{
	const char *const fields[] = {VERSION, server, process};

	ZKLOCK_ASSERT(strlen(server) < SERVER_SIZE && strlen(process) < ZKLOCK_PROCESS_SIZE);
	return write_line(text, 0, room, fields, ELEMENTS(fields));
}

size_t
zklock_waitrecord_write_node(char *text, size_t size, size_t room, ZkLockMode mode,
							 const char *path, const char *node, ZkLockWalkUse use)
{
	const char *const fields[] = {
		uses[use], zklock_mode_table[mode].name, path, node
	};

	ZKLOCK_ASSERT(text[size - 1] == '\n' && zklock_mode_table[mode].kind != NULL);
	return write_line(text, size, room, fields, ELEMENTS(fields));
}

/* FNV-1a */
uint64_t
zklock_waitrecord_hash(const char *text)
{
	uint64_t	result = 0xcbf29ce484222325;

	for (const char *c = text; *c != '\0'; c++)
		result = (result ^ (unsigned char) *c) * 0x100000001b3;
	return result;
}

/* Those of similar names have nothing in common. */
void
zklock_waitrecord_find_bits(const char *node, ZkLockRecordBits *bits)
{
	uint64_t	h = zklock_waitrecord_hash(node);

	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
	h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
	for (int i = 0; i < ZKLOCK_RECORD_NODE_BITS; i++, h >>= 8)
		bits->bit[i] = (uint8_t) h;
}

static const char digits[] = "0123456789abcdef";

void
zklock_waitrecord_write_name(char *name, const char *text, uint64_t random)
{
	uint8_t		filter[ZKLOCK_RECORD_FILTER_BITS / 4] = {0};
	const char *node = NULL;

	for (const char *c = strchr(text, '\n'); *c != '\0'; c++)
		if (*c == '\t')
			node = c + 1;
		else if (*c == '\n' && node != NULL)
		{
			char		copied[ZKLOCK_RECORD_SIZE];
			ZkLockRecordBits bits;

			memcpy(copied, node, (size_t) (c - node));
			copied[c - node] = '\0';
			zklock_waitrecord_find_bits(copied, &bits);
			for (int i = 0; i < ZKLOCK_RECORD_NODE_BITS; i++)
				filter[bits.bit[i] / 4] |= (uint8_t) (1 << bits.bit[i] % 4);
		}
	for (int i = 0; i < ZKLOCK_RECORD_NAME_SIZE - 1; i++)
		if (i < ELEMENTS(filter))
			name[i] = digits[filter[i]];
		else
		{
			name[i] = digits[random & 15];
			random >>= 4;
		}
	name[ZKLOCK_RECORD_NAME_SIZE - 1] = '\0';
}

bool
zklock_waitrecord_is_name(const char *name)
{
	return strspn(name, digits) == ZKLOCK_RECORD_NAME_SIZE - 1 &&
		name[ZKLOCK_RECORD_NAME_SIZE - 1] == '\0';
}

bool
zklock_waitrecord_has_bit(const char *name, int bit)
{
	char		digit = name[bit / 4];

	return ((digit <= '9' ? digit - '0' : digit - 'a' + 10) & 1 << bit % 4) != 0;
}
