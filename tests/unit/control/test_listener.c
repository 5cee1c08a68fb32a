// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/listener.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[] = "/tmp/ibvcap-listener-XXXXXX";
static char path[64];

static void make_directory(void)
{
	cr_assert(mkdtemp(directory) != NULL);
	snprintf(path, sizeof(path), "%s/control.sock", directory);
}

static void remove_directory(void)
{
	unlink(path);
	rmdir(directory);
}

TestSuite(listener, .init = make_directory, .fini = remove_directory);

static int make_socket_file(int type)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type, 0);

	strcpy(address.sun_path, path);
	cr_assert(eq(int, bind(fd, (struct sockaddr *)&address, sizeof(address)), 0));
	return fd;
}

static bool exists(void)
{
	struct stat status;

	return lstat(path, &status) == 0;
}

Test(listener, a_path_has_the_mode_asked_for_and_is_gone_after_close)
{
	struct listener listener;
	struct stat status;

	cr_assert(eq(int, listener_open(&listener, path, 0620, (gid_t)-1, NULL), 0));
	cr_assert(eq(int, stat(path, &status), 0));
	cr_expect(eq(u32, status.st_mode & 07777, 0620));
	listener_close(&listener);
	cr_expect(not(exists()));
	listener_close(&listener);
}

Test(listener, a_stale_socket_is_replaced)
{
	struct listener listener;

	close(make_socket_file(SOCK_SEQPACKET));
	cr_assert(exists());
	cr_assert(eq(int, listener_open(&listener, path, 0600, (gid_t)-1, NULL), 0));
	listener_close(&listener);
}

Test(listener, a_live_owner_is_named_and_left_alone)
{
	struct listener first, second;
	struct failure failure = {0};
	char pid[32];

	cr_assert(eq(int, listener_open(&first, path, 0600, (gid_t)-1, NULL), 0));
	cr_expect(eq(int, listener_open(&second, path, 0600, (gid_t)-1, &failure), -EADDRINUSE));
	cr_expect(eq(int, failure.exit_code, EX_TEMPFAIL));
	snprintf(pid, sizeof(pid), "process %d", (int)getpid());
	cr_expect(strstr(failure.text, pid) != NULL, "%s", failure.text);
	cr_expect(exists());
	listener_close(&first);
}

Test(listener, a_live_socket_of_another_type_is_left_alone)
{
	struct listener listener;
	struct failure failure = {0};
	int fd = make_socket_file(SOCK_STREAM);

	listen(fd, 1);
	cr_expect(eq(int, listener_open(&listener, path, 0600, (gid_t)-1, &failure), -EADDRINUSE));
	cr_expect(exists());
	close(fd);
}

Test(listener, what_is_not_a_socket_is_never_unlinked)
{
	struct listener listener;
	struct failure failure = {0};

	close(open(path, O_CREAT | O_WRONLY, 0600));
	cr_expect(eq(int, listener_open(&listener, path, 0600, (gid_t)-1, &failure), -EEXIST));
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(exists());
	unlink(path);
	cr_assert(eq(int, symlink("/nowhere", path), 0));
	cr_expect(eq(int, listener_open(&listener, path, 0600, (gid_t)-1, &failure), -EEXIST));
	cr_expect(exists());
}

Test(listener, a_path_that_another_has_taken_meanwhile_is_not_unlinked)
{
	struct listener listener;
	int fd;

	cr_assert(eq(int, listener_open(&listener, path, 0600, (gid_t)-1, NULL), 0));
	unlink(path);
	fd = make_socket_file(SOCK_SEQPACKET);
	listener_close(&listener);
	cr_expect(exists());
	close(fd);
}

Test(listener, a_missing_directory_is_a_configuration_error)
{
	struct listener listener;
	struct failure failure = {0};

	cr_expect(eq(int, listener_open(&listener, "/nonexistent/x.sock", 0600, (gid_t)-1, &failure), -ENOENT));
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(strstr(failure.text, "/nonexistent/x.sock") != NULL);
}

Test(listener, a_path_that_no_socket_can_have_is_a_configuration_error)
{
	struct listener listener;
	struct failure failure = {0};
	char longest[150];

	memset(longest, 'a', sizeof(longest) - 1);
	longest[0] = '/';
	longest[sizeof(longest) - 1] = 0;
	cr_expect(eq(int, listener_open(&listener, longest, 0600, (gid_t)-1, &failure), -ENAMETOOLONG));
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(strstr(failure.text, "longer than 107 bytes") != NULL, "%s", failure.text);
}

#define NOBODY 65534

