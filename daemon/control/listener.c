// SPDX-License-Identifier: Apache-2.0
/* Makes the control socket at its path, or takes over one that listens there already, and removes it at the end. */
#include "daemon/control/listener.h"

#include "daemon/control/dropped_sockets.h"
#include "daemon/control/id_name.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16, include/uapi/asm-generic/socket.h */
#endif

#define BACKLOG       4096 /* the kernel takes less if net.core.somaxconn is less */
#define OWN_DIRECTORY "; set a path in a directory of the daemon's user: install -d -o %s /run/ibvcapd"
#define LISTENS       0x10000 /* __SO_ACCEPTCON in the flags of /proc/net/unix */

/* This process's user for a command: its name, or its number. */
static struct id_text own_user(void)
{
	struct id_text user = id_of_user(geteuid());

	user.text[strcspn(user.text, " ")] = '\0';
	return user;
}

/* Does a process listen at the path? 1: yes, and *pid is set if known; 0: no; -errno: the kernel does not tell. */
static int find_owner(const struct sockaddr_un *address, pid_t *pid)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return -errno;
	/* EAGAIN: the backlog is full; EPROTOTYPE: a socket of another type. In both cases a process listens. */
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0) {
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0)
			*pid = peer.pid;
		r = 1;
	} else if (errno == EAGAIN || errno == EPROTOTYPE) {
		r = 1;
	} else {
		r = errno == ECONNREFUSED || errno == ENOENT ? 0 : -errno;
	}
	close(fd);
	return r;
}

/* 1: its directory is there. */
static int check_directory(const char *path, const char *user, struct failure *failure)
{
	char directory[PATH_MAX];
	struct stat status;

	snprintf(directory, sizeof(directory), "%s", path);
	dirname(directory);
	if (stat(directory, &status) == 0 || errno != ENOENT)
		return 1;
	return failure_set(failure, EX_CONFIG, ENOENT,
	                   "control socket '%s': there is no directory %s; make it for the daemon's user (as root: "
	                   "install -d -o %s %s), or set another path",
	                   path, directory, user ? user : own_user().text, directory);
}

int listener_check_path(const char *path, const char *user, struct failure *failure)
{
	struct stat status;

	if (strlen(path) >= sizeof((struct sockaddr_un){0}.sun_path))
		return failure_set(failure, EX_CONFIG, ENAMETOOLONG, "control socket '%s': longer than %zu bytes", path,
		                   sizeof((struct sockaddr_un){0}.sun_path) - 1);
	if (lstat(path, &status) < 0)
		return check_directory(path, user, failure) < 0 ? -ENOENT : 0;
	if (S_ISSOCK(status.st_mode))
		return 0;
	if (S_ISDIR(status.st_mode))
		return failure_set(failure, EX_CONFIG, EISDIR,
		                   "control socket '%s': it is a directory: set a path in it, '%s/control.sock' for "
		                   "example",
		                   path, path);
	return failure_set(failure, EX_CONFIG, EEXIST,
	                   "control socket '%s': the path is taken by something that is not a socket, and is left "
	                   "alone; remove it or set another path",
	                   path);
}

/* Make the path free. 0: nothing was there, or a stale socket, which is removed. */
static int clear_path(const struct sockaddr_un *address, struct failure *failure)
{
	const char *path = address->sun_path;
	struct stat status;
	pid_t pid = 0;
	int r;

	if (lstat(path, &status) < 0)
		return errno == ENOENT ? 0
		                       : failure_set(failure, EX_OSERR, errno, "control socket '%s': %s", path,
		                                     strerror(errno));
	r = find_owner(address, &pid);
	if (r > 0)
		return failure_set(
			failure, EX_TEMPFAIL, EADDRINUSE,
			"control socket '%s': taken by process %d, which is alive; stop it or set another path", path,
			(int)pid);
	if (r < 0)
		return failure_set(failure, r == -EACCES ? EX_NOPERM : EX_OSERR, -r,
		                   "control socket '%s': the path is taken, and asking who listens there failed: %s",
		                   path, strerror(-r));
	if (unlink(path) < 0 && errno != ENOENT) {
		int error = errno; /* own_user() may change it */

		return failure_set(failure, EX_NOPERM, error,
		                   "control socket '%s': cannot remove the stale socket: %s" OWN_DIRECTORY, path,
		                   strerror(error), own_user().text);
	}
	return 0;
}

static int bind_path(int fd, const struct sockaddr_un *address, struct failure *failure)
{
	int error;

	if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
		return 0;
	error = errno; /* own_user() may change it */
	if (error == EACCES || error == EPERM)
		return failure_set(failure, EX_NOPERM, error, "control socket '%s': cannot be made: %s" OWN_DIRECTORY,
		                   address->sun_path, strerror(error), own_user().text);
	return failure_set(failure, error == EROFS ? EX_NOPERM : EX_OSERR, error,
	                   "control socket '%s': cannot be made: %s%s", address->sun_path, strerror(error),
	                   error == EROFS ? "; as a service it may write below /run/ibvcapd only: set a path there"
	                                  : "");
}

