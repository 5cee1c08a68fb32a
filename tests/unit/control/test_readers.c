// SPDX-License-Identifier: Apache-2.0
/* Who may hold memory of rings that have ended is named, over runs, and nobody who is dead or has let go. */
#include "daemon/control/readers.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct readers readers;
static char text[512];

static void set_up(void)
{
	cr_assert(eq(int, readers_init(&readers, -1), 0));
}

static void take_down(void)
{
	readers_deinit(&readers);
}

TestSuite(readers, .init = set_up, .fini = take_down);

/* A process that has something of our name mapped, as a reader has. */
static pid_t start_reader(void)
{
	int fd = memfd_create("ibvcap-test", 0);
	pid_t pid = fork();

	if (pid == 0) {
		if (ftruncate(fd, 4096) < 0 || mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
			_exit(1);
		for (;;)
			pause();
	}
	close(fd);
	while (pid > 0 && fd >= 0) { /* until it has mapped it */
		char path[64], line[512];
		FILE *maps;

		snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
		maps = fopen(path, "r");
		while (fd >= 0 && maps && fgets(line, sizeof(line), maps))
			if (strstr(line, "ibvcap-test"))
				fd = -1;
		if (maps)
			fclose(maps);
	}
	return pid;
}

static void end_reader(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static const char *holders(const struct readers *of)
{
	return readers_describe_holders(of, text, sizeof(text));
}

Test(readers, who_reads_is_no_holder_and_who_was_put_out_is)
{
	pid_t pid = start_reader();
	uint32_t place = readers_add(&readers, pid, 1234, "lidar");
	char expected[128];

	cr_expect(gt(u32, place, 0));
	cr_expect(eq(str, (char *)holders(&readers), (char *)""));
	readers_leave(&readers, place, READER_PUT_OUT);
	snprintf(expected, sizeof(expected), "process %d (test_readers) of user 1234, stream 'lidar'", (int)pid);
	cr_expect(eq(str, (char *)holders(&readers), expected));
	end_reader(pid);
	cr_expect(eq(str, (char *)holders(&readers), (char *)""), "who is dead holds nothing");
}

Test(readers, what_a_reader_calls_itself_is_shown_and_does_nothing)
{
	pid_t pid;
	uint32_t place;

	prctl(PR_SET_NAME, "a) \033[2J\233\a");
	pid = start_reader();
	place = readers_add(&readers, pid, 1000, "lidar");
	readers_leave(&readers, place, READER_PUT_OUT);
	cr_expect(strstr(holders(&readers), "(a) ?[2J?"
	                                    "?) of") != NULL,
	          "%s", text);
	end_reader(pid);
}

Test(readers, who_hangs_up_and_keeps_its_mappings_is_named_last)
{
	pid_t left = start_reader(), put_out = start_reader();
	char expected[256];

	readers_leave(&readers, readers_add(&readers, left, 1234, "lidar"), READER_HUNG_UP);
	readers_leave(&readers, readers_add(&readers, put_out, 1234, "lidar"), READER_PUT_OUT);
	snprintf(expected, sizeof(expected),
	         "process %d (test_readers) of user 1234, stream 'lidar'; "
	         "process %d (test_readers) of user 1234, stream 'lidar', which has hung up",
	         (int)put_out, (int)left);
	cr_expect(eq(str, (char *)holders(&readers), expected));
	end_reader(left);
	end_reader(put_out);
}

Test(readers, who_has_nothing_mapped_is_not_named)
{
	int told[2];
	char word;

	cr_assert(eq(int, pipe(told), 0));
	pid_t pid = fork();

	if (pid == 0) {
		readers_deinit(&readers); /* the list itself has a name like theirs */
		if (write(told[1], "!", 1) == 1)
			for (;;)
				pause();
	}
	cr_assert(eq(int, (int)read(told[0], &word, 1), 1));
	readers_leave(&readers, readers_add(&readers, pid, 1234, "lidar"), READER_HUNG_UP);
	cr_expect(eq(str, (char *)holders(&readers), (char *)""));
	end_reader(pid);
}

Test(readers, who_is_dead_is_forgotten)
{
	pid_t pid = start_reader();

	readers_leave(&readers, readers_add(&readers, pid, 1234, "lidar"), READER_DIED);
	cr_expect(eq(str, (char *)holders(&readers), (char *)""));
	end_reader(pid);
}

Test(readers, of_two_handles_of_one_process_each_goes_on_for_itself)
{
	pid_t pid = start_reader();
	uint32_t places[] = {readers_add(&readers, pid, 1, "lidar"), readers_add(&readers, pid, 1, "lidar")};

	for (int i = 0; i < 2; i++)
		readers_leave(&readers, places[i], READER_PUT_OUT);
	readers_add(&readers, pid, 1, "lidar");
	cr_expect(ne(ptr, strstr(holders(&readers), "stream 'lidar'"), NULL), "the other may hold its own");
	readers_add(&readers, pid, 1, "lidar");
	cr_expect(eq(str, (char *)holders(&readers), (char *)""));
	end_reader(pid);
}

Test(readers, who_reads_on_in_the_next_ring_has_let_go_of_the_last)
{
	pid_t pid = start_reader();

	readers_leave(&readers, readers_add(&readers, pid, 1234, "lidar"), READER_PUT_OUT);
	readers_add(&readers, pid, 1234, "lidar");
	cr_expect(eq(str, (char *)holders(&readers), (char *)""));
	end_reader(pid);
}

Test(readers, the_next_run_knows_who_read_in_the_last_however_that_ended)
{
	pid_t pid = start_reader(), dead = start_reader();
	struct readers next;

	readers_add(&readers, pid, 1234, "lidar"); /* and never leaves: killed */
	readers_add(&readers, dead, 1234, "radar");
	end_reader(dead);
	cr_assert(eq(int, readers_init(&next, readers.fd), 0));
	cr_expect(ne(ptr, strstr(holders(&next), "stream 'lidar'"), NULL), "%s", text);
	cr_expect(eq(ptr, strstr(text, "radar"), NULL), "%s", text);
	readers_deinit(&next);
	end_reader(pid);
}

Test(readers, what_is_no_list_is_not_believed)
{
	int fd = memfd_create("other", 0);
	struct readers next;

	cr_assert(eq(int, ftruncate(fd, 64), 0));
	cr_assert(eq(int, readers_init(&next, fd), 0));
	cr_expect(eq(str, (char *)holders(&next), (char *)""));
	readers_deinit(&next);
	close(fd);
}

Test(readers, many_are_counted)
{
	pid_t pids[5];

	for (int i = 0; i < 5; i++) {
		pids[i] = start_reader();
		readers_leave(&readers, readers_add(&readers, pids[i], 1, "s"), READER_PUT_OUT);
	}
	cr_expect(ne(ptr, strstr(holders(&readers), "; and 2 more"), NULL), "%s", text);
	for (int i = 0; i < 5; i++)
		end_reader(pids[i]);
}

Test(readers, a_full_list_takes_no_more_and_makes_room_for_the_dead)
{
	pid_t pid = start_reader(), other = start_reader();
	uint32_t last = 0;

	while (readers_add(&readers, pid, 1, "s"))
		last++;
	cr_expect(gt(u32, last, 100));
	for (uint32_t i = 1; i <= last; i++)
		readers_leave(&readers, i, READER_PUT_OUT);
	cr_expect(eq(u32, readers_add(&readers, other, 1, "s"), 0));
	end_reader(pid);
	cr_expect(gt(u32, readers_add(&readers, other, 1, "s"), 0));
	end_reader(other);
}

Test(readers, who_has_hung_up_makes_room_in_a_full_list)
{
	pid_t pid = start_reader();
	uint32_t last = 0;

	while (readers_add(&readers, pid, 1, "s"))
		last++;
	readers_leave(&readers, last / 2, READER_HUNG_UP);
	cr_expect(eq(u32, readers_add(&readers, getpid(), 1, "t"), last / 2));
	cr_expect(eq(u32, readers_add(&readers, getpid(), 1, "t"), 0));
	end_reader(pid);
}
