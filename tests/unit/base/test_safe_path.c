// SPDX-License-Identifier: Apache-2.0
/* Which links a program follows to a file that it writes, and which files that exist it overwrites. Needs root. */
#include "lib/base/safe_path.h"
#include "tests/unit/tools/own_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define OTHER 12345 /* a user */

static char folder[] = "safe_path.XXXXXX";
static struct failure failure;
static struct safe_path place;

static void enter_folder(void)
{
	int fd;

	if (geteuid() != 0)
		cr_skip_test("not root");
	umask(022);
	own_folder_enter(folder);
	cr_assert_eq(chmod(".", 0755), 0);
	cr_assert_eq(mkdir("victim", 0700), 0);
	fd = open("victim/file", O_WRONLY | O_CREAT, 0600);
	cr_assert_eq(write(fd, "secret", 6), 6);
	close(fd);
	cr_assert_eq(mkdir("own", 0755), 0);
	cr_assert_eq(mkdir("open", 0755), 0);
	cr_assert_eq(chmod("open", 0777), 0);
	cr_assert_eq(mkdir("sticky", 0755), 0);
	cr_assert_eq(chmod("sticky", 01777), 0);
	cr_assert_eq(mkdir("theirs", 0755), 0);
	cr_assert_eq(chown("theirs", OTHER, OTHER), 0);
}

static void leave_folder(void)
{
	own_folder_leave(folder);
}

TestSuite(safe_path, .init = enter_folder, .fini = leave_folder);

static int find(const char *path)
{
	int r = safe_path_find(&place, path, &failure);

	if (r == 0)
		close(place.folder);
	else
		cr_expect_eq(place.folder, -1);
	return r;
}

static void put_link(const char *target, const char *name, uid_t user)
{
	cr_assert_eq(symlink(target, name), 0);
	cr_assert_eq(lchown(name, user, user), 0);
}

static void expect_refused(const char *path, const char *said)
{
	cr_expect_eq(find(path), -EPERM, "%s", path);
	cr_expect_eq(failure.exit_code, EX_CANTCREAT);
	cr_expect(strstr(failure.text, said) && strstr(failure.text, "user 12345"), "%s", failure.text);
}

Test(safe_path, own_links_are_followed)
{
	put_link("../victim/file", "own/a", 0);
	cr_expect_eq(find("own/a"), 0);
	cr_expect(place.exists && !strcmp(place.name, "file") && !strcmp(place.path, "own/../victim/file"));
	put_link("../victim", "sticky/b", 0);
	cr_expect_eq(find("sticky/b/new"), 0);
	cr_expect(!place.exists && !strcmp(place.name, "new") && !strcmp(place.path, "sticky/b/new"));
	put_link("a", "own/c", 0);
	cr_expect_eq(find(".//own/./c"), 0);
	cr_expect_eq(place.status.st_size, 6);
}

Test(safe_path, links_that_another_user_may_have_made_are_refused)
{
	static const char *const folders[] = {"own", "open", "sticky", "theirs"};
	char path[64];

	for (unsigned i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/file", folders[i]);
		put_link("../victim/file", path, OTHER);
		expect_refused(path, path);
		snprintf(path, sizeof(path), "%s/folder", folders[i]);
		put_link("../victim", path, OTHER);
		strcat(path, "/file");
		expect_refused(path, "folder' is a symbolic link");
	}
	put_link("../victim/file", "open/root", 0);
	cr_expect_eq(find("open/root"), -EPERM, "another user could have moved it there");
	put_link("../victim/file", "theirs/root", 0);
	cr_expect_eq(find("theirs/root"), -EPERM);
	put_link("../victim/file", "sticky/root", 0);
	cr_assert_eq(linkat(AT_FDCWD, "sticky/root", AT_FDCWD, "sticky/hard", 0), 0);
	cr_expect_eq(find("sticky/hard"), -EPERM, "or made a hard link to it");
	put_link("../sticky/file", "own/through", 0);
	expect_refused("own/through", "sticky/file' is");
}

Test(safe_path, a_user_follows_own_links_and_roots_only)
{
	put_link("../own/new", "theirs/a", OTHER);
	put_link("../own/new", "theirs/b", OTHER + 1);
	cr_assert_eq(seteuid(OTHER), 0);
	cr_expect_eq(find("theirs/a"), 0);
	cr_expect_eq(find("theirs/b"), -EPERM);
	cr_assert_eq(seteuid(0), 0);
}

