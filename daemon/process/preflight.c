// SPDX-License-Identifier: Apache-2.0
/* Checks that the kernel has seals and sufficient limits, and sets CPUs and capabilities of the process. */
#include "daemon/process/preflight.h"

#include "daemon/backend/choice/backends.h"
#include "daemon/base/log.h"
#include "daemon/base/machine.h"
#include "lib/base/files.h"
#include "lib/base/size.h"
#include "lib/ibvcap/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <sys/utsname.h>

static int preflight_test_seal(uint32_t page_bytes, struct failure *failure)
{
	const char *call;
	int r = shm_self_test(page_bytes, &call);

	/* Without a free hugepage the test is not possible; making the ring will fail with a better text. */
	if (r == 0 || (r == -ENOMEM && page_bytes != SMALL_PAGE_BYTES))
		return 0;
	if (r == -ENODEV)
		return failure_set(failure, EX_CONFIG, ENODEV,
		                   "page_size: this machine has no pages of %u kB, because its processor or kernel "
		                   "lacks them; set page_size to a size that /sys/kernel/mm/hugepages lists",
		                   page_bytes / 1024);
	if (r == -ENOTSUP)
		return failure_set(failure, EX_OSERR, ENOTSUP,
		                   "this kernel lets a consumer write sealed memory in pages of %u kB; " SHM_LINUX_MIN
		                   " or later is needed",
		                   page_bytes / 1024);
	return failure_set(failure, EX_OSERR, -r, "%s fails on memory in pages of %u kB: %s; %s", call,
	                   page_bytes / 1024, strerror(-r),
	                   r == -EINVAL ? SHM_LINUX_MIN " or later is needed" : "the daemon needs such memory");
}

int preflight_test_seals(const struct config *config, struct failure *failure)
{
	int r = preflight_test_seal(SMALL_PAGE_BYTES, failure);

	for (uint32_t i = 0; i < config->n_streams && r == 0; i++)
		r = preflight_test_seal(config->streams[i].page_bytes, failure);
	for (uint32_t i = 0; i < config->n_channels && r == 0; i++)
		r = preflight_test_seal(config->channels[i].page_bytes, failure);
	return r;
}

/*
 * A client takes up to five descriptors; the soft limit of 1024 is meant for programs that use select(). CAP_IPC_LOCK
 * is given up once the first streams have their memory: after that, memory is locked within RLIMIT_MEMLOCK, or
 * refused.
 */
void preflight_raise_limits(void)
{
	const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	setrlimit(RLIMIT_MEMLOCK, &unlimited);
}

/* ---- CPUs ---------------------------------------------------------------------------------------- */

/*
 * The CPUs that this process may use: those that are online and in its control group. The kernel takes the others off
 * the mask. This thread keeps those that it has, so it stays where it runs. False: the kernel does not tell.
 */
static bool preflight_probe_cpus(cpu_set_t *granted)
{
	cpu_set_t before, every;
	bool is_known;

	if (sched_getaffinity(0, sizeof(before), &before) < 0)
		return false;
	memset(&every, 0xff, sizeof(every));
	is_known = sched_setaffinity(0, sizeof(every), &every) == 0 &&
	           sched_getaffinity(0, sizeof(*granted), granted) == 0;
	sched_setaffinity(0, sizeof(before), &before);
	return is_known;
}

static void preflight_refuse_cpu(const char *file, int line, const char *what, const char *name, int32_t cpu,
                                 struct failure *failure)
{
	struct failure found;

	failure_set(&found, EX_CONFIG, EINVAL,
	            "%s:%d: %s '%s': cpu = %d: the daemon may not use such a CPU; accepted is -1, or one that is in "
	            "/sys/devices/system/cpu/online and, if the service has any, in its AllowedCPUs=",
	            file, line, what, name, cpu);
	failure_add(failure, &found);
}

int preflight_check_cpus(const struct config *config, const struct config *running, struct failure *failure)
{
	cpu_set_t granted;

	failure->text[0] = '\0';
	if (!preflight_probe_cpus(&granted))
		return 0;
	for (uint32_t i = 0; i < config->n_streams; i++) {
		const struct config_stream *stream = &config->streams[i];

		for (uint32_t k = 0; k < stream->queues && !(running && config_find_stream(running, stream->name));
		     k++) {
			int32_t cpu = config_queue_cpu(stream, k);

			if (cpu >= 0 && !CPU_ISSET((unsigned)cpu, &granted))
				preflight_refuse_cpu(stream->file, stream->line, "stream", stream->name, cpu, failure);
		}
	}
	for (uint32_t i = 0; i < config->n_channels; i++) {
		const struct config_channel *channel = &config->channels[i];

		if (channel->cpu >= 0 && !CPU_ISSET((unsigned)channel->cpu, &granted) &&
		    !(running && config_find_channel(running, channel->name)))
			preflight_refuse_cpu(channel->file, channel->line, "channel", channel->name, channel->cpu,
			                     failure);
	}
	return failure->text[0] ? -EINVAL : 0;
}

