// SPDX-License-Identifier: Apache-2.0
/*
 * A reload from SIGHUP or a client: reads the configuration in the background, checks it against the one in force,
 * hands it to apply.c, and tells the log, the service manager and the client how it ended.
 */
#include "daemon/reload/reload.h"

#include "daemon/base/background.h"
#include "daemon/base/log.h"
#include "daemon/base/probes.h"
#include "daemon/config/merge.h"
#include "daemon/reload/apply.h"
#include "daemon/reload/reload_check.h"
#include "daemon/reload/reload_names.h"
#include "daemon/reload/reload_report.h"
#include "lib/base/time.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the end of a reload --------------------------------------------------------------------------- */

/* STOPPING=1 must not be taken back by READY=1, and a stop that prevents a reload is no error. */
static int tell_failure(struct daemon *daemon, int r, const struct failure *failure)
{
	PROBE_RELOAD(r, failure->text);
	reload_give_names_back(daemon->config);
	if (daemon->stopping) {
		log_info("%s; nothing was changed", failure->text);
		return r;
	}
	log_lines(LOG_ERR, &(struct log_about){.event = LOG_EVENT_RELOAD_FAILED}, failure->text,
	          "; nothing was changed");
	service_tell_ready(daemon);
	return r;
}

static void on_applied(struct daemon *daemon, int r, struct failure *failure)
{
	char said[PROTOCOL_TEXT_MAX];

	if (r < 0) {
		tell_failure(daemon, r, failure);
	} else {
		reload_report(daemon->config->older, daemon->config, said, sizeof(said));
		log_message(LOG_INFO, &(struct log_about){.event = LOG_EVENT_RELOADED}, "%s", said);
		PROBE_RELOAD(0, said);
		service_tell_ready(daemon);
	}
	control_reconfigured(daemon->control, r, r < 0 ? failure->text : said);
	if (daemon->reload_again)
		reload_by_signal(daemon);
}

/* ---- beginning ------------------------------------------------------------------------------------- */

/* The configuration to be, from the one that was read (NULL: none) and the one in force. read is taken over. */
static int build_config(struct daemon *daemon, const struct protocol_reconfigure *asked, struct config *read,
                        struct config **config, struct failure *failure)
{
	struct config_removed removed = {0};
	int r;

	if (asked->what == PROTOCOL_RECONFIGURE_RELOAD) {
		*config = read;
		return 0;
	}
	if (asked->what == PROTOCOL_RECONFIGURE_REMOVE_STREAM)
		removed.stream = asked->name;
	r = config_merge(daemon->config, read, &removed, config, failure);
	config_free(read);
	if (r == -ENOENT && service_is_ending(&daemon->services, SERVICE_STREAM, removed.stream))
		return failure_set(failure, EX_UNAVAILABLE, ENOENT, "stream '%s' was removed and is ending",
		                   removed.stream);
	return r;
}

/* read is taken over. */
static int reload_begin(struct daemon *daemon, const struct protocol_reconfigure *asked, struct config *read,
                        struct failure *failure)
{
	struct config *config;
	int r = build_config(daemon, asked, read, &config, failure);

	if (r < 0)
		return r;
	reload_take_names(daemon->config, config);
	r = reload_check(daemon, config, failure);
	if (r == 0)
		return apply_begin(daemon, config, NULL, on_applied, failure);
	config_free(config);
	return r;
}

/* ---- reading --------------------------------------------------------------------------------------- */

/*
 * Looking up users and groups may ask a directory service, which may take any time to answer. So the configuration is
 * read in the background. The watchdog does not watch that thread: only the client that asked for the reload waits
 * for it.
 */
struct reload {
	struct daemon *daemon;
	struct background_job job;
	struct protocol_reconfigure asked;
	char *file; /* a copy, because the reading may outlive the daemon's configuration */

	bool is_read; /* and waits for the end of daemon->reconfiguration */
	/* The job's until it is done. */
	struct config *read;
	int result;
	struct failure failure;
};