Test(safe_path, paths_that_name_no_file)
{
	char path[PATH_MAX + 10];

	cr_expect_eq(find(""), -ENOENT);
	cr_expect_eq(find("/"), -EISDIR);
	cr_expect_eq(find("own"), -EISDIR);
	cr_expect_eq(find("own/"), -EISDIR);
	cr_expect_eq(find("own/.."), -EISDIR);
	cr_expect_eq(find("none/a"), -ENOENT);
	cr_expect_eq(find("victim/file/a"), -ENOTDIR);
	cr_expect_str_eq(failure.text, "");
	put_link("loop", "loop", 0);
	cr_expect_eq(find("loop"), -ELOOP);
	cr_expect_eq(find("loop/a"), -ELOOP);
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	cr_expect_eq(find(path), -ENAMETOOLONG);
	path[NAME_MAX + 1] = '\0';
	cr_expect_eq(find(path), -ENAMETOOLONG);
	cr_assert_eq(symlink("own/aaaaaaaaaaaaaaaaaaaa", "long"), 0);
	strcpy(path, "long");
	while (strlen(path) < PATH_MAX - 10)
		strcat(path, "/x");
	cr_expect_eq(find(path), -ENAMETOOLONG);
}

Test(safe_path, pipes_and_devices)
{
	int pipes[2], fd;
	char path[64];

	cr_expect_eq(find("/dev/null"), 0);
	cr_expect(safe_path_is_special(&place));
	cr_assert_eq(pipe(pipes), 0);
	snprintf(path, sizeof(path), "/dev/fd/%d", pipes[1]);
	cr_assert_eq(safe_path_find(&place, path, &failure), 0);
	cr_expect(safe_path_is_special(&place) && !strcmp(place.path, path));
	fd = safe_path_open(&place);
	cr_expect(fd >= 0 && write(fd, "x", 1) == 1 && read(pipes[0], path, 2) == 1);
	close(fd);
	close(place.folder);
	cr_assert_eq(mkfifo("theirs/pipe", 0666), 0);
	cr_expect_eq(find("theirs/pipe"), 0);
	cr_assert_eq(mkfifo("sticky/pipe", 0666), 0);
	cr_expect_eq(find("sticky/pipe"), 0);
	cr_assert_eq(chown("sticky/pipe", OTHER, OTHER), 0);
	expect_refused("sticky/pipe", "is a pipe");
}

static bool put_text(const char *path)
{
	FILE *file = safe_path_fopen(path, &failure);

	return file && fputs("new", file) >= 0 && fclose(file) == 0;
}

Test(safe_path, what_is_overwritten)
{
	cr_expect(put_text("own/a") && put_text("own/a") && put_text("sticky/a") && put_text("sticky/a"));
	cr_expect_eq(size_of("own/a"), 3);
	cr_assert_eq(link("own/a", "own/b"), 0);
	cr_expect(put_text("own/b"));
	cr_assert_eq(link("victim/file", "sticky/hard"), 0);
	cr_assert_eq(link("victim/file", "theirs/hard"), 0);
	cr_expect_not(put_text("sticky/hard"));
	cr_expect(strstr(failure.text, "another hard link"), "%s", failure.text);
	cr_expect_not(put_text("theirs/hard"));
	cr_expect_eq(size_of("victim/file"), 6);
	cr_assert_eq(chown("sticky/a", OTHER, OTHER), 0);
	cr_expect_not(put_text("sticky/a"));
	cr_expect(strstr(failure.text, "file of user 12345"), "%s", failure.text);
	cr_expect_not(put_text("none/a"));
	cr_expect_str_eq(failure.text, "none/a: there is no directory none");
	cr_expect_eq(failure.exit_code, EX_CANTCREAT);
}

Test(safe_path, a_file_that_took_the_place_is_not_opened)
{
	cr_expect(put_text("open/a") && put_text("open/b"));
	cr_assert_eq(safe_path_find(&place, "open/a", &failure), 0);
	cr_assert_eq(rename("open/b", "open/a"), 0);
	cr_expect_eq(safe_path_open(&place), -ESTALE);
	cr_assert_eq(unlink("open/a"), 0);
	cr_assert_eq(symlink("../victim/file", "open/a"), 0);
	cr_expect_eq(safe_path_open(&place), -ELOOP);
	close(place.folder);
}
