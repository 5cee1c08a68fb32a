// SPDX-License-Identifier: Apache-2.0
/*
 * The one object by which the interposed calls find everything: sets up the devices from the environment at the
 * first use, and cleans up in a forked child.
 */
#include "root.h"

#include "../uverbs/pitfalls.h"
#include "../wire/complain.h"

#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct root the_root;

struct root *root_peek(void)
{
	return &the_root;
}

/* `list` was checked when the settings were read. */
static void root_add_devices(struct root *r, const char *list, const struct device_config *common)
{
	char *copy = strdup(list), *save = NULL;

	if (!copy)
		return;
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the names point into the copy, which is never freed */
	for (char *name = strtok_r(copy, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
		struct device_config config = *common;
		struct device *d = &r->devices[r->n_devices];

		config.netdev = name; /* points into `copy`, which is never freed */
		device_init(d, &config, r->n_devices, &uverbs_events);
		r->n_devices++;
	}
}

bool root_is_owner(void)
{
	return atomic_load(&the_root.owner) == getpid();
}

static void root_watch_ports(void *arg)
{
	struct root *root = arg;

	for (unsigned int i = 0; i < root->n_devices; i++)
		device_watch_port(&root->devices[i]);
}

/* After ibv_fork_init(), libibverbs keeps registered memory from children, unless the kernel copies it at fork(). */
static void root_before_fork(void)
{
	void *library = root_is_owner() ? dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
	enum { DISABLED } (*status)(void) = library ? dlsym(library, "ibv_is_fork_initialized") : NULL;
	bool unsafe = status && status() == DISABLED;

	for (unsigned int i = 0; unsafe && i < the_root.n_devices; i++)
		pitfall_of_fork(&the_root.devices[i]);
	if (library)
		dlclose(library);
}

/* A child starts afresh, whatever the parent has open: with devices that nobody uses. What the parent's devices had is
 * lost to the child, since threads that do not exist here may hold its locks. */
static void root_in_child(void)
{
	struct root *r = &the_root;

	control_forked(&r->control);
	trace_init(&r->trace);
	fdtab_forked(&r->fdtab);
	fault_forked();
	atomic_store(&r->memlock.pages, 0);
	clock_init(&r->clock, r->clock.period_us);
	cm_init(&r->cm, &r->fdtab, r->devices, root_n_rdma(r));
	r->clock.watch = root_watch_ports;
	for (unsigned int i = 0; i < r->n_devices; i++) {
		struct device *d = &r->devices[i];
		struct device_config config = d->config;

		kernel_drop_forked(&d->kernel_drop);
		ledger_forked(&d->ledger);
		if (d->engine && d->engine->ops->forked)
			d->engine->ops->forked(d->engine);
		memset(d, 0, sizeof(*d));
		device_init(d, &config, i, &uverbs_events);
	}
	atomic_store(&r->owner, getpid());
}

/* At the end of a process: what its devices got, and where the rest was lost. */
static void root_tell_losses(void)
{
	for (unsigned int i = 0; root_is_owner() && i < the_root.n_devices; i++) {
		const struct device *d = &the_root.devices[i];
		const struct device_counters *c = &d->counters;

		if (d->next_qpn != DEVICE_FIRST_QPN)
			complain("%s (%s): %lu frames came; lost: %lu before the device (discards), %lu without a "
			         "receive "
			         "work request (out_of_buffer), %lu work requests in error",
			         d->name, d->config.netdev, c->rx_packets, c->discards, c->out_of_buffer,
			         d->n_error_completions);
	}
}

static void root_check_once(void)
{
	for (unsigned int i = 0; i < the_root.n_devices; i++) {
		injection_check_files(&the_root.devices[i]);
		if (!if_nametoindex(the_root.devices[i].config.netdev))
			complain("there is no network device called %s here, so %s does not work; see: ip -br link",
			         the_root.devices[i].config.netdev, the_root.devices[i].name);
	}
}

void root_check_netdevs(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int saved = errno;

	pthread_once(&once, root_check_once);
	errno = saved;
}

static void root_set_up(void)
{
	struct settings settings;
	char message[512];

	if (!settings_read(&settings, message, sizeof(message))) {
		complain("%s", message);
		return;
	}
	if (!*settings.interfaces)
		return;
	settings.device.clock = &the_root.clock;
	settings.device.trace = &the_root.trace;
	trace_init(&the_root.trace);
	settings.device.counters = "/dev/shm";
	/* So that a program that does not care is found with any kernel. */
	settings.device.copies_on_fork = !settings.device.warnings;
	if (*settings.device.bond)
		settings.device.name_prefix = "mlx5_bond_";
	fdtab_init(&the_root.fdtab);
	fault_init(REAL(sigaction));
	clock_init(&the_root.clock, settings.clock_us);
	root_add_devices(&the_root, settings.interfaces, &settings.device);
	control_init(&the_root.control, &the_root.trace, the_root.devices, the_root.n_devices);
	cm_init(&the_root.cm, &the_root.fdtab, the_root.devices, root_n_rdma(&the_root));
	the_root.clock.watch = root_watch_ports;
	the_root.clock.watch_arg = &the_root;
	atomic_store(&the_root.owner, getpid());
	pthread_atfork(settings.device.warnings ? root_before_fork : NULL, NULL, root_in_child);
	if (settings.device.explain)
		atexit(root_tell_losses);
}

/* A process that a signal kills tells its peers nothing. */
__attribute__((destructor)) static void root_leave(void)
{
	if (the_root.n_devices && root_is_owner())
		cm_leave(&the_root.cm);
}

struct root *root_get(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int saved = errno;

	pthread_once(&once, root_set_up);
	errno = saved;
	return &the_root;
}
