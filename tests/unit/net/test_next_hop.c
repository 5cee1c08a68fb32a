// SPDX-License-Identifier: Apache-2.0
/* Each state of a next hop is explained by what it is and by the command that shows or mends it. */
#include "daemon/net/next_hop.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static void expect_text(struct next_hop next_hop, const char *address, const char *expected)
{
	char text[256];

	if (address) {
		next_hop.address.family = strchr(address, ':') ? AF_INET6 : AF_INET;
		inet_pton(next_hop.address.family, address, next_hop.address.address);
	}
	cr_expect(eq(str, (char *)next_hop_explain(&next_hop, "eth1", text, sizeof(text)), (char *)expected));
}

Test(next_hop, each_state_is_explained)
{
	const struct next_hop ready = {.state = NEXT_HOP_READY, .mac = {2, 0, 0xab, 0, 0, 9}};

	expect_text(ready, NULL, "goes to 02:00:ab:00:00:09");
	expect_text(ready, "10.0.0.1", "goes to 02:00:ab:00:00:09, 10.0.0.1");
	expect_text(ready, "fd00::1", "goes to 02:00:ab:00:00:09, fd00::1");
	expect_text((struct next_hop){.state = NEXT_HOP_LINK_DOWN}, NULL, "eth1 is down; 'ip link show eth1'");
	expect_text((struct next_hop){.state = NEXT_HOP_NO_ROUTE}, NULL,
	            "no route to it leaves by eth1; 'ip route' lists those there are");
	expect_text((struct next_hop){.state = NEXT_HOP_NOT_A_HOST}, NULL,
	            "it is this machine's own address, a broadcast address or prohibited; see 'ip route get'");
	expect_text((struct next_hop){.state = NEXT_HOP_NO_SOURCE}, NULL,
	            "eth1 has no address to send from; add one ('ip address add ADDRESS dev eth1') or set source");
	expect_text((struct next_hop){.state = NEXT_HOP_ASKED_FOR}, "10.0.0.1",
	            "the Ethernet address of its next hop 10.0.0.1 is being resolved");
	expect_text((struct next_hop){.state = NEXT_HOP_NO_ANSWER}, "10.0.0.1",
	            "its next hop 10.0.0.1 does not answer on eth1 ('ip neigh show 10.0.0.1'); if it never does, set "
	            "next_hop_mac");
}

Test(next_hop, a_text_that_is_too_long_is_cut)
{
	struct next_hop next_hop = {.state = NEXT_HOP_NOT_A_HOST};
	char text[12];

	cr_expect(eq(str, (char *)next_hop_explain(&next_hop, "eth1", text, sizeof(text)), (char *)"it is this "));
}
