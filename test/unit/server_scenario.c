/*-------------------------------------------------------------------------
 *
 * server_scenario.c
 *	  Short programs of a few processes.  See server_scenario.h.
 *
 *-------------------------------------------------------------------------
 */
#include "server_scenario.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/mode.h"

#define MAX_SCENARIOS 120
#define lengthof(array) (sizeof(array) / sizeof((array)[0]))

static ServerScenario scenarios[MAX_SCENARIOS];
static int	nscenarios;
static const char *file_name;
static int	line_number;

static void
fail(const char *word)
{
	printf("Bail out! %s, line %d: what is \"%s\"?\n", file_name, line_number, word);
	exit(2);
}

static int
number(const char *word)
{
	char	   *end;
	long		value = word == NULL ? 0 : strtol(word, &end, 10);

	if (word == NULL || *word == '\0' || *end != '\0')
		fail(word == NULL ? "" : word);
	return (int) value;
}

/* The next word, or "" */
static const char *
next_word(char **rest)
{
	const char *word = strtok_r(NULL, " ", rest);

	return word == NULL ? "" : word;
}

static void
read_setting(ServerScenario *s, char *word)
{
	static const struct
	{
		const char *name;
		size_t		offset;
	}			settings[] = {
#define SETTING(name) {#name, offsetof(ServerScenario, settings.name)}
		SETTING(handover_time), SETTING(keep_time), SETTING(max_kept_locks),
		SETTING(max_locks), SETTING(session_timeout), SETTING(idle_session_timeout),
		SETTING(confirm_commit), SETTING(max_locks_per_backend), SETTING(max_session_size),
		{"leases", offsetof(ServerScenario, nleases)},
		{"tick", offsetof(ServerScenario, tick)},
		{"chroot", offsetof(ServerScenario, chroot_len)},
		{"refuses", offsetof(ServerScenario, refuses)},
		{"no_spares", offsetof(ServerScenario, no_spares)},
		{"no_parents", offsetof(ServerScenario, no_parents)},
		{"leads", offsetof(ServerScenario, leads)},
		{"suspension", offsetof(ServerScenario, suspension)},
		{"from", offsetof(ServerScenario, from)}, {"to", offsetof(ServerScenario, to)}
	};
	char	   *value = strchr(word, '=');

	if (value == NULL)
		fail(word);
	*value++ = '\0';
	for (size_t i = 0; i < lengthof(settings); i++)
		if (strcmp(settings[i].name, word) == 0)
		{
			*(int *) ((char *) s + settings[i].offset) = number(value);
			return;
		}
	fail(word);
}

