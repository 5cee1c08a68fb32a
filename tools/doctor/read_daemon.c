// SPDX-License-Identifier: Apache-2.0
/*
 * Which process is the daemon: the one that listens at the control socket of the configuration, and no other that has
 * its name. The facts of interfaces are those of its network namespace, which the doctor enters if it may.
 */
#include "tools/doctor/read.h"

#include "daemon/net/net.h"
#include "daemon/priv/priv.h"
#include "lib/base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <ibvcap/ibvcap.h>
#include <libgen.h>
#include <limits.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- the socket ------------------------------------------------------------------------------------ */

/* The kernel keeps the credentials of the process that called listen() last. It never waits: EAGAIN, a full backlog. */
static void ask_listener(struct doctor_socket *control)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	files_copy_name(address.sun_path, sizeof(address.sun_path), control->path);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		control->error = errno;
	} else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0) {
		control->uid = peer.uid;
		/* systemd keeps the socket of a daemon that ended, so the kernel still names that process. */
		if (peer.pid > 0 && kill(peer.pid, 0) < 0 && errno == ESRCH)
			control->error = ESRCH;
		else
			control->pid = peer.pid;
	}
	if (fd >= 0)
		close(fd);
}

/* Could only root and the listener's account make the socket there? */
static bool is_place_of(const char *socket_path, uid_t uid)
{
	char directory[PATH_MAX];
	struct stat place;

	snprintf(directory, sizeof(directory), "%s", socket_path);
	return stat(dirname(directory), &place) == 0 && !(place.st_mode & (S_IWGRP | S_IWOTH)) &&
	       (place.st_uid == 0 || place.st_uid == uid);
}

/*
 * Until the service starts, its socket unit makes systemd listen. Any user can listen at a path in /tmp; an account
 * that has a place of its own for the socket (ibvcapd --user) is believed.
 */
static bool is_daemon(const struct doctor_socket *control)
{
	char name[DOCTOR_NAME_BYTES];

	if (control->pid <= 0 ||
	    (control->uid > SYSTEM_UID_MAX && control->uid != geteuid() && !is_place_of(control->path, control->uid)))
		return false;
	files_read_line(name, sizeof(name), "/proc/%d/comm", (int)control->pid);
	return strcmp(name, "systemd") != 0;
}

/* ---- the network namespace ------------------------------------------------------------------------- */

static void compare_with_first_process(struct doctor_facts *facts)
{
	struct stat own, first;

	if (stat("/proc/self/ns/net", &own) == 0 && stat("/proc/1/ns/net", &first) == 0)
		facts->network = own.st_ino == first.st_ino ? DOCTOR_NETWORK_FIRST : DOCTOR_NETWORK_OTHER;
}

static void enter_network(struct doctor_facts *facts)
{
	struct stat own, daemons;
	char path[PATH_MAX];
	int fd;

	files_join(path, "/proc/%d/ns/net", (int)facts->process.pid);
	if (stat("/proc/self/ns/net", &own) < 0 || stat(path, &daemons) < 0 || own.st_ino == daemons.st_ino)
		return;
	facts->network = DOCTOR_NETWORK_HIDDEN;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && setns(fd, CLONE_NEWNET) == 0)
		facts->network = DOCTOR_NETWORK_ENTERED;
	if (fd >= 0)
		close(fd);
}

/* A mounted sysfs shows the interfaces of the network namespace in which it was mounted, whoever reads it. */
static bool is_sysfs_foreign(void)
{
	struct if_nameindex *interfaces = if_nameindex();
	unsigned int n = 0, n_there = 0;
	bool is_foreign = false, is_there;
	struct files_list list;

	for (; interfaces && interfaces[n].if_index && !is_foreign; n++)
		is_foreign = !net_is_in_sysfs(interfaces[n].if_name);
	is_there = files_list(&list, "/sys/class/net");
	while (files_next(&list))
		n_there += files_exist("%s/ifindex", list.path);
	if (is_there && !is_foreign)
		is_foreign = interfaces && n != n_there;
	if (interfaces)
		if_freenameindex(interfaces);
	return is_foreign;
}

/* It has dropped rights since it chose, so the facts of now do not say what it chose. */
static void ask_taken(struct doctor_facts *facts)
{
	struct ibvcap_status_interface interface = IBVCAP_INIT(struct ibvcap_status_interface);
	struct ibvcap_status_daemon daemon = IBVCAP_INIT(struct ibvcap_status_daemon);
	struct ibvcap_status *status;

	if (ibvcap_status(facts->control.path, 1000, &status) < 0)
		return;
	ibvcap_status_daemon(status, &daemon);
	facts->process.config_written_ns = daemon.config_written_ns;
	for (uint32_t i = 0;
	     facts->n_taken < DOCTOR_INTERFACES_MAX && ibvcap_status_interface(status, i, &interface) > 0; i++) {
		struct doctor_taken *taken = &facts->taken[facts->n_taken];

		if (!interface.is_auto)
			continue;
		facts->n_taken++;
		memcpy(taken->interface, interface.interface, sizeof(taken->interface));
		memcpy(taken->backend, interface.backend, sizeof(taken->backend));
		taken->choice =
			(struct backend_choice){.backend = taken->backend, .is_second_best = interface.is_second_best};
		memcpy(taken->choice.why, interface.backend_why, sizeof(taken->choice.why));
		memcpy(taken->choice.better, interface.backend_better, sizeof(taken->choice.better));
		memcpy(taken->choice.command, interface.backend_command, sizeof(taken->choice.command));
	}
	ibvcap_status_free(status);
}

/* ---- a user of the daemon -------------------------------------------------------------------------- */

/* In a child process that is this user. */
static void connect_as_user(void *context)
{
	struct doctor_socket *control = context;
	struct ibvcap_status *status;

	control->of_user =
		ibvcap_status(control->path, 1000, &status) == 0 ? DOCTOR_USER_CONNECTS : DOCTOR_USER_REFUSED;
	if (control->of_user == DOCTOR_USER_REFUSED)
		files_copy_name(control->refused, sizeof(control->refused), ibvcap_error_text());
}

static void connect_user(const char *name, struct doctor_socket *control)
{
	const struct passwd *entry = getpwnam(name);
	struct doctor_socket *shared;

	if (!entry) {
		control->of_user = DOCTOR_USER_REFUSED;
		snprintf(control->refused, sizeof(control->refused),
		         "there is no user '%s' (getent passwd lists those there are)", name);
		return;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return;
	*shared = *control;
	if (geteuid() == 0)
		priv_call_as(&(struct priv_user){.name = name, .uid = entry->pw_uid, .gid = entry->pw_gid},
		             connect_as_user, shared);
	*control = *shared;
	munmap(shared, sizeof(*shared));
}

void doctor_find_daemon(struct doctor_facts *facts)
{
	struct doctor_socket *control = &facts->control;

	files_copy_name(control->path, sizeof(control->path),
	                facts->config ? facts->config->socket_path : IBVCAP_CONTROL_SOCKET);
	compare_with_first_process(facts);
	ask_listener(control);
	if (is_daemon(control)) {
		facts->process.kind = DOCTOR_DAEMON;
		facts->process.pid = control->pid;
		ask_taken(facts);
		if (facts->user)
			connect_user(facts->user, control);
		enter_network(facts);
	}
	facts->sysfs_is_foreign = is_sysfs_foreign();
}
