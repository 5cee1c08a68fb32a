// SPDX-License-Identifier: Apache-2.0
/* Each test runs in a process of its own, so dropped privileges do not affect the others. */
#include "daemon/priv/priv.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint64_t wanted = PRIV_BIT(CAP_NET_RAW) | PRIV_BIT(CAP_IPC_LOCK);

static void need(int capability)
{
	if (!priv_has(capability))
		cr_skip_test("this test wants capability %d", capability);
}

Test(priv, only_what_is_asked_for_is_kept)
{
	struct failure failure = {0};
	char report[256];

	need(CAP_NET_RAW);
	cr_assert(eq(int, priv_keep(NULL, wanted, report, sizeof(report), &failure), 0), "%s", failure.text);
	cr_expect(strstr(report, "cap_net_raw") != NULL, "%s", report);
	cr_expect(priv_has(CAP_NET_RAW));
	for (int capability = 0; CAP_IS_SUPPORTED(capability); capability++)
		if (capability != CAP_NET_RAW && capability != CAP_IPC_LOCK)
			cr_expect(not(priv_has(capability)), "capability %d", capability);
	cr_expect(eq(int, cap_get_ambient(CAP_NET_RAW), 0));
	cr_expect(eq(int, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1));
	cr_expect(eq(int, cap_get_bound(CAP_SYS_ADMIN), 0));
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	cr_expect(ge(int, fd, 0), "the kept one works");
	close(fd);
	cr_expect(lt(int, chroot("/"), 0));
}

/* As systemd starts it: another user, with ambient capabilities. */
static void become_nobody_with(cap_value_t capability)
{
	cap_t set = cap_init();

	cr_assert(eq(int, prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), 0));
	cr_assert(eq(int, setresuid(65534, 65534, 65534), 0));
	cr_assert(eq(int, cap_set_flag(set, CAP_PERMITTED, 1, &capability, CAP_SET), 0));
	cr_assert(eq(int, cap_set_flag(set, CAP_EFFECTIVE, 1, &capability, CAP_SET), 0));
	cr_assert(eq(int, cap_set_flag(set, CAP_INHERITABLE, 1, &capability, CAP_SET), 0));
	cr_assert(eq(int, cap_set_proc(set), 0));
	cr_assert(eq(int, cap_set_ambient(capability, CAP_SET), 0));
	cap_free(set);
}

Test(priv, a_missing_one_names_itself_and_what_grants_it)
{
	struct failure failure = {0};

	need(CAP_NET_RAW);
	cr_expect(eq(int, priv_require(CAP_NET_RAW, "backend \"x\"", "to open sockets", &failure), 0));
	become_nobody_with(CAP_IPC_LOCK);
	cr_expect(eq(int, priv_require(CAP_NET_RAW, "backend \"x\"", "to open sockets", &failure), -EPERM));
	cr_expect(eq(int, failure.exit_code, EX_NOPERM));
	cr_expect(strstr(failure.text, "CAP_NET_RAW is missing, which backend \"x\" needs to open sockets") &&
	                  strstr(failure.text, "setcap cap_net_raw,cap_ipc_lock+ep") &&
	                  strstr(failure.text, "AmbientCapabilities=") && strstr(failure.text, "ibv_launch"),
	          "%s", failure.text);
	cr_expect(eq(ptr, strchr(failure.text, '\n'), NULL));
	cr_expect(strstr(failure.text, "--cap-add") == NULL, "%s", failure.text);
	cr_expect(eq(int, priv_require(CAP_NET_ADMIN, "backend \"x\"", "to attach", &failure), -EPERM));
	cr_expect(strstr(failure.text, "CAP_NET_ADMIN is missing") && strstr(failure.text, "xdp.conf") &&
	                  strstr(failure.text, ",cap_net_admin,cap_bpf+ep"),
	          "%s", failure.text);
}

Test(priv, one_that_was_given_up_comes_back_by_a_restart)
{
	struct failure failure = {0};
	char report[256];

	need(CAP_NET_RAW);
	need(CAP_NET_ADMIN);
	cr_assert(eq(int, priv_keep(NULL, wanted, report, sizeof(report), &failure), 0), "%s", failure.text);
	cr_assert(eq(int, priv_drop(PRIV_BIT(CAP_NET_RAW)), 0));
	for (int i = 0; i < 2; i++) {
		cr_expect(eq(int, priv_require(i ? CAP_NET_RAW : CAP_NET_ADMIN, "x", "to y", &failure), -EPERM));
		cr_expect(strstr(failure.text, "gave it up") && strstr(failure.text, "systemctl restart ibvcapd") &&
		                  strstr(failure.text, "setcap") == NULL,
		          "%s", failure.text);
	}
}

