// SPDX-License-Identifier: Apache-2.0
/* Reads the facts by which a backend is chosen. */
#include "daemon/backend/choice/backends.h"
#include "daemon/backend/choice/choice.h"
#include "daemon/base/machine.h"
#include "daemon/net/net.h"
#include "daemon/priv/priv.h"

#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/socket.h>
#include <unistd.h>

#include <errno.h>

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
	const struct backend_ops *verbs = backend_find("verbs");
	struct net_driver driver;

	*facts = (struct backend_choice_facts){
		.has_rdma_device = verbs && verbs->find(interface, NULL) == 0,
		.builds_xdp = backend_find("xdp") != NULL,
		.has_af_xdp = choice_has_af_xdp(),
		.has_bpf = priv_has(CAP_BPF),
		.has_net_admin = priv_has(CAP_NET_ADMIN),
		.gave_up_rights = priv_gave_up(CAP_BPF) || priv_gave_up(CAP_NET_ADMIN),
		.has_tcx = machine_kernel_is_from(6, 6),
		.xdp_program = net_xdp_program(if_nametoindex(interface)),
	};
	(void)net_driver_read(interface, &driver);
	snprintf(facts->driver, sizeof(facts->driver), "%s", driver.name);
	facts->is_card = driver.has_device;
	choice_read_xdp(interface, facts);
}
