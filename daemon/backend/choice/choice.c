// SPDX-License-Identifier: Apache-2.0
/* Chooses the backend of an interface from facts. */
#include "daemon/backend/choice/choice.h"

#include <stdio.h>
#include <string.h>

#define LINK_XDP_CONF "link /usr/share/ibvcapd/xdp.conf into /etc/systemd/system/ibvcapd.service.d and restart ibvcapd"

/* What keeps xdp from a card with native XDP, and what would cure it. False: nothing does. */
static bool choice_find_obstacle(const struct backend_choice_facts *facts, struct backend_choice *choice)
{
	const char *lacks = !facts->has_bpf && !facts->has_net_admin ? "CAP_BPF and CAP_NET_ADMIN"
	                    : !facts->has_bpf                        ? "CAP_BPF"
	                    : !facts->has_net_admin                  ? "CAP_NET_ADMIN"
	                                                             : NULL;

	if (!facts->builds_xdp) {
		snprintf(choice->why, sizeof(choice->why), "this build has no backend xdp");
	} else if (lacks) {
		snprintf(choice->why, sizeof(choice->why), "the daemon lacks %s", lacks);
		snprintf(choice->better, sizeof(choice->better), "xdp is faster on driver %s: " LINK_XDP_CONF,
		         facts->driver);
	} else if (!facts->has_af_xdp) {
		snprintf(choice->why, sizeof(choice->why), "the daemon can open no AF_XDP sockets");
		snprintf(choice->better, sizeof(choice->better),
		         "xdp is faster on driver %s: it takes a kernel with CONFIG_XDP_SOCKETS, and a unit whose "
		         "RestrictAddressFamilies has AF_XDP",
		         facts->driver);
	} else {
		return false;
	}
	return true;
}

void backend_choice_make(const struct backend_choice_facts *facts, struct backend_choice *choice)
{
	*choice = (struct backend_choice){.backend = "packet"};
	if (facts->has_rdma_device) {
		choice->backend = "verbs";
		snprintf(choice->why, sizeof(choice->why), "an RDMA device is behind it");
	} else if (!*facts->driver) {
		snprintf(choice->why, sizeof(choice->why), "it has no driver with native XDP");
	} else if (facts->native_xdp == BACKEND_CHOICE_XDP_NONE) {
		snprintf(choice->why, sizeof(choice->why), "its driver %s has no native XDP", facts->driver);
	} else if (!facts->is_card) {
		snprintf(choice->why, sizeof(choice->why), "packet sockets are at least as fast as XDP on %s",
		         facts->driver);
	} else if (!choice_find_obstacle(facts, choice)) {
		choice->backend = "xdp";
		snprintf(choice->why, sizeof(choice->why), "its driver %s %s native XDP", facts->driver,
		         facts->native_xdp == BACKEND_CHOICE_XDP_LIKELY ? "should have" : "has");
	}
}