Test(priv, a_list_has_those_of_the_mask_that_there_are)
{
	struct failure failure = {0};
	char text[256];

	need(CAP_NET_RAW);
	need(CAP_IPC_LOCK);
	cr_assert(eq(int, priv_keep(NULL, wanted, text, sizeof(text), &failure), 0), "%s", failure.text);
	cr_expect_str_eq(priv_list(~UINT64_C(0), text, sizeof(text)), "CAP_NET_RAW, CAP_IPC_LOCK");
	cr_expect_str_eq(priv_list(~PRIV_BIT(CAP_NET_RAW), text, sizeof(text)), "CAP_IPC_LOCK");
	cr_expect_str_eq(priv_list(PRIV_BIT(CAP_BPF), text, sizeof(text)), "");
}

Test(priv, an_optional_one_may_be_missing)
{
	struct failure failure = {0};
	char report[256];

	need(CAP_NET_RAW);
	cr_assert(eq(int, priv_drop(PRIV_BIT(CAP_IPC_LOCK)), 0));
	cr_expect(eq(int, priv_keep(NULL, wanted, report, sizeof(report), &failure), 0), "%s", failure.text);
	cr_expect(not(priv_has(CAP_IPC_LOCK)));
}

Test(priv, one_more_can_be_dropped_later_and_does_not_come_back)
{
	struct failure failure = {0};
	char report[256];

	need(CAP_IPC_LOCK);
	cr_assert(eq(int, priv_keep(NULL, wanted, report, sizeof(report), &failure), 0), "%s", failure.text);
	cr_expect(priv_has(CAP_IPC_LOCK));
	cr_expect(eq(int, priv_drop(PRIV_BIT(CAP_IPC_LOCK)), 0));
	cr_expect(eq(int, priv_drop(PRIV_BIT(CAP_IPC_LOCK)), 0), "not having it is fine");
	cr_expect(not(priv_has(CAP_IPC_LOCK)));
	cr_expect(priv_has(CAP_NET_RAW));
}

Test(priv, the_memlock_limit_counts_only_without_ipc_lock)
{
	const struct rlimit limit = {1 << 20, 4 << 20};
	struct rlimit now;
	struct failure failure = {0};

	need(CAP_IPC_LOCK);
	cr_assert(eq(int, setrlimit(RLIMIT_MEMLOCK, &limit), 0));
	cr_expect(eq(int, priv_memlock_allows(1 << 30, &failure), 0));
	priv_drop(PRIV_BIT(CAP_IPC_LOCK));
	cr_expect(eq(int, priv_memlock_allows(2 << 20, &failure), 0), "the soft limit is raised");
	getrlimit(RLIMIT_MEMLOCK, &now);
	cr_expect(eq(u64, now.rlim_cur, 4 << 20));
	cr_expect(eq(int, priv_memlock_allows(8 << 20, &failure), -ENOMEM));
	cr_expect(eq(int, failure.exit_code, EX_NOPERM));
	cr_expect(strstr(failure.text, "8388608") && strstr(failure.text, "RLIMIT_MEMLOCK") &&
	                  strstr(failure.text, "LimitMEMLOCK=") && strstr(failure.text, "CAP_IPC_LOCK"),
	          "%s", failure.text);
}

Test(priv, ambient_ones_of_a_service_are_kept_and_not_passed_on)
{
	struct failure failure = {0};
	char report[256];
	cap_t set;
	cap_flag_value_t value;

	need(CAP_SETUID);
	need(CAP_NET_RAW);
	become_nobody_with(CAP_NET_RAW);
	cr_assert(eq(int, priv_keep(NULL, wanted, report, sizeof(report), &failure), 0), "%s", failure.text);
	cr_expect(priv_has(CAP_NET_RAW));
	cr_expect(eq(int, cap_get_ambient(CAP_NET_RAW), 0));
	set = cap_get_proc();
	cr_assert(eq(int, cap_get_flag(set, CAP_NET_RAW, CAP_INHERITABLE, &value), 0));
	cr_expect(eq(int, value, CAP_CLEAR));
	cap_free(set);
	/* Without CAP_SETPCAP the bounding set stays, and the report does not say otherwise. */
	cr_expect(eq(int, cap_get_bound(CAP_SYS_ADMIN), 1));
	cr_expect(strstr(report, " 0 in the bounding set") == NULL && strstr(report, "in the bounding set"), "%s",
	          report);
}

Test(priv, root_does_not_get_them_back_by_starting_a_program)
{
	struct failure failure = {0};
	char report[256];
	int status;
	pid_t child;

	need(CAP_NET_RAW);
	need(CAP_SETPCAP);
	if (geteuid() != 0)
		cr_skip_test("root's own way back is what is tried");
	cr_assert(eq(int, priv_keep(NULL, wanted, report, sizeof(report), &failure), 0), "%s", failure.text);
	child = fork();
	if (child == 0) {
		/* CAP_NET_RAW is bit 13, CAP_IPC_LOCK 14. */
		execl("/bin/sh", "sh", "-c",
		      "! grep -E '^Cap(Prm|Eff):' /proc/self/status | grep -vqE '0{12}[0246]000'", (char *)NULL);
		_exit(99);
	}
	cr_assert(eq(int, waitpid(child, &status, 0), child));
	cr_expect(eq(int, status, 0));
}

