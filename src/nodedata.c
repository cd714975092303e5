/*-------------------------------------------------------------------------
 *
 * nodedata.c
 *	  The text in our nodes, which says who holds or waits.  See nodedata.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "commands/dbcommands.h"
#include "compat.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodedata.h"
#include "postmaster/postmaster.h"
#include "text.h"
#include "utils/lsyscache.h"

/* What a value can have in it without being quoted */
#define BARE "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/@%+-"

/* Linux has no longer ones, and the text is to be short. */
#define HOST_MAX 64

static void
append(StringInfo data, const char *key, const char *value)
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

char *
zklock_nodedata_self(void)
{
	char		host[HOST_MAX + 1];
	StringInfoData data;

	if (gethostname(host, sizeof(host)) != 0)
		host[0] = '\0';
	host[HOST_MAX] = '\0';

	initStringInfo(&data);
	append(&data, "host", host);
	appendStringInfo(&data, " port=%d pid=%d", PostPortNumber, MyProcPid);
	append(&data, "database", get_database_name(MyDatabaseId));
	append(&data, "user", GetUserNameFromId(GetSessionUserId(), true));
	append(&data, "application", application_name);
	return data.data + 1;		/* the first space */
}