static void
begin_scenario(char *line)
{
	ServerScenario *s = &scenarios[nscenarios];
	char	   *rest;
	const char *name = strtok_r(line, " ", &rest);

	if (nscenarios++ == MAX_SCENARIOS)
		sim_overflow("scenarios");
	*s = (ServerScenario) {
		.settings = {
			.hosts = "a",.max_kept_locks = 100,.max_locks = SERVER_MAX_LOCKS,
			.session_timeout = 6000,.max_session_size = 1700,.connect_timeout = 4000,
			.confirm_commit = 1,.revocable = true,.disconnects = true
		},
		.nleases = 1,.to = INT_MAX
	};
	snprintf(s->name, sizeof(s->name), "%s", name);
	for (char *word = strtok_r(NULL, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
		read_setting(s, word);
}

static uint32_t
read_paths(const char *word)
{
	static const char letters[] = "xyz";
	uint32_t	paths = 0;

	for (const char *p = word; *p != '\0'; p++)
	{
		if (strchr(letters, *p) == NULL)
			fail(word);
		paths |= 1U << (strchr(letters, *p) - letters);
	}
	if (paths == 0)
		fail(word);
	return paths;
}

static void
read_wait(ServerStep *step, char **rest)
{
	for (const char *word = next_word(rest); *word != '\0'; word = next_word(rest))
	{
		if (strcmp(word, "try") == 0)
			step->patience = 0;
		else if (strcmp(word, "within") == 0)
			step->patience = number(next_word(rest)) * SERVER_MS;
		else if (strcmp(word, "timeout") == 0)
			step->lock_timeout = number(next_word(rest));
		else if (strcmp(word, "session") == 0)
			step->of_session = true;
		else if (strcmp(word, "revocable") == 0)
			step->revocable = true;
		else if (strcmp(word, "asks") == 0)
			step->asks = true;
		else if (strcmp(word, "paired") == 0)
			step->paired = true;
		else
			fail(word);
	}
}

/* The modes of locks by the verbs for them; those of semaphores differ in their count. */
static const struct
{
	const char *name;
	int			mode;
	bool		counted;
}			modes[] = {
	{"lock", ZKLOCK_EXCLUSIVE, false}, {"read", ZKLOCK_SHARED, false},
	{"write", ZKLOCK_WRITE, false}, {"simple", ZKLOCK_SIMPLE, false},
	{"semaphore", ZKLOCK_SEMAPHORE, false}, {"counted", ZKLOCK_SEMAPHORE, true}
};

static bool
read_mode(ServerStep *step, const char *word)
{
	for (size_t i = 0; i < lengthof(modes); i++)
		if (strcmp(modes[i].name, word) == 0)
		{
			step->mode = modes[i].mode;
			step->counted = modes[i].counted;
			return true;
		}
	return false;
}

/* What has no more than its name, or takes its time, or may have a path */
static const struct
{
	const char *name;
	ServerVerb	verb;
	bool		of_session;
	bool		takes_time;
}			verbs[] = {
	{"work", SERVER_DO_WORK, false, true}, {"idle", SERVER_DO_IDLE, false, true},
	{"guard", SERVER_DO_GUARD, false, false}, {"resign", SERVER_DO_RESIGN, false, false},
	{"savepoint", SERVER_DO_SAVEPOINT, false, false},
	{"rollback", SERVER_DO_ROLLBACK_TO, false, false},
	{"commit", SERVER_DO_COMMIT, false, false}, {"abort", SERVER_DO_ABORT, false, false},
	{"own", SERVER_DO_SESSION, true, false}, {"server", SERVER_DO_SESSION, false, false},
	{"disconnects", SERVER_DO_DISCONNECTS, false, false}, {"auto", SERVER_DO_AUTO, false, false}
};

/* x or y is the first or second path of zklock.leaders. */
static uint32_t
read_leader(const char *word)
{
	uint32_t	path = word[0] == '\0' ? 0 : read_paths(word);

	if ((path & (path - 1)) != 0 || path >> SERVER_N_LEADERS != 0)
		fail(word);
	return path;
}

static void
read_step(ServerStep *step, char *text)
{
	char	   *rest;
	const char *word = strtok_r(text, " ", &rest);

	*step = (ServerStep) {0};
	if (word == NULL)
		fail("");
	for (size_t i = 0; i < lengthof(verbs); i++)
		if (strcmp(verbs[i].name, word) == 0)
		{
			step->verb = verbs[i].verb;
			step->of_session = verbs[i].of_session;
			if (verbs[i].takes_time)
				step->patience = number(next_word(&rest)) * SERVER_MS;
			if (step->verb == SERVER_DO_GUARD || step->verb == SERVER_DO_RESIGN)
				step->paths = read_leader(next_word(&rest));
			return;
		}
	if (strcmp(word, "role") == 0)
	{
		step->verb = SERVER_DO_ROLE;
		step->role = number(next_word(&rest));
		return;
	}
	if (strcmp(word, "release") == 0)
	{
		const char *what = next_word(&rest);

		step->verb = strcmp(what, "all") == 0 ? SERVER_DO_RELEASE_ALL : SERVER_DO_RELEASE;
		step->of_session = true;
		if (step->verb == SERVER_DO_RELEASE)
			step->paths = read_paths(read_mode(step, what) ? next_word(&rest) : what);
		return;
	}
	if (!read_mode(step, word))
		fail(word);
	step->paths = read_paths(next_word(&rest));
	step->verb = (step->paths & (step->paths - 1)) == 0 ? SERVER_DO_LOCK : SERVER_DO_LOCK_ALL;
	step->patience = INT64_MAX;
	read_wait(step, &rest);
}

static void
read_backend(ServerScenario *s, const char *kind, char *line)
{
	size_t		len = strcspn(kind, "123");
	int			server = kind[len] == '\0' ? 0 : kind[len] - '1';
	int			place = server * SERVER_PLACES + ++s->nbackends[server];
	char	   *rest;

	if (s->nbackends[server] > SERVER_MAX_BACKENDS)
		sim_overflow("backends");
	if (server >= s->nservers)
		s->nservers = server + 1;
	if (strncmp(kind, "own", len) == 0)
	{
		s->steps[place][s->nsteps[place]++] = (ServerStep) {
			.verb = SERVER_DO_SESSION,.of_session = true
		};
		s->has_own = true;
	}
	for (char *text = strtok_r(line, ";", &rest); text != NULL; text = strtok_r(NULL, ";", &rest))
	{
		if (s->nsteps[place] == SERVER_MAX_STEPS - 1)
			sim_overflow("steps");
		read_step(&s->steps[place][s->nsteps[place]], text);
		s->has_own |= s->steps[place][s->nsteps[place]].verb == SERVER_DO_SESSION;
		s->nsteps[place]++;
	}
	s->steps[place][s->nsteps[place]++] = (ServerStep) {.verb = SERVER_DO_EXIT};
}

/* rival PATH [reads] [hides] at MS for MS */
static void
read_rival(ServerScenario *s, char **rest)
{
	ServerRival *rival = &s->rivals[s->nrivals];
	uint32_t	paths = read_paths(next_word(rest));

	if (s->nrivals++ == SERVER_MAX_RIVALS)
		sim_overflow("rivals");
	while ((paths >>= 1) != 0)
		rival->path++;
	for (const char *word = next_word(rest); *word != '\0'; word = next_word(rest))
	{
		if (strcmp(word, "reads") == 0)
			rival->reader = true;
		else if (strcmp(word, "hides") == 0)
			rival->hides = true;
		else if (strcmp(word, "at") == 0)
			rival->at = number(next_word(rest));
		else if (strcmp(word, "for") == 0)
			rival->holds_for = number(next_word(rest));
		else
			fail(word);
	}
}

/* fault FAULT at MS [long | for MS] [of BACKEND], of the session of server N, or its worker */
static void
read_given(ServerScenario *s, const char *kind, char **rest)
{
	ServerGivenFault *given = &s->given[s->ngiven];
	const char *word;

	if (s->ngiven++ == SERVER_MAX_GIVEN)
		sim_overflow("faults of a default schedule");
	snprintf(given->name, sizeof(given->name), "%s", next_word(rest));
	if (strcmp(next_word(rest), "at") != 0)
		fail(kind);
	given->at = number(next_word(rest));
	for (word = next_word(rest); *word != '\0'; word = next_word(rest))
	{
		if (strcmp(word, "long") == 0)
			given->is_long = true;
		else if (strcmp(word, "for") == 0)
			given->lasts = number(next_word(rest));
		else if (strcmp(word, "of") == 0)
			given->backend = number(next_word(rest));
		else
			fail(word);
	}
	given->server = kind[strlen("fault")] == '\0' ? 0 : kind[strlen("fault")] - '1';
}

static void
read_line(char *line)
{
	ServerScenario *s;
	char	   *rest;
	const char *word;

	if (line[0] != '\t')
	{
		begin_scenario(line);
		return;
	}
	if (nscenarios == 0)
		fail(line);
	s = &scenarios[nscenarios - 1];
	word = strtok_r(line + 1, "\t", &rest);
	line = strtok_r(NULL, "\t", &rest);
	if (word == NULL || line == NULL)
		fail("");
	if (strcmp(word, "faults") == 0)
		for (char *name = strtok_r(line, " ", &rest); name != NULL; name = strtok_r(NULL, " ", &rest))
		{
			if (s->nfaults == SERVER_MAX_FAULT_NAMES)
				sim_overflow("faults");
			snprintf(s->faults[s->nfaults++], sizeof(s->faults[0]), "%s", name);
		}
	else if (strncmp(word, "fault", 5) == 0)
	{
		rest = line;
		read_given(s, word, &rest);
	}
	else if (strcmp(word, "rival") == 0)
	{
		rest = line;
		read_rival(s, &rest);
	}
	else if (strncmp(word, "own", 3) == 0 || strncmp(word, "server", 6) == 0)
		read_backend(s, word, line);
	else
		fail(word);
}

int
server_scenario_read(const char *file, const ServerScenario **found)
{
	char		line[500];
	FILE	   *in = fopen(file, "r");

	file_name = file;
	if (in == NULL)
		fail(file);
	for (line_number = 1; fgets(line, sizeof(line), in) != NULL; line_number++)
	{
		line[strcspn(line, "#\n")] = '\0';
		if (line[strspn(line, " \t")] != '\0')
			read_line(line);
	}
	fclose(in);
	*found = scenarios;
	return nscenarios;
}
