/*-------------------------------------------------------------------------
 *
 * diagnosis.c
 *	  Finds out why ZooKeeper's servers do not answer.  See diagnosis.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "client/zkprobe.h"
#include "common/guc.h"
#include "session/diagnosis.h"

/* Time to wait for the results */
#define DIAGNOSIS_MS 300
#define DIAGNOSIS_SIZE 2048

static ZkLockProbe *probe = NULL;

void
zklock_diagnosis_begin(void)
{
	if (probe == NULL)
		probe = zklock_zkprobe_start(zklock_guc_hosts);
}

void
zklock_diagnosis_discard(void)
{
	if (probe != NULL)
		zklock_zkprobe_drop(probe);
	probe = NULL;
}

/* The results as text; empty if nothing is known */
static char *
diagnose(void)
{
	char		text[DIAGNOSIS_SIZE] = "";

	zklock_diagnosis_begin();
	if (probe != NULL)
		zklock_zkprobe_report(probe, DIAGNOSIS_MS, text, sizeof(text));
	zklock_diagnosis_discard();
	return pstrdup(text);
}

static const char *
hint_for_servers(void)
{
	return strcmp(zklock_guc_hosts, ZKLOCK_DEFAULT_HOSTS) == 0 ?
		"zklock.hosts has its default value.  Tell where ZooKeeper is: LOAD 'zklock'; ALTER SYSTEM SET zklock.hosts = 'host:port,...'; SELECT pg_reload_conf()." :
		"Check zklock.hosts and that its servers are up and have a quorum.";
}

void
zklock_diagnosis_raise_no_answer(const char *message)
{
	const char *diagnosis = diagnose();

	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg_internal("%s", message),
			 diagnosis[0] != '\0' ? errdetail("%s", diagnosis) : 0,
			 errhint("%s", hint_for_servers())));
}

void
zklock_diagnosis_raise_unreachable(const char *detail)
{
	const char *diagnosis = diagnose();

	ereport(ERROR,
			(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
			 errmsg("could not connect to ZooKeeper"),
			 errdetail("%s%s%s", detail, diagnosis[0] != '\0' ? "\n" : "",
					   diagnosis),
			 errhint("%s", hint_for_servers())));
}
