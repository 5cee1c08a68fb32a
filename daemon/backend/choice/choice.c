// SPDX-License-Identifier: Apache-2.0
/* Chooses the backend of an interface from facts, and finds them out. */
#include "daemon/backend/choice/choice.h"

#include "daemon/backend/choice/backends.h"
#include "daemon/base/machine.h"
#include "daemon/net/net.h"
#include "daemon/priv/priv.h"

#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *choice_lacking(const struct backend_choice_facts *facts)
{
	return !facts->has_bpf && !facts->has_net_admin ? "CAP_BPF and CAP_NET_ADMIN"
	       : !facts->has_bpf                        ? "CAP_BPF"
	       : !facts->has_net_admin                  ? "CAP_NET_ADMIN"
	                                                : NULL;
}

__attribute__((format(printf, 2, 3))) static bool choice_say(char text[BACKEND_CHOICE_TEXT_BYTES], const char *format,
                                                             ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, BACKEND_CHOICE_TEXT_BYTES, format, arguments);
	va_end(arguments);
	return true;
}

static void choice_say_rights(const struct backend_choice_facts *facts, struct backend_choice *choice)
{
	choice_say(choice->command, "%s", facts->gave_up_rights ? "systemctl restart ibvcapd" : PRIV_XDP_COMMANDS);
}

bool backend_choice_lacks_xdp(const struct backend_choice_facts *facts, struct backend_choice *choice)
{
	if (!*facts->driver)
		return choice_say(choice->why, "it has no driver with native XDP");
	if (facts->native_xdp == BACKEND_CHOICE_XDP_NONE)
		return choice_say(choice->why, "its driver %s has no native XDP", facts->driver);
	/* Here the driver has native XDP. */
	if (!facts->builds_xdp)
		return choice_say(choice->why, "this build has no backend xdp");
	if (choice_lacking(facts)) {
		choice_say_rights(facts, choice);
		choice_say(choice->better, "xdp is faster on driver %s, and takes %s", facts->driver,
		           choice_lacking(facts));
		return choice_say(choice->why, "the daemon %s %s",
		                  facts->gave_up_rights ? "has given up since its start" : "lacks",
		                  choice_lacking(facts));
	}
	if (!facts->has_af_xdp) {
		choice_say(choice->better,
		           "xdp is faster on driver %s, and takes a kernel with CONFIG_XDP_SOCKETS, and a unit whose "
		           "RestrictAddressFamilies has AF_XDP",
		           facts->driver);
		return choice_say(choice->why, "the daemon can open no AF_XDP sockets");
	}
	if (facts->xdp_program) {
		choice_say(choice->better,
		           "xdp is faster on driver %s; for that, end the process that attached the program ('bpftool "
		           "net' lists "
		           "it), or run 'ip link set dev NAME xdp off', and restart ibvcapd",
		           facts->driver);
		return choice_say(choice->why, "an XDP program (ID %u) is attached to it already", facts->xdp_program);
	}
	return false;
}

/* The kernel's stack behind the packet socket takes half of the cost of a packet. */
static void choice_name_drop(const struct backend_choice_facts *facts, struct backend_choice *choice)
{
	if (*choice->better || facts->keeps_drop || !choice_lacking(facts) || !facts->has_tcx)
		return;
	choice_say_rights(facts, choice);
	choice_say(choice->better,
	           "a packet costs less if the kernel drops it behind the packet socket, which takes %s",
	           choice_lacking(facts));
}

