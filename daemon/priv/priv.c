// SPDX-License-Identifier: Apache-2.0
/* Changes user, drops capabilities, and reads back from the kernel which ones are left. Raises RLIMIT_MEMLOCK. */
#include "daemon/priv/priv.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* "CAP_NET_RAW"; returns buffer. */
static const char *priv_name_of(int capability, char *buffer, size_t bytes)
{
	char *name = cap_to_name(capability);

	snprintf(buffer, bytes, "%s", name ? name : "?");
	cap_free(name);
	for (char *c = buffer; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	return buffer;
}

static bool priv_is_set(cap_t set, int capability, cap_flag_t flag)
{
	cap_flag_value_t value = CAP_CLEAR;

	return cap_get_flag(set, capability, flag, &value) == 0 && value == CAP_SET;
}

/* The set of wanted capabilities that the process has, as permitted and effective. */
static cap_t priv_build_kept(cap_t have, uint64_t capabilities)
{
	cap_t kept = cap_init();

	for (cap_value_t capability = 0; kept && CAP_IS_SUPPORTED(capability); capability++) {
		if (!(capabilities & PRIV_BIT(capability)) || !priv_is_set(have, capability, CAP_PERMITTED))
			continue;
		if (cap_set_flag(kept, CAP_PERMITTED, 1, &capability, CAP_SET) < 0 ||
		    cap_set_flag(kept, CAP_EFFECTIVE, 1, &capability, CAP_SET) < 0) {
			cap_free(kept);
			return NULL;
		}
	}
	return kept;
}

/* Only CAP_SETPCAP can shrink the bounding set. Without it, no_new_privs keeps programs from gaining capabilities. */
static void priv_shrink_bounds(cap_t have, uint64_t capabilities)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (!priv_is_set(have, CAP_SETPCAP, CAP_EFFECTIVE))
		return;
	for (int capability = 0; CAP_IS_SUPPORTED(capability); capability++)
		if (!(capabilities & PRIV_BIT(capability)))
			cap_drop_bound(capability);
}

static int priv_become(const struct priv_user *user)
{
	/* With KEEPCAPS, capabilities stay permitted but are no longer effective. */
	if (initgroups(user->name, user->gid) < 0 || setresgid(user->gid, user->gid, user->gid) < 0 ||
	    prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setresuid(user->uid, user->uid, user->uid) < 0 ||
	    prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) < 0)
		return -errno;
	return 0;
}

static int priv_apply(cap_t kept)
{
	if (cap_reset_ambient() < 0 && errno != EINVAL) /* a kernel without ambient capabilities */
		return -errno;
	return cap_set_proc(kept) < 0 ? -errno : 0;
}

/* A program that this process starts gets no more capabilities, whatever is left in the bounding set. */
static bool priv_is_closed(void)
{
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return false;
	for (int capability = 0; CAP_IS_SUPPORTED(capability); capability++)
		if (cap_get_ambient(capability) == 1)
			return false;
	return true;
}

/* The process is the user and cannot become another one. */
static bool priv_is_user(const struct priv_user *user)
{
	uid_t uid[3];
	gid_t gid[3];

	if (getresuid(&uid[0], &uid[1], &uid[2]) < 0 || getresgid(&gid[0], &gid[1], &gid[2]) < 0)
		return false;
	for (int i = 0; i < 3; i++)
		if (uid[i] != user->uid || gid[i] != user->gid)
			return false;
	return setresuid(0, 0, 0) < 0 && setresgid(0, 0, 0) < 0;
}

static uint32_t priv_count_bounds(void)
{
	uint32_t n = 0;

	for (int capability = 0; CAP_IS_SUPPORTED(capability); capability++)
		n += cap_get_bound(capability) == 1;
	return n;
}

/* Compare with what the kernel reports. */
static int priv_verify(cap_t kept, const struct priv_user *user)
{
	cap_t now = cap_get_proc();
	bool is_so = now && cap_compare(now, kept) == 0 && priv_is_closed() && (!user || priv_is_user(user));

	cap_free(now);
	return is_so ? 0 : -EPERM;
}

