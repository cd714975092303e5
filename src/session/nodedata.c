/*-------------------------------------------------------------------------
 *
 * nodedata.c
 *	  The data of zklock's nodes, which describes the holder or waiter.  See
 *	  nodedata.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "session/nodedata.h"
#include "commands/dbcommands.h"
#include "common/compat.h"
#include "common/string.h"
#include "common/text.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "postmaster/postmaster.h"
#include "protocol/contender.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/* Characters of a value that needs no quotes */
#define BARE "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/@%+-"

/* Maximum length of a host name on Linux */
#define HOST_MAX 64

static void
append_field(StringInfo data, const char *key, const char *value)
{
	char	   *text = zklock_text_to_utf8(value != NULL ? value : "");

	appendStringInfo(data, " %s=", key);
	if (text[0] != '\0' && text[strspn(text, BARE)] == '\0')
	{
		appendStringInfoString(data, text);
		return;
	}
	appendStringInfoChar(data, '\'');
	for (const char *c = text; *c != '\0'; c++)
	{
		if (*c == '\'' || *c == '\\')
			appendStringInfoChar(data, '\\');
		appendStringInfoChar(data, *c);
	}
	appendStringInfoChar(data, '\'');
}

/* The first key follows a space. */
static void
append_server(StringInfo data)
{
	char		host[HOST_MAX + 1];

	if (gethostname(host, sizeof(host)) != 0)
		host[0] = '\0';
	host[HOST_MAX] = '\0';
	append_field(data, "host", host);
	appendStringInfo(data, " port=%d", PostPortNumber);
}

char *
zklock_nodedata_leader(void)
{
	StringInfoData data;

	initStringInfo(&data);
	append_server(&data);
	append_field(&data, "leader", "t");
	return data.data + 1;		/* skip the first space */
}

static char *
make_self(bool revocable)
{
	StringInfoData data;

	initStringInfo(&data);
	append_server(&data);
	appendStringInfo(&data, " pid=%d", MyProcPid);
	append_field(&data, "database", get_database_name(MyDatabaseId));
	append_field(&data, "user", GetUserNameFromId(GetSessionUserId(), true));
	append_field(&data, "application", application_name);
	if (revocable)
		append_field(&data, "revocable", "t");
	return data.data + 1;		/* skip the first space */
}

/* The data that was made last, for these values.  NULL: it must be made anew. */
static char *self = NULL;
static char *self_application = NULL;
static Oid	self_user;
static bool self_revocable;

/* A role or a database may have another name now. */
static void
forget_self(Datum arg, int cacheid, uint32 hash)
{
	(void) arg;
	(void) cacheid;
	(void) hash;
	self_user = InvalidOid;
}

/* Each lock needs the data, but it hardly ever changes. */
const char *
zklock_nodedata_self(bool revocable)
{
	static bool registered = false;
	char	   *made;
	char	   *application;

	if (self != NULL && self_user == GetSessionUserId() &&
		self_revocable == revocable &&
		strcmp(self_application, application_name) == 0)
		return self;
	if (!registered)
	{
		CacheRegisterSyscacheCallback(AUTHOID, forget_self, (Datum) 0);
		CacheRegisterSyscacheCallback(DATABASEOID, forget_self, (Datum) 0);
		registered = true;
	}
	made = make_self(revocable);
	application = MemoryContextStrdup(TopMemoryContext, application_name);
	made = MemoryContextStrdup(TopMemoryContext, made);
	if (self != NULL)
	{
		pfree(self);
		pfree(self_application);
	}
	self = made;
	self_application = application;
	self_user = GetSessionUserId();
	self_revocable = revocable;
	return self;
}

/*
 * Read the value at *data, and advance *data behind the following space.  Returns NULL if
 * it is none.
 */
