// SPDX-License-Identifier: Apache-2.0
/* Triggers of the flight recorder that need no daemon. */
#include "tools/record/trigger.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <spawn.h>
#include <sysexits.h>
#include <time.h>

int __real_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]);
int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]);

/* On a machine that is busy, the child ends before its parent runs again. */
int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
	const struct timespec until_it_ended = {.tv_nsec = 300000000};
	int r = __real_posix_spawn(pid, path, actions, attributes, arguments, environment);

	nanosleep(&until_it_ended, NULL);
	return r;
}

Test(trigger, a_command_that_has_ended_before_it_is_looked_at_is_a_trigger)
{
	struct triggers triggers = {.kinds = {.command = "exit 3"}};
	struct trigger_window window;

	signal(SIGCHLD, SIG_IGN); /* as the recorder does */
	cr_assert_eq(triggers_open(&triggers), EX_OK);
	cr_assert(triggers_wait(&triggers, &window));
	cr_expect_str_eq(window.text, "the end of the command 'exit 3'");
	cr_expect_not(triggers_can_come(&triggers));
	triggers_close(&triggers);
}