static void priv_describe(cap_t kept, char *report, size_t bytes)
{
	const struct passwd *us = getpwuid(geteuid());
	char *text = cap_to_text(kept, NULL);

	snprintf(report, bytes, "user %s; capabilities kept: %s; %u in the bounding set; no new privileges",
	         us ? us->pw_name : "without a name", text && text[0] && strcmp(text, "=") ? text : "none",
	         priv_count_bounds());
	cap_free(text);
}

int priv_find_user(struct priv_user *user, const char *name, struct failure *failure)
{
	const struct passwd *entry;

	errno = 0;
	entry = getpwnam(name);
	if (!entry)
		return failure_set(
			failure, EX_CONFIG, errno ? errno : ENOENT,
			"there is no user '%s' for the daemon to switch to (%s): create it with systemd-sysusers or "
			"useradd --system --user-group '%s', or name another user, or root, with --user",
			name, errno ? strerror(errno) : "not found", name);
	*user = (struct priv_user){.name = name, .uid = entry->pw_uid, .gid = entry->pw_gid};
	return 0;
}

int priv_call_as(const struct priv_user *user, void call(void *context), void *context)
{
	pid_t child = fork();
	int status, r;

	if (child < 0)
		return -errno;
	if (child == 0) {
		r = priv_become(user);
		if (r == 0)
			call(context);
		_exit(-r);
	}
	if (waitpid(child, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
}

/* Changing the bounding set and the user needs capabilities, so they are dropped last. */
static int priv_take_on(cap_t have, cap_t kept, uint64_t capabilities, const struct priv_user *user,
                        struct failure *failure)
{
	int r;

	priv_shrink_bounds(have, capabilities);
	r = user ? priv_become(user) : 0;
	if (r < 0)
		return failure_set(failure, EX_NOPERM, -r,
		                   "cannot switch to user '%s': %s; start ibvcapd as that user, or with CAP_SETUID and "
		                   "CAP_SETGID, or name another user, or root, with --user",
		                   user->name, strerror(-r));
	r = priv_apply(kept);
	if (r == 0)
		r = priv_verify(kept, user);
	if (r == 0)
		return 0;
	return failure_set(failure, EX_NOPERM, -r, "privileges cannot be dropped, or are still there after that: %s",
	                   strerror(-r));
}

/* Capabilities that this process had and gave up: only a restart brings them back. */
static uint64_t priv_given_up;

static void priv_note_given_up(cap_t had, uint64_t capabilities)
{
	for (int capability = 0; CAP_IS_SUPPORTED(capability); capability++)
		if (capabilities & PRIV_BIT(capability) && priv_is_set(had, capability, CAP_PERMITTED))
			priv_given_up |= PRIV_BIT(capability);
}

int priv_keep(const struct priv_user *user, uint64_t capabilities, char *report, size_t report_bytes,
              struct failure *failure)
{
	cap_t have = cap_get_proc(), kept = have ? priv_build_kept(have, capabilities) : NULL;
	int r;

	if (!have)
		r = failure_set(failure, EX_OSERR, errno, "capabilities cannot be read: %s", strerror(errno));
	else
		r = kept ? priv_take_on(have, kept, capabilities, user, failure) : failure_no_memory(failure);
	if (r == 0) {
		priv_note_given_up(have, ~capabilities);
		priv_describe(kept, report, report_bytes);
	}
	cap_free(kept);
	cap_free(have);
	return r;
}

int priv_drop(uint64_t capabilities)
{
	cap_t set = cap_get_proc();
	int r = 0;

	if (!set)
		return -errno;
	priv_note_given_up(set, capabilities);
	for (cap_value_t value = 0; CAP_IS_SUPPORTED(value) && r == 0; value++) {
		if (!(capabilities & PRIV_BIT(value)))
			continue;
		cap_set_ambient(value, CAP_CLEAR);
		if (cap_set_flag(set, CAP_EFFECTIVE, 1, &value, CAP_CLEAR) < 0 ||
		    cap_set_flag(set, CAP_PERMITTED, 1, &value, CAP_CLEAR) < 0 ||
		    cap_set_flag(set, CAP_INHERITABLE, 1, &value, CAP_CLEAR) < 0)
			r = -errno;
	}
	if (r == 0 && cap_set_proc(set) < 0)
		r = -errno;
	cap_free(set);
	return r;
}

bool priv_gave_up(int capability)
{
	return priv_given_up & PRIV_BIT(capability);
}

bool priv_has(int capability)
{
	cap_t set = cap_get_proc();
	bool has = set && priv_is_set(set, capability, CAP_EFFECTIVE);

	cap_free(set);
	return has;
}

const char *priv_list(uint64_t capabilities, char *buffer, size_t bytes)
{
	char name[32];
	size_t used = 0;

	buffer[0] = '\0';
	for (int capability = 0; CAP_IS_SUPPORTED(capability) && used < bytes; capability++)
		if (capabilities & PRIV_BIT(capability) && priv_has(capability))
			used += (size_t)snprintf(buffer + used, bytes - used, "%s%s", used ? ", " : "",
			                         priv_name_of(capability, name, sizeof(name)));
	return buffer;
}

/* The service has these two as it is installed; the others come with a drop-in. */
static const char *priv_service_cure(int capability)
{
	if (capability == CAP_NET_RAW || capability == CAP_IPC_LOCK)
		return "start ibvcapd with systemctl (AmbientCapabilities=CAP_NET_RAW CAP_IPC_LOCK), with ibv_launch";
	return PRIV_XDP_COMMANDS "; or start ibvcapd by hand";
}

int priv_require(int capability, const char *who, const char *purpose, struct failure *failure)
{
	bool is_given_up = priv_given_up & PRIV_BIT(capability);
	char name[32];

	if (priv_has(capability))
		return 0;
	priv_name_of(capability, name, sizeof(name));
	if (is_given_up)
		return failure_set(failure, EX_NOPERM, EPERM,
		                   "%s is missing, which %s needs %s: the daemon gave it up, because it used it for "
		                   "the start only; write the stream or channel to the configuration file, and restart "
		                   "the daemon: systemctl restart ibvcapd",
		                   name, who, purpose);
	return failure_set(
		failure, EX_NOPERM, EPERM,
		"%s is missing, which %s needs %s: %s, as root%s, or after: setcap %s+ep \"$(command -v ibvcapd)\"",
		name, who, purpose, priv_service_cure(capability),
		geteuid() == 0 ? " of a container that is given it (--cap-add)" : "",
		capability == CAP_NET_RAW || capability == CAP_IPC_LOCK
			? "cap_net_raw,cap_ipc_lock"
			: "cap_net_raw,cap_ipc_lock,cap_net_admin,cap_bpf");
}

/* ---- locked memory ------------------------------------------------------------------------------ */

int priv_memlock_allows(uint64_t bytes, struct failure *failure)
{
	struct rlimit limit;

	if (priv_has(CAP_IPC_LOCK))
		return 0;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		return failure_set(failure, EX_OSERR, errno, "RLIMIT_MEMLOCK cannot be read: %s", strerror(errno));
	/* This includes RLIM_INFINITY, which is the largest value. */
	if (limit.rlim_cur >= bytes)
		return 0;
	if (limit.rlim_max >= bytes) {
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_MEMLOCK, &limit) == 0)
			return 0;
	}
	return failure_set(failure, EX_NOPERM, ENOMEM,
	                   "the rings need %llu bytes locked in memory and RLIMIT_MEMLOCK allows %llu: grant "
	                   "CAP_IPC_LOCK, or raise the limit (systemd: LimitMEMLOCK=infinity; shell: ulimit -l %llu), "
	                   "or lower history_blocks",
	                   (unsigned long long)bytes, (unsigned long long)limit.rlim_max,
	                   (unsigned long long)(bytes + 1023) / 1024);
}