static void free_reload(struct reload *reload)
{
	config_free(reload->read);
	free(reload->file);
	free(reload);
}

static void read_config(void *context)
{
	struct reload *reload = context;

	if (reload->asked.what == PROTOCOL_RECONFIGURE_RELOAD)
		reload->result = config_load(reload->file, &reload->read, &reload->failure);
	else
		reload->result =
			config_load_text(reload->asked.name, reload->asked.text, &reload->read, &reload->failure);
}

static void on_config_read(void *context)
{
	struct reload *reload = context;
	struct daemon *daemon = reload->daemon;
	struct config *read;
	int r;

	reload->is_read = daemon->reconfiguration && !daemon->stopping;
	if (reload->is_read)
		return;
	daemon->reload = NULL;
	r = reload->result;
	if (daemon->stopping)
		r = failure_set(&reload->failure, EX_TEMPFAIL, EAGAIN, "the daemon is stopping");
	if (r == 0) {
		read = reload->read;
		reload->read = NULL;
		r = reload_begin(daemon, &reload->asked, read, &reload->failure);
	}
	if (r < 0)
		on_applied(daemon, r, &reload->failure);
	free_reload(reload);
}

static int begin_reading(struct daemon *daemon, const struct protocol_reconfigure *asked, struct failure *failure)
{
	struct reload *reload = calloc(1, sizeof(*reload));
	char *file = strdup(daemon->config->file);

	if (!reload || !file) {
		free(reload);
		free(file);
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	}
	*reload = (struct reload){.daemon = daemon,
	                          .job = {.work = read_config, .done = on_config_read, .context = reload},
	                          .asked = *asked,
	                          .file = file};
	daemon->reload = reload;
	background_add(daemon->reader, &reload->job);
	return 0;
}

/* ---- asked ----------------------------------------------------------------------------------------- */

static bool reload_is_busy(const struct daemon *daemon)
{
	return daemon->reload || daemon->reconfiguration;
}

static int reload_start(struct daemon *daemon, const struct protocol_reconfigure *asked, struct failure *failure)
{
	int r;

	/* sd_notify(3) asks for this at the begin of a reload, and for READY=1 at the end. */
	manager_tell(daemon->manager, "RELOADING=1\nMONOTONIC_USEC=%llu",
	             (unsigned long long)time_monotonic_ns() / 1000);
	r = asked->what == PROTOCOL_RECONFIGURE_REMOVE_STREAM ? reload_begin(daemon, asked, NULL, failure)
	                                                      : begin_reading(daemon, asked, failure);
	return r < 0 ? tell_failure(daemon, r, failure) : 0;
}

void reload_by_signal(struct daemon *daemon)
{
	const struct protocol_reconfigure asked = {.what = PROTOCOL_RECONFIGURE_RELOAD};
	struct failure failure;

	daemon->reload_again = reload_is_busy(daemon) && !daemon->stopping;
	if (!reload_is_busy(daemon) && !daemon->stopping)
		reload_start(daemon, &asked, &failure);
}

int reload_by_request(void *context, const struct protocol_reconfigure *asked, struct failure *failure)
{
	struct daemon *daemon = context;

	if (daemon->stopping)
		return failure_set(failure, EX_TEMPFAIL, EAGAIN, "the daemon is stopping");
	if (reload_is_busy(daemon))
		return failure_set(failure, EX_TEMPFAIL, EAGAIN,
		                   "another change is on its way; ask again when it is done");
	return reload_start(daemon, asked, failure);
}

void reload_go_on(struct daemon *daemon)
{
	if (daemon->reload && daemon->reload->is_read)
		on_config_read(daemon->reload);
	else if (daemon->reload_again)
		reload_by_signal(daemon);
}

void reload_cancel(struct daemon *daemon)
{
	if (daemon->reader && background_abandon(daemon->reader) && daemon->reload)
		free_reload(daemon->reload);
	daemon->reader = NULL;
	daemon->reload = NULL;
}