static void preflight_move_thread(pid_t thread, const cpu_set_t *from, const cpu_set_t *to)
{
	cpu_set_t now;

	if (sched_getaffinity(thread, sizeof(now), &now) == 0 && CPU_EQUAL(&now, from))
		sched_setaffinity(thread, sizeof(*to), to);
}

void preflight_leave_cpus(struct preflight_cpus *cpus, const struct config *config)
{
	struct files_list threads;
	cpu_set_t ours;

	if (CPU_COUNT(&cpus->all) == 0) {
		if (sched_getaffinity(0, sizeof(cpus->all), &cpus->all) < 0)
			return; /* the machine has more CPUs than a cpu_set_t */
		cpus->ours = cpus->all;
	}
	ours = cpus->all;
	for (uint32_t i = 0; i < config->n_streams; i++)
		if (config->streams[i].cpu >= 0)
			CPU_CLR((unsigned)config->streams[i].cpu, &ours);
	if (CPU_COUNT(&ours) == 0)
		ours = cpus->all;
	if (CPU_EQUAL(&ours, &cpus->ours) || !files_list(&threads, "/proc/self/task"))
		return;
	while (files_next(&threads))
		preflight_move_thread(atoi(threads.name), &cpus->ours, &ours);
	cpus->ours = ours;
}

/* ---- capabilities -------------------------------------------------------------------------------- */

/*
 * Capabilities that the configured backends use while the daemon starts; with "auto": those of all backends. For a
 * queue that delays drops mlx5_ib_create_wq() asks for CAP_SYS_RAWIO, since all queues of the port wait with it.
 */
static uint64_t preflight_start_capabilities(const struct config *config)
{
	bool is_empty = config->n_streams + config->n_channels == 0;
	uint64_t mask = is_empty ? backend_capabilities_of(NULL, BACKEND_PHASE_LATER) : 0;

	for (uint32_t i = 0; i < config->n_streams; i++) {
		mask |= backend_capabilities_of(backend_find(config_backend_name(config->streams[i].backend)),
		                                BACKEND_PHASE_START);
		mask |= config->streams[i].delay_drop ? PRIV_BIT(CAP_SYS_RAWIO) : 0;
	}
	for (uint32_t i = 0; i < config->n_channels; i++)
		mask |= backend_capabilities_of(backend_find(config_backend_name(config->channels[i].backend)),
		                                BACKEND_PHASE_START);
	return mask;
}

int preflight_keep_privileges(const struct config *config, const struct priv_user *user, struct failure *failure)
{
	char report[256] = "";
	int r = priv_keep(user, preflight_start_capabilities(config), report, sizeof(report), failure);

	if (r == 0 && report[0])
		log_info("%s", report);
	return r;
}

bool preflight_bpf_stays_restricted(const char *release, int unprivileged_bpf_disabled)
{
	return unprivileged_bpf_disabled && !machine_release_is_from(release, 5, 18);
}

/*
 * Only such kernels require CAP_BPF for maps and links that are open. It is kept, too, if the kernel cannot be asked.
 */
static bool preflight_needs_bpf(void)
{
	struct utsname system;
	char disabled[8];
	bool is_off = files_read_line(disabled, sizeof(disabled), "/proc/sys/kernel/unprivileged_bpf_disabled") &&
	              atoi(disabled) == 0;

	return uname(&system) == 0 && preflight_bpf_stays_restricted(system.release, !is_off);
}

int preflight_give_up_privileges(uint64_t used, struct failure *failure)
{
	uint64_t mask = used & PRIV_BIT(CAP_BPF) && !preflight_needs_bpf() ? ~used | PRIV_BIT(CAP_BPF) : ~used;
	char names[256], left[256];
	int r;

	priv_list(mask, names, sizeof(names));
	if (!names[0])
		return 0;
	r = priv_drop(mask);
	priv_list(mask, left, sizeof(left));
	if (r < 0 || left[0])
		return failure_set(failure, EX_NOPERM, r < 0 ? -r : EPERM, "%s cannot be given up, or came back: %s",
		                   r < 0 ? names : left, strerror(r < 0 ? -r : EPERM));
	log_info("devices are open and memory is locked: %s given up", names);
	return 0;
}
