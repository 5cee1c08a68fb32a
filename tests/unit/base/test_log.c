// SPDX-License-Identifier: Apache-2.0
/* Messages on a terminal and in the journal. Each test reads its own stderr through a pipe. */
#include "daemon/base/log.h"
#include "daemon/base/log_limit.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BYTES 4096

static int reader;
static bool has_root;

static void take_stderr(void)
{
	int ends[2];

	cr_assert(eq(int, pipe(ends), 0));
	cr_assert(eq(int, dup2(ends[1], STDERR_FILENO), STDERR_FILENO));
	close(ends[1]);
	reader = ends[0];
}

static const char *read_line(char line[BYTES])
{
	ssize_t n = read(reader, line, BYTES - 1);

	cr_assert(gt(int, (int)n, 0));
	line[n] = '\0';
	return line;
}

static void set_journal(unsigned long long inode_off)
{
	struct stat status;
	char stream[64];

	cr_assert(eq(int, fstat(STDERR_FILENO, &status), 0));
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)status.st_dev,
	         (unsigned long long)status.st_ino + inode_off);
	setenv("JOURNAL_STREAM", stream, 1);
}

static char root[] = "tmp/test_log.XXXXXX"; /* as the old root directory names it */

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
	(void)status;
	(void)type;
	(void)where;
	return remove(path);
}

/*
 * An empty root directory of this process' own, without the machine's journal. No mount is made, because a chroot whose
 * root is no mount point has no private mounts. The working directory stays the old root.
 */
static void hide_journal(void)
{
	cr_assert(eq(int, chdir("/"), 0));
	cr_assert(mkdtemp(root) != NULL);
	has_root = true;
	if (chroot(root) && (unshare(CLONE_NEWUSER) || chroot(root)))
		cr_skip_test("no root directory of its own can be had: %s", strerror(errno));
	cr_assert(eq(int, mkdir("/run", 0755), 0));
	set_journal(0);
}

static void remove_root(void)
{
	if (has_root)
		nftw(root, remove_entry, 4, FTW_DEPTH | FTW_PHYS);
}

/* Instead of it. */
static int bind_journal(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/run/systemd/journal/socket"};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	hide_journal();
	cr_assert(eq(int, mkdir("/run/systemd", 0755) | mkdir("/run/systemd/journal", 0755), 0));
	cr_assert(eq(int, bind(fd, (struct sockaddr *)&address, sizeof(address)), 0));
	return fd;
}

TestSuite(log, .init = take_stderr, .fini = remove_root);

Test(log, on_a_terminal_a_line_says_who_and_how_bad)
{
	char line[BYTES], wanted[BYTES];

	unsetenv("JOURNAL_STREAM");
	log_error("a %d", 1);
	snprintf(wanted, sizeof(wanted), "%s: error: a 1\n", program_invocation_short_name);
	cr_expect(eq(str, (char *)read_line(line), wanted));
	log_warning("b");
	snprintf(wanted, sizeof(wanted), "%s: warning: b\n", program_invocation_short_name);
	cr_expect(eq(str, (char *)read_line(line), wanted));
	log_info("c");
	snprintf(wanted, sizeof(wanted), "%s: c\n", program_invocation_short_name);
	cr_expect(eq(str, (char *)read_line(line), wanted));
}

Test(log, less_important_messages_than_the_level_are_left_out)
{
	char line[BYTES];

	unsetenv("JOURNAL_STREAM");
	log_debug("a");
	log_info("b");
	cr_expect(strstr(read_line(line), ": b\n") != NULL);
	log_set_level(LOG_DEBUG);
	log_debug("c");
	cr_expect(strstr(read_line(line), ": debug: c\n") != NULL);
	log_set_level(LOG_ERR);
	log_info("d");
	log_warning("e");
	log_error("f");
	cr_expect(strstr(read_line(line), ": error: f\n") != NULL);
}

Test(log, the_journal_gets_its_priorities)
{
	char line[BYTES];

	hide_journal();
	log_error("a");
	cr_expect(eq(str, (char *)read_line(line), (char *)"<3>a\n"));
	log_warning("b");
	cr_expect(eq(str, (char *)read_line(line), (char *)"<4>b\n"));
	log_info("c");
	cr_expect(eq(str, (char *)read_line(line), (char *)"<6>c\n"));
}