static void become_nobody(void)
{
	if (geteuid() != 0)
		cr_skip_test("only root can become another user");
	cr_assert(eq(int, setgroups(0, NULL), 0));
	cr_assert(eq(int, setegid(NOBODY), 0));
	cr_assert(eq(int, seteuid(NOBODY), 0));
}

static void become_root(void)
{
	cr_assert(eq(int, seteuid(0), 0));
	cr_assert(eq(int, setegid(0), 0));
}

Test(listener, a_directory_of_another_user_is_a_matter_of_permission)
{
	struct listener listener;
	struct failure failure = {0};

	cr_assert(eq(int, chmod(directory, 0755), 0));
	become_nobody();
	cr_expect(eq(int, listener_open(&listener, path, 0600, (gid_t)-1, &failure), -EACCES));
	cr_expect(eq(int, failure.exit_code, EX_NOPERM));
	cr_expect(strstr(failure.text, path) && strstr(failure.text, "install -d -o nobody /run"), "%s", failure.text);
	become_root();
}

Test(listener, a_group_that_the_daemon_is_not_in_is_a_matter_of_permission)
{
	struct listener listener;
	struct failure failure = {0};

	cr_assert(eq(int, chown(directory, NOBODY, NOBODY), 0));
	become_nobody();
	cr_expect(eq(int, listener_open(&listener, path, 0600, 0, &failure), -EPERM));
	cr_expect(eq(int, failure.exit_code, EX_NOPERM));
	cr_expect(strstr(failure.text, "group 0") && strstr(failure.text, "usermod -aG"), "%s", failure.text);
	cr_expect(not(exists()), "nothing stays");
	become_root();
}

Test(listener, a_socket_from_an_earlier_run_is_taken_over_and_its_path_stays)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct listener first, second;
	struct stat status;
	int client = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	int managers;

	cr_assert(eq(int, listener_open(&first, path, 0600, (gid_t)-1, NULL), 0));
	managers = dup(first.fd);
	strcpy(address.sun_path, path);
	cr_assert(eq(int, connect(client, (struct sockaddr *)&address, sizeof(address)), 0));
	cr_assert(eq(int, listener_adopt(&second, dup(first.fd), path, 0620, (gid_t)-1, NULL), 0));
	first.kept = true;
	listener_close(&first);
	cr_assert(eq(int, stat(path, &status), 0));
	cr_expect(eq(u32, status.st_mode & 07777, 0620), "as it is configured now");
	cr_expect(ge(int, accept(second.fd, NULL, NULL), 0), "who came before is served");
	cr_expect(eq(int, accept(second.fd, NULL, NULL), -1), "without blocking");
	listener_close(&second);
	cr_expect(exists());
	close(managers);
	close(client);
}

/* The doctor asks for it; without another listen() it would be the process of the last run. */
Test(listener, clients_see_the_process_that_took_the_socket_over)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int client = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	struct listener first, second;
	socklen_t bytes = sizeof(struct ucred);
	struct ucred peer;
	pid_t pid;

	cr_assert(eq(int, listener_open(&first, path, 0600, (gid_t)-1, NULL), 0));
	pid = fork();
	if (pid == 0)
		_exit(-listener_adopt(&second, first.fd, path, 0600, (gid_t)-1, NULL));
	cr_assert(eq(int, waitpid(pid, NULL, 0), pid));
	strcpy(address.sun_path, path);
	cr_assert(eq(int, connect(client, (struct sockaddr *)&address, sizeof(address)), 0));
	cr_assert(eq(int, getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &bytes), 0));
	cr_expect(eq(int, peer.pid, pid));
	close(client);
	listener_close(&first);
}

Test(listener, a_path_that_was_to_be_kept_and_that_nobody_keeps_does_not_stay)
{
	struct listener listener;

	cr_assert(eq(int, listener_open(&listener, path, 0600, (gid_t)-1, NULL), 0));
	listener.kept = true;
	listener_close(&listener);
	cr_expect(not(exists()));
}

Test(listener, a_socket_that_another_user_made_for_us_keeps_its_rights)
{
	struct listener first, second;
	struct stat status;

	if (geteuid() != 0)
		cr_skip_test("giving a file away needs root");
	cr_assert(eq(int, listener_open(&first, path, 0600, (gid_t)-1, NULL), 0));
	cr_assert(eq(int, chown(path, 4711, 4712), 0));
	cr_assert(eq(int, listener_adopt(&second, dup(first.fd), path, 0666, 0, NULL), 0));
	cr_assert(eq(int, stat(path, &status), 0));
	cr_expect(eq(u32, status.st_mode & 07777, 0600));
	cr_expect(eq(u32, status.st_gid, 4712));
	listener_close(&second);
	cr_expect(exists());
	listener_close(&first);
}