Test(priv, nobody_without_any_keeps_none)
{
	struct failure failure = {0};
	char report[256];

	need(CAP_SETUID);
	cr_assert(eq(int, setresuid(65534, 65534, 65534), 0));
	cr_expect(eq(int, priv_keep(NULL, wanted, report, sizeof(report), &failure), 0), "%s", failure.text);
	cr_expect(strstr(report, "capabilities kept: none;") != NULL, "%s", report);
}

Test(priv, no_limit_is_no_limit)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
	struct failure failure = {0};

	need(CAP_SYS_RESOURCE);
	cr_assert(eq(int, setrlimit(RLIMIT_MEMLOCK, &none), 0));
	priv_drop(PRIV_BIT(CAP_IPC_LOCK));
	cr_expect(eq(int, priv_memlock_allows(UINT64_C(1) << 40, &failure), 0), "%s", failure.text);
}

static const struct priv_user nobody = {"nobody", 65534, 65534};

Test(priv, another_user_is_become_for_good_and_with_what_is_asked_for)
{
	static const gid_t roots = 0;
	struct failure failure = {0};
	char report[256];
	gid_t groups[64];
	int n;

	need(CAP_SETUID);
	need(CAP_SETGID);
	need(CAP_NET_RAW);
	cr_assert(eq(int, setgroups(1, &roots), 0));
	cr_assert(eq(int, priv_keep(&nobody, wanted, report, sizeof(report), &failure), 0), "%s", failure.text);
	cr_expect(getuid() == 65534 && geteuid() == 65534 && getgid() == 65534 && getegid() == 65534);
	cr_expect(lt(int, setresuid(0, 0, 0), 0));
	n = getgroups(64, groups);
	for (int i = 0; i < n; i++)
		cr_expect(ne(int, (int)groups[i], 0), "a group of root's");
	cr_expect(strstr(report, "user nobody; capabilities kept: ") != NULL, "%s", report);
	cr_expect(priv_has(CAP_NET_RAW));
	for (int capability = 0; CAP_IS_SUPPORTED(capability); capability++)
		if (capability != CAP_NET_RAW && capability != CAP_IPC_LOCK)
			cr_expect(not(priv_has(capability)), "capability %d", capability);
	cr_expect(eq(int, cap_get_bound(CAP_SETUID), 0));
	cr_expect(eq(int, prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0), 0));
}

/* In a process of one thread: libc does not have some threads change their user and others not. */
static int try_without_setuid(void)
{
	struct failure failure = {0};
	char report[256];
	bool is_told;

	priv_drop(PRIV_BIT(CAP_SETUID));
	if (priv_keep(&nobody, wanted, report, sizeof(report), &failure) != -EPERM || failure.exit_code != EX_NOPERM)
		return 1;
	is_told = strstr(failure.text, "'nobody'") && strstr(failure.text, "CAP_SETUID") &&
	          strstr(failure.text, "--user");
	return is_told ? 0 : 2;
}

Test(priv, who_cannot_become_another_user_is_told)
{
	int status;
	pid_t child;

	need(CAP_SETUID);
	need(CAP_NET_RAW);
	child = fork();
	if (child == 0)
		_exit(try_without_setuid());
	cr_assert(eq(int, waitpid(child, &status, 0), child));
	cr_expect(eq(int, status, 0));
}

Test(priv, a_user_is_found_or_the_command_named_that_makes_it)
{
	struct priv_user user;
	struct failure failure = {0};

	cr_assert(eq(int, priv_find_user(&user, "nobody", &failure), 0));
	cr_expect(eq(int, (int)user.uid, 65534));
	cr_expect(eq(int, priv_find_user(&user, "ibvcap-is-not-there", &failure), -ENOENT));
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(strstr(failure.text, "'ibvcap-is-not-there'") && strstr(failure.text, "systemd-sysusers"), "%s",
	          failure.text);
}

static void note_user(void *context)
{
	uid_t *uids = context;

	uids[0] = getuid();
	uids[1] = geteuid();
	uids[2] = getgid();
}

Test(priv, a_call_as_another_user_changes_nothing_here)
{
	uid_t *uids = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	cr_assert(uids != MAP_FAILED);
	if (geteuid() != 0)
		cr_skip_test("needs root to become another user");
	cr_expect(eq(int, priv_call_as(&nobody, note_user, uids), 0));
	cr_expect(eq(u32, uids[0], 65534));
	cr_expect(eq(u32, uids[1], 65534));
	cr_expect(eq(u32, uids[2], 65534));
	cr_expect(eq(u32, geteuid(), 0));
	cr_assert(eq(int, priv_drop(PRIV_BIT(CAP_SETUID)), 0));
	cr_expect(eq(int, priv_call_as(&nobody, note_user, uids), -EPERM));
}