void backend_choice_make(const struct backend_choice_facts *facts, struct backend_choice *choice)
{
	*choice = (struct backend_choice){.backend = "packet"};
	if (facts->has_rdma_device) {
		choice->backend = "verbs";
		choice_say(choice->why, "an RDMA device is behind it");
	} else if (*facts->driver && facts->native_xdp != BACKEND_CHOICE_XDP_NONE && !facts->is_card) {
		choice_say(choice->why, "packet sockets are at least as fast as XDP on %s", facts->driver);
	} else if (facts->wants_card_time) {
		choice_say(choice->why, "timestamps = \"hardware\" wants the card's time of arrival, which AF_XDP does "
		                        "not give");
	} else if (facts->leaves_packets) {
		choice_say(choice->why, "flows with copy or match = \"default\" leave packets to the kernel, and xdp "
		                        "takes them from it");
	} else if (!backend_choice_lacks_xdp(facts, choice)) {
		choice->backend = "xdp";
		choice_say(choice->why, "its driver %s %s native XDP", facts->driver,
		           facts->native_xdp == BACKEND_CHOICE_XDP_LIKELY ? "should have" : "has");
	}
	choice->is_second_best = *choice->better != '\0';
	if (strcmp(choice->backend, "packet") == 0)
		choice_name_drop(facts, choice);
}

/* ---- facts -------------------------------------------------------------------------------------- */

/* Kernels before 6.3 do not say what a driver can do: these have native XDP with redirection in Linux 6.1. */
static const char *const drivers_with_xdp[] = {
	"atlantic",  "bnxt_en", "ena",     "fsl_dpaa2_eth", "fsl_enetc", "hv_netvsc", "i40e",  "ice",        "igb",
	"igc",       "ixgbe",   "ixgbevf", "mlx4_en",       "mlx5_core", "mvneta",    "mvpp2", "nfp",        "qede",
	"rvu_nicpf", "sfc",     "st_gmac", "thunderx",      "tun",       "veth",      "vif",   "virtio_net",
};

static bool choice_knows_driver(const char *driver)
{
	for (size_t i = 0; i < sizeof(drivers_with_xdp) / sizeof(drivers_with_xdp[0]); i++)
		if (strcmp(drivers_with_xdp[i], driver) == 0)
			return true;
	return false;
}

static void choice_read_xdp(const char *interface, struct backend_choice_facts *facts)
{
	const uint64_t needed = NET_XDP_BASIC | NET_XDP_REDIRECT;
	uint64_t features = 0;
	int r = net_xdp_features(if_nametoindex(interface), &features);

	if (r == 0)
		facts->native_xdp = (features & needed) == needed ? BACKEND_CHOICE_XDP_NATIVE : BACKEND_CHOICE_XDP_NONE;
	else if (choice_knows_driver(facts->driver))
		facts->native_xdp = BACKEND_CHOICE_XDP_LIKELY;
}

/* An AF_XDP socket takes CAP_NET_RAW, which the kernel checks after the address family. */
static bool choice_has_af_xdp(void)
{
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno == EPERM;
	close(fd);
	return true;
}

void backend_choice_read(const char *interface, struct backend_choice_facts *facts)
{
	const struct backend_ops *verbs = backend_find("verbs"), *xdp = backend_find("xdp");
	bool keeps_xdp = backend_keeps_program(xdp, interface);
	struct net_driver driver;

	*facts = (struct backend_choice_facts){
		.has_rdma_device = verbs && verbs->find(interface, NULL) == 0,
		.builds_xdp = xdp != NULL,
		.has_af_xdp = choice_has_af_xdp(),
		.has_bpf = keeps_xdp || priv_has(CAP_BPF),
		.has_net_admin = keeps_xdp || priv_has(CAP_NET_ADMIN),
		.keeps_drop = backend_keeps_program(backend_find("packet"), interface),
		.gave_up_rights = priv_gave_up(CAP_BPF) || priv_gave_up(CAP_NET_ADMIN),
		.has_tcx = machine_kernel_is_from(6, 6),
		.xdp_program = net_xdp_program(if_nametoindex(interface)),
	};
	(void)net_driver_read(interface, &driver);
	snprintf(facts->driver, sizeof(facts->driver), "%s", driver.name);
	facts->is_card = driver.has_device;
	choice_read_xdp(interface, facts);
}