static char *
read_value(const char **data)
{
	const char *c = *data;
	StringInfoData value;

	initStringInfo(&value);
	if (*c == '\'')
	{
		for (c++; *c != '\'' && *c != '\0'; c++)
		{
			if (*c == '\\' && *++c == '\0')
				return NULL;
			appendStringInfoChar(&value, *c);
		}
		if (*c++ != '\'')
			return NULL;
	}
	else
	{
		size_t		len = strspn(c, BARE);

		if (len == 0)
			return NULL;
		appendBinaryStringInfo(&value, c, (int) len);
		c += len;
	}
	if (*c != ' ' && *c != '\0')
		return NULL;
	*data = *c == ' ' ? c + 1 : c;
	return zklock_text_from_utf8(value.data);
}

static bool
is_key(const char *data, const char *key)
{
	size_t		len = strlen(key);

	return strncmp(data, key, len) == 0 && data[len] == '=';
}

/* Read key=value in the same way.  Returns NULL if *data begins with another key. */
static char *
read_text(const char **data, const char *key)
{
	if (!is_key(*data, key))
		return NULL;
	*data += strlen(key) + 1;
	return read_value(data);
}

/*
 * Read the keys that follow, of which other builds of zklock may write others.  Returns
 * false if they are none.
 */
static bool
read_rest(const char *data, bool *revocable)
{
	while (*data != '\0')
	{
		bool		is_revocable = is_key(data, "revocable");
		char	   *value;

		data += strcspn(data, "=");
		if (*data++ == '\0' || (value = read_value(&data)) == NULL)
			return false;
		*revocable |= is_revocable && strcmp(value, "t") == 0;
	}
	return true;
}

static bool
read_number(const char **data, const char *key, int *value)
{
	char	   *text = read_text(data, key);
	char	   *end;

	if (text == NULL || strspn(text, "0123456789") != strlen(text))
		return false;
	errno = 0;
	*value = strtoint(text, &end, 10);
	return errno == 0 && end != text;
}

bool
zklock_nodedata_read(const char *data, ZkLockNodeData *result)
{
	bool		ours;

	*result = (ZkLockNodeData) {0};
	ours = (result->host = read_text(&data, "host")) != NULL &&
		read_number(&data, "port", &result->port);

	result->of_server = ours && !is_key(data, "pid");
	if (ours && !result->of_server)
		ours = read_number(&data, "pid", &result->pid) &&
			(result->database = read_text(&data, "database")) != NULL &&
			(result->user = read_text(&data, "user")) != NULL &&
			(result->application = read_text(&data, "application")) != NULL;
	return ours && read_rest(data, &result->revocable);
}

ZkLockNodeUse
zklock_nodedata_find_user(const char *path, const char *node, const char **data)
{
	char		user[ZKLOCK_CLAIM_DATA];
	ZkLockNodeUse use;
	ZkLockNodeData read;

	if (*data == NULL || !zklock_nodedata_read(*data, &read) || !read.of_server)
		return ZKLOCK_USE_BACKEND;
	use = zklock_claims_node_use(path, node, user);
	if (use == ZKLOCK_USE_BACKEND)
		*data = pstrdup(user);
	else if (use == ZKLOCK_USE_UNKNOWN && !zklock_contender_is_marked(node))
		use = ZKLOCK_USE_BACKEND;
	return use;
}

static char *
describe_data(const char *node, const char *data)
{
	return data == NULL || data[0] == '\0' ? psprintf("node \"%s\"", node) :
		psprintf("%s (node \"%s\")", data, node);
}

char *
zklock_nodedata_describe(const char *path, const char *node, const char *data)
{
	(void) zklock_nodedata_find_user(path, node, &data);
	return describe_data(node, data);
}

char *
zklock_nodedata_describe_holder(const char *path, const char *node, const char *data)
{
	static const char *const formats[] = {
		[ZKLOCK_USE_BACKEND] = "The lock is held by %s",
		[ZKLOCK_USE_NONE] = "The lock is kept by %s",
		[ZKLOCK_USE_UNKNOWN] = "The lock is held or kept by %s"
	};
	ZkLockNodeUse use = zklock_nodedata_find_user(path, node, &data);

	return psprintf(formats[use], describe_data(node, data));
}