/* Called before listen(): until then no client can connect, whatever the mode is. */
static int set_rights(const struct listener *listener, mode_t mode, gid_t group, struct failure *failure)
{
	if (group != (gid_t)-1 && chown(listener->path, (uid_t)-1, group) < 0)
		return failure_set(
			failure, EX_NOPERM, errno,
			"control socket '%s': cannot be given to group %u: %s; make the daemon's user a member of it "
			"(usermod -aG), or set another group",
			listener->path, (unsigned)group, strerror(errno));
	if (chmod(listener->path, mode) < 0)
		return failure_set(failure, EX_OSERR, errno, "control socket '%s': cannot be set to mode %04o: %s",
		                   listener->path, (unsigned)mode, strerror(errno));
	return 0;
}

void listener_pass_descriptors(int fd, bool pass)
{
	const int value = pass;

	(void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &value, sizeof(value));
}

static void note_inode(struct listener *listener)
{
	struct stat status;

	if (lstat(listener->path, &status) < 0)
		return;
	listener->device = status.st_dev;
	listener->inode = status.st_ino;
}

int listener_open(struct listener *listener, const char *path, mode_t mode, gid_t group, struct failure *failure)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int r;

	*listener = (struct listener)LISTENER_INIT;
	r = listener_check_path(path, NULL, failure);
	if (r < 0)
		return r;
	strcpy(address.sun_path, path);
	r = clear_path(&address, failure);
	if (r < 0)
		return r;
	listener->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener->fd < 0)
		return failure_set(failure, EX_OSERR, errno, "control socket '%s': %s", path, strerror(errno));
	listener_pass_descriptors(listener->fd, false);
	r = bind_path(listener->fd, &address, failure);
	if (r < 0)
		goto fail;
	strcpy(listener->path, path);
	note_inode(listener);
	r = set_rights(listener, mode, group, failure);
	if (r == 0 && listen(listener->fd, BACKLOG) < 0)
		r = failure_set(failure, EX_OSERR, errno, "control socket '%s': %s", path, strerror(errno));
	if (r == 0)
		return 0;

fail:
	listener_close(listener);
	return r;
}

int listener_adopt(struct listener *listener, int fd, const char *path, mode_t mode, gid_t group,
                   struct failure *failure)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat status;
	int r = 0;

	*listener = (struct listener){.fd = fd, .kept = true, .adopted = true};
	snprintf(listener->path, sizeof(listener->path), "%s", path);
	note_inode(listener);
	listener_pass_descriptors(fd, false);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		r = failure_set(failure, EX_OSERR, errno, "control socket '%s': %s", path, strerror(errno));
	else if (lstat(listener->path, &status) == 0 && status.st_uid == geteuid()) /* else, systemd has set them */
		r = set_rights(listener, mode, group, failure);
	/* Again, so that SO_PEERCRED names this process to clients, and not the one that listened before. */
	if (r == 0 && listen(fd, BACKLOG) < 0)
		r = failure_set(failure, EX_OSERR, errno, "control socket '%s': %s", path, strerror(errno));
	if (r < 0)
		listener_close(listener);
	return r;
}

/* Reads the kernel's list, because a connection would disturb the process that listens. True if it cannot be read. */
bool listener_may_be_taken(const char *path)
{
	FILE *file = fopen("/proc/self/net/unix", "re");
	char line[256], at[128];
	unsigned flags;
	bool found = !file;

	while (!found && fgets(line, sizeof(line), file))
		found = sscanf(line, "%*x: %*x %*x %x %*x %*x %*u %127s", &flags, at) == 2 && (flags & LISTENS) &&
		        strcmp(at, path) == 0;
	if (file)
		fclose(file);
	return found;
}

static void unlink_path(const struct listener *listener)
{
	struct stat status;

	if (listener->path[0] && lstat(listener->path, &status) == 0 && status.st_dev == listener->device &&
	    status.st_ino == listener->inode)
		unlink(listener->path);
}

void listener_close(struct listener *listener)
{
	struct dropped_sockets sockets = {.fds = {listener->fd}, .n = 1};

	if (listener->fd < 0)
		return;
	/*
	 * The last close() closes the connections that nobody accepted, too, and with them what their clients sent:
	 * that may sleep. If the service manager keeps the socket, this is not the last one.
	 */
	if (listener->kept) {
		close(listener->fd);
	} else {
		unlink_path(listener);
		dropped_sockets_close(&sockets);
	}
	/* If the service manager was asked to keep the socket but did not, the path would refuse every client. */
	if (listener->kept && !listener->adopted && !listener_may_be_taken(listener->path))
		unlink_path(listener);
	*listener = (struct listener)LISTENER_INIT;
}
