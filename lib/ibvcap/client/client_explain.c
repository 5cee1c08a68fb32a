// SPDX-License-Identifier: Apache-2.0
/* Finds out why the daemon cannot be reached or does not answer: from the socket's rights, and from /proc. */
#include "lib/ibvcap/client/client.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_BYTES  64
#define ENTRY_BYTES 4096 /* of the user database; the entry of a large group is longer and keeps its number */

/* ---- the rights ------------------------------------------------------------------------------------ */

static void client_name_user(uid_t uid, char name[NAME_BYTES])
{
	char buffer[ENTRY_BYTES];
	struct passwd entry, *found = NULL;

	if (getpwuid_r(uid, &entry, buffer, sizeof(buffer), &found) == 0 && found)
		snprintf(name, NAME_BYTES, "%s", entry.pw_name);
	else
		snprintf(name, NAME_BYTES, "user %u", (unsigned)uid);
}

/* The name of the group, and whether the user database has the user in it. */
static bool client_find_group(gid_t gid, const char *user, char name[NAME_BYTES], bool *has_user)
{
	char buffer[ENTRY_BYTES];
	struct group entry, *found = NULL;

	if (getgrgid_r(gid, &entry, buffer, sizeof(buffer), &found) != 0 || !found)
		return false;
	snprintf(name, NAME_BYTES, "%s", entry.gr_name);
	*has_user = false;
	for (char *const *member = entry.gr_mem; *member; member++)
		*has_user |= strcmp(*member, user) == 0;
	return true;
}

/* Only members of the socket's group may connect, unless the configuration says something else. */
static int client_explain_denied(const char *path)
{
	char user[NAME_BYTES], group[NAME_BYTES];
	struct stat status;
	bool is_read, has_user;

	client_name_user(geteuid(), user);
	is_read = stat(path, &status) == 0;
	if (!is_read && errno == EACCES)
		return error_set(-EACCES,
		                 "control socket '%s': a directory of this path is closed to %s: find it by 'namei -l "
		                 "%s', and open it (chmod o+x)",
		                 path, user, path);
	/* A daemon that stays root has root's group, and nobody should join that. */
	if (is_read && status.st_mode & S_IWGRP && status.st_gid &&
	    client_find_group(status.st_gid, user, group, &has_user)) {
		if (has_user)
			return error_set(-EACCES,
			                 "control socket '%s': %s is in group %s, but this process is not: log in "
			                 "again, or: newgrp %s",
			                 path, user, group, group);
		return error_set(-EACCES,
		                 "control socket '%s': %s is not in group %s: sudo usermod -aG %s %s, then log in "
		                 "again",
		                 path, user, group, group, user);
	}
	return error_set(-EACCES,
	                 "control socket '%s': not for %s; the daemon's configuration (control) says which group may "
	                 "connect: control = { group = \"NAME\"; }",
	                 path, user);
}

int client_explain_connect(const char *path, int error)
{
	struct stat status;

	switch (error) {
	case -ENOENT:
		return error_set(error,
		                 "control socket '%s': does not exist; start the daemon (systemctl start ibvcapd) or "
		                 "name its socket (IBVCAP_SOCKET=PATH, or --socket PATH of a command)",
		                 path);
	case -ECONNREFUSED:
		if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
			return error_set(
				error,
				"control socket '%s': it is a directory: name the socket in it, '%s%scontrol.sock' for "
				"example",
				path, path, path[strlen(path) - 1] == '/' ? "" : "/");
		if (stat(path, &status) == 0 && !S_ISSOCK(status.st_mode))
			return error_set(error, "control socket '%s': it is a file, and no socket: name the daemon's",
			                 path);
		return error_set(error,
		                 "control socket '%s': no process listens: the daemon has ended (systemctl status "
		                 "ibvcapd says why); start the daemon (systemctl start ibvcapd)",
		                 path);
	case -EACCES:
	case -EPERM:
		return client_explain_denied(path);
	case -EAGAIN:
		return error_set(-ETIMEDOUT, "control socket '%s': the daemon does not accept connections in time",
		                 path);
	case -EPROTOTYPE:
		return error_set(-EPROTO, "control socket '%s': the socket is of another type than ibvcapd's", path);
	}
	return error_set(error, "control socket '%s': cannot connect: %s", path, strerror(-error));
}

/* ---- the daemon ------------------------------------------------------------------------------------ */

/* proc(5), stat: the name in parentheses, which may contain some itself, then the state; T and t: stopped. */
static bool client_is_stopped(pid_t pid)
{
	char path[64], line[256] = "";
	const char *state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	state = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
	fclose(file);
	return state && (state[1] == ' ') && (state[2] == 'T' || state[2] == 't');
}

/* While it starts, clients wait in the socket: until the rings have their memory, say. */
static int client_explain_silence(int socket, const char *path)
{
	struct ucred peer = {0};
	socklen_t bytes = sizeof(peer);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) < 0)
		peer.pid = 0;
	if (peer.pid > 0 && client_is_stopped(peer.pid))
		return error_set(-ETIMEDOUT,
		                 "control socket '%s': no answer in time: process %d is stopped (kill -CONT %d lets it "
		                 "go on)",
		                 path, (int)peer.pid, (int)peer.pid);
	return error_set(-ETIMEDOUT,
	                 "control socket '%s': no answer in time: the daemon is starting, or hangs (systemctl status "
	                 "ibvcapd)",
	                 path);
}

int client_explain_lost(int socket, const char *path, int error)
{
	switch (error) {
	case -ETIMEDOUT:
		return client_explain_silence(socket, path);
	case -EPROTO:
		return error_set(error,
		                 "control socket '%s': the answer is not of protocol %d: library and daemon are of "
		                 "different versions; after an upgrade restart the daemon (systemctl restart ibvcapd) "
		                 "and programs that were started before it",
		                 path, PROTOCOL_VERSION);
	case 0:
	case -EPIPE:
	case -ECONNRESET:
		return error_set(
			-ECONNREFUSED,
			"control socket '%s': the daemon closed the connection without an answer; its log says why",
			path);
	}
	return error_set(error, "control socket '%s': %s", path, strerror(-error));
}