Test(log, a_journal_that_is_not_stderr_changes_nothing)
{
	char line[BYTES];

	set_journal(1);
	log_info("c");
	cr_expect(ne(chr, read_line(line)[0], '<'));
	setenv("JOURNAL_STREAM", "nonsense", 1);
	log_info("c");
	cr_expect(ne(chr, read_line(line)[0], '<'));
}

Test(log, a_message_is_one_line_whatever_is_in_it)
{
	char line[BYTES];

	hide_journal();
	log_info("name '%s'", "x\n<0>forged\r\x1b[2J\x7f");
	cr_expect(eq(str, (char *)read_line(line), (char *)"<6>name 'x <0>forged  [2J '\n"));
}

Test(log, what_is_no_utf_8_is_not_kept_and_what_is_stays)
{
	/*
	 * Cut off, alone, a control character, over-long, a surrogate, beyond Unicode; the last is cut off by the
	 * end.
	 */
	static const char text[] =
		"k\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x90\x9f|\xc3(|\xb6|\xc2\x9b|\xc0\xaf|\xe0\x80\xaf|"
		"\xed\xa0\x80|\xf4\x90\x80\x80|\xff|\xe2\x82";
	char line[BYTES];

	hide_journal();
	log_info("%s", text);
	cr_expect(eq(str, (char *)read_line(line),
	             (char *)"<6>k\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x90\x9f|?(|?|??|??|???|???|????|?|??\n"));
}

Test(log, a_long_message_is_cut_and_still_a_line)
{
	char line[BYTES], text[BYTES];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_info("%s", text);
	read_line(line);
	cr_expect(lt(sz, strlen(line), sizeof(text) - 1));
	cr_expect(eq(ptr, strchr(line, '\n'), line + strlen(line) - 1));
}

Test(log, errno_survives)
{
	char line[BYTES];

	errno = EXDEV;
	log_info("c");
	cr_expect(eq(int, errno, EXDEV));
	read_line(line);
}

/* ---- fields ------------------------------------------------------------------------------------- */

static void expect_field(const char *entry, const char *field)
{
	char line[256];

	snprintf(line, sizeof(line), "\n%s\n", field);
	cr_expect(strstr(entry, line) != NULL, "no %s in%s", field, entry);
}

static void read_entry(int fd, char entry[BYTES])
{
	ssize_t n = recv(fd, entry + 1, BYTES - 3, 0);

	cr_assert(gt(int, (int)n, 0));
	entry[0] = '\n';
	entry[n + 1] = '\n';
	entry[n + 2] = '\0';
}

Test(log, the_journal_gets_what_a_message_is_about_as_fields)
{
	const struct log_counter counters[] = {{"no_buffer", UINT64_MAX}, {"errored", 0}};
	const struct log_about about = {.event = LOG_EVENT_PACKETS_LOST,
	                                .stream = "lidar",
	                                .interface = "eth0",
	                                .peer = "CONSUMER",
	                                .pid = 7,
	                                .uid = 65534,
	                                .counters = counters,
	                                .n_counters = 2};
	int fd = bind_journal();
	char entry[BYTES], wanted[BYTES];

	log_message(LOG_WARNING, &about, "stream '%s':\nlost", "lidar");
	read_entry(fd, entry);
	expect_field(entry, "MESSAGE=stream 'lidar': lost");
	expect_field(entry, "PRIORITY=4");
	snprintf(wanted, sizeof(wanted), "SYSLOG_IDENTIFIER=%s", program_invocation_short_name);
	expect_field(entry, wanted);
	expect_field(entry, "MESSAGE_ID=" LOG_EVENT_PACKETS_LOST);
	expect_field(entry, "IBVCAP_STREAM=lidar");
	expect_field(entry, "IBVCAP_INTERFACE=eth0");
	expect_field(entry, "IBVCAP_CONSUMER_PID=7");
	expect_field(entry, "IBVCAP_CONSUMER_UID=65534");
	expect_field(entry, "IBVCAP_NO_BUFFER=18446744073709551615");
	expect_field(entry, "IBVCAP_ERRORED=0");
	cr_expect(eq(ptr, strstr(entry, "IBVCAP_CHANNEL"), NULL));
	log_error("plain");
	read_entry(fd, entry);
	expect_field(entry, "MESSAGE=plain");
	expect_field(entry, "PRIORITY=3");
	cr_expect(eq(ptr, strstr(entry, "MESSAGE_ID"), NULL));
	cr_expect(eq(ptr, strstr(entry, "IBVCAP_"), NULL));
}

