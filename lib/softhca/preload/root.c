// SPDX-License-Identifier: Apache-2.0
#include "root.h"

#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_RING_MIB 32
#define DEFAULT_NAP_US 50
#define DEFAULT_CLOCK_US 500

static struct root the_root;

struct root *root_peek(void)
{
	return &the_root;
}

static void complain(const char *what, const char *value, const char *accepted)
{
	char line[256];
	int n = snprintf(line, sizeof(line), "softhca: %s=%s: accepted: %s\n", what, value,
			 accepted);

	if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}

/* A number from the environment; a wrong one is said and the default taken. */
static unsigned long number(const char *name, unsigned long fallback, unsigned long min,
			    unsigned long max)
{
	const char *s = getenv(name);
	char *end, accepted[64];
	unsigned long v;

	if (!s || !*s)
		return fallback;
	v = strtoul(s, &end, 10);
	if (!*end && v >= min && v <= max)
		return v;
	snprintf(accepted, sizeof(accepted), "%lu to %lu", min, max);
	complain(name, s, accepted);
	return fallback;
}

static bool flag(const char *name, bool fallback)
{
	return number(name, fallback, 0, 1);
}

static void add_devices(struct root *r, const char *list, const struct device_config *common)
{
	char *copy = strdup(list), *save = NULL;

	if (!copy)
		return;
	for (char *name = strtok_r(copy, ",", &save); name && r->n_devices < MAX_DEVICES;
	     name = strtok_r(NULL, ",", &save)) {
		struct device_config config = *common;

		if (strlen(name) >= IFNAMSIZ) {
			complain("SOFTHCA_INTERFACES", name, "names of netdevs");
			continue;
		}
		config.netdev = name; /* `copy` is never freed */
		device_init(&r->devices[r->n_devices], &config, r->n_devices, &uverbs_events);
		r->n_devices++;
	}
}

bool root_is_owner(void)
{
	return atomic_load(&the_root.owner) == getpid();
}

/* A child starts afresh if nothing was open, as a daemon does that forks first. */
static void in_child(void)
{
	for (unsigned int i = 0; i < the_root.n_devices; i++)
		if (!LIST_EMPTY(&the_root.devices[i].files))
			return;
	atomic_store(&the_root.owner, getpid());
}

static void set_up(void)
{
	const char *list = getenv("SOFTHCA_INTERFACES");
	const char *profile = getenv("SOFTHCA_PROFILE");
	struct device_config config = {
		.profile = profile_find(profile),
		.clock = &the_root.clock,
		.ring_bytes = number("SOFTHCA_RING_MIB", DEFAULT_RING_MIB, 1, 4096) << 20,
		.nap_us = (unsigned int)number("SOFTHCA_NAP_US", DEFAULT_NAP_US, 1, 100000),
		.l2_filter = flag("SOFTHCA_L2_FILTER", true),
		.arm_fires_for_pending = flag("SOFTHCA_ARM_FIRES_FOR_PENDING", false),
		.length_error_is_fatal = flag("SOFTHCA_LENGTH_ERROR_IS_FATAL", false),
	};

	if (!list || !*list)
		return;
	if (!config.profile) {
		complain("SOFTHCA_PROFILE", profile, profile_names);
		return;
	}
	clock_init(&the_root.clock,
		   (unsigned int)number("SOFTHCA_CLOCK_US", DEFAULT_CLOCK_US, 1, 100000));
	add_devices(&the_root, list, &config);
	atomic_store(&the_root.owner, getpid());
	pthread_atfork(NULL, NULL, in_child);
}

struct root *root_get(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int saved = errno;

	pthread_once(&once, set_up);
	errno = saved;
	return &the_root;
}
