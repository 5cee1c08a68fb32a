// SPDX-License-Identifier: Apache-2.0
/* Each test's stderr is a pipe that it reads itself. */
#include "daemon/base/log.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES 4096

static int reader;

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

TestSuite(log, .init = take_stderr);

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

Test(log, the_journal_gets_its_priorities)
{
	char line[BYTES];

	set_journal(0);
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

	set_journal(0);
	log_info("name '%s'", "x\n<0>forged\r\x1b[2J\x7f");
	cr_expect(eq(str, (char *)read_line(line), (char *)"<6>name 'x <0>forged  [2J '\n"));
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