Test(log, a_journal_that_cannot_be_written_to_is_had_by_stderr)
{
	int fd = bind_journal();
	char line[BYTES];

	close(fd); /* ECONNREFUSED */
	log_message(LOG_INFO, &(struct log_about){.event = LOG_EVENT_READY}, "a");
	cr_expect(eq(str, (char *)read_line(line), (char *)"<6>a\n"));
}

Test(log, what_is_no_journal_gets_the_message_alone)
{
	char line[BYTES], wanted[BYTES];

	unsetenv("JOURNAL_STREAM");
	log_message(LOG_WARNING, &(struct log_about){.event = LOG_EVENT_LINK_DOWN, .interface = "eth0"}, "down");
	snprintf(wanted, sizeof(wanted), "%s: warning: down\n", program_invocation_short_name);
	cr_expect(eq(str, (char *)read_line(line), wanted));
}

/* ---- how often ---------------------------------------------------------------------------------- */

Test(log, a_message_that_comes_too_often_is_left_out_and_others_are_not)
{
	const uint64_t window_ns = LOG_LIMIT_S * UINT64_C(1000000000);
	static struct log_limit limit;
	uint64_t n_left_out, now_ns = 5;

	for (unsigned i = 0; i < LOG_LIMIT_N; i++)
		cr_assert(log_limit_allows(&limit, "a", now_ns++, &n_left_out));
	cr_expect(not(log_limit_allows(&limit, "a", now_ns, &n_left_out)));
	cr_expect(not(log_limit_allows(&limit, "a", 5 + window_ns - 1, &n_left_out)));
	cr_expect(log_limit_allows(&limit, "b", now_ns, &n_left_out));
	cr_expect(eq(u64, n_left_out, 0));
	cr_expect(log_limit_allows(&limit, "a", 5 + window_ns, &n_left_out));
	cr_expect(eq(u64, n_left_out, 2));
	cr_expect(log_limit_allows(&limit, "a", 6 + window_ns, &n_left_out));
	cr_expect(eq(u64, n_left_out, 0));
}

Test(log, more_messages_than_places_are_all_said)
{
	static struct log_limit limit;
	static const char sites[4 * LOG_LIMIT_SITES];
	uint64_t n_left_out;

	for (size_t i = 0; i < sizeof(sites); i++)
		cr_expect(log_limit_allows(&limit, &sites[i], 5, &n_left_out));
}

Test(log, a_flood_is_cut_and_says_so)
{
	char text[BYTES];
	int n_lines = 0;

	unsetenv("JOURNAL_STREAM");
	for (unsigned i = 0; i < LOG_LIMIT_N + 50; i++)
		log_info("flood");
	log_info("another");
	close(STDERR_FILENO);
	for (ssize_t n; (n = read(reader, text, sizeof(text))) > 0;)
		for (ssize_t i = 0; i < n; i++)
			n_lines += text[i] == '\n';
	cr_expect(eq(int, n_lines, LOG_LIMIT_N + 1));
}

/* ---- the catalog -------------------------------------------------------------------------------- */

static void read_text(const char *path, char *text, size_t bytes)
{
	FILE *file = fopen(path, "re");

	cr_assert(file != NULL);
	cr_assert(gt(sz, fread(text, 1, bytes - 1, file), 0));
	fclose(file);
}

Test(log, each_event_has_an_id_of_its_own_and_is_in_the_catalog)
{
	static char catalog[65536], header[65536];
	unsigned n = 0, n_explained = 0;
	char id[40], head[64];
	int end;

	read_text(CATALOG, catalog, sizeof(catalog));
	read_text(LOG_HEADER, header, sizeof(header));
	for (const char *at = header; (at = strstr(at, "\n#define LOG_EVENT_")) != NULL; n++) {
		at++;
		cr_assert(sscanf(at, "#define %*s \"%32[0-9a-f]%n", id, &end) == 1 && strlen(id) == 32, "%.80s", at);
		cr_assert(eq(chr, at[end], '"'));
		snprintf(head, sizeof(head), "\n-- %s\nSubject: ", id);
		cr_expect(strstr(catalog, head) != NULL, "%s is not in " CATALOG, id);
		cr_expect(strstr(at + end, id) == NULL, "two events have the id %s", id);
	}
	for (const char *at = catalog; (at = strstr(at, "\n-- ")) != NULL; at++)
		n_explained++;
	cr_expect(gt(u32, n, 0));
	cr_expect(eq(u32, n_explained, n));
}
