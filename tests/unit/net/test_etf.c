// SPDX-License-Identifier: Apache-2.0
/* Where the kernel's list of queueing disciplines has etf. The list is the test's own (--wrap). */
#include "daemon/net/net.h"
#include "daemon/net/rtnl.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <string.h>

#define INDEX 5
#define ROOT  0x1000000u

TestSuite(etf, .timeout = 30);

struct discipline {
	const char *kind;
	int index;
	uint32_t handle, parent;
	struct tc_etf_qopt etf;
	struct tc_mqprio_qopt classes;
};

static const struct discipline *list;
static size_t n_list;
static struct net_etf found[NET_PRIORITIES];

int __wrap_rtnl_ask(struct mnl_socket *socket, struct rtnl_request *request, uint16_t flags, mnl_cb_t cb, void *into);
int __wrap_rtnl_ask(struct mnl_socket *, struct rtnl_request *request, uint16_t flags, mnl_cb_t cb, void *into)
{
	cr_assert(eq(int, request->message.nlmsg_type, RTM_GETQDISC));
	cr_assert(eq(int, flags, NLM_F_DUMP));
	for (const struct discipline *one = list; one < list + n_list; one++) {
		char bytes[512];
		struct nlmsghdr *message = mnl_nlmsg_put_header(bytes);
		struct tcmsg *info = mnl_nlmsg_put_extra_header(message, sizeof(*info));
		struct nlattr *nest;

		message->nlmsg_type = RTM_NEWQDISC;
		info->tcm_ifindex = one->index;
		info->tcm_handle = one->handle;
		info->tcm_parent = one->parent;
		mnl_attr_put_strz(message, TCA_KIND, one->kind);
		if (strcmp(one->kind, "mqprio") == 0) {
			mnl_attr_put(message, TCA_OPTIONS, sizeof(one->classes), &one->classes);
		} else if (strcmp(one->kind, "etf") == 0) {
			nest = mnl_attr_nest_start(message, TCA_OPTIONS);
			mnl_attr_put(message, TCA_ETF_PARMS, sizeof(one->etf), &one->etf);
			mnl_attr_nest_end(message, nest);
		}
		cr_assert(gt(int, cb(message, into), 0));
	}
	return 0;
}

#define READ(...)                                                      \
	do {                                                           \
		const struct discipline disciplines[] = {__VA_ARGS__}; \
		list = disciplines;                                    \
		n_list = sizeof(disciplines) / sizeof(disciplines[0]); \
		cr_assert(zero(int, net_etf_read(INDEX, found)));      \
	} while (0)

static void expect(uint32_t priority, uint32_t flags, uint32_t delta_ns)
{
	cr_expect(eq(u32, found[priority].flags, flags), "priority %u", priority);
	cr_expect(eq(u32, found[priority].delta_ns, delta_ns), "priority %u", priority);
}

Test(etf, at_the_root_it_is_of_all_priorities)
{
	READ({"etf", INDEX + 1, ROOT, TC_H_ROOT, .etf = {.delta = 1}},
	     {"etf", INDEX, ROOT, TC_H_ROOT, .etf = {.delta = 200000}});
	for (uint32_t i = 0; i < NET_PRIORITIES; i++)
		expect(i, NET_ETF_THERE, 200000);
	READ({"etf", INDEX, ROOT, TC_H_ROOT, .etf = {.flags = TC_ETF_DEADLINE_MODE_ON | TC_ETF_OFFLOAD_ON}});
	expect(3, NET_ETF_THERE | NET_ETF_DEADLINE | NET_ETF_OFFLOAD, 0);
}

Test(etf, other_disciplines_keep_no_times)
{
	READ({"fq_codel", INDEX, ROOT, TC_H_ROOT, .etf = {0}}, {"etf", INDEX, 2 * ROOT, ROOT | 1, .etf = {0}});
	for (uint32_t i = 0; i < NET_PRIORITIES; i++)
		expect(i, 0, 0);
}

/* Class 0 has queue 0, class 1 queues 1 and 2, class 2 queue 3. */
#define CLASSES                                                                                                      \
	{                                                                                                            \
		"mqprio", INDEX, ROOT, TC_H_ROOT,                                                                    \
			.classes = {.num_tc = 3, .prio_tc_map = {0, 1, 2}, .count = {1, 2, 1}, .offset = {0, 1, 3}}, \
	}

Test(etf, below_mqprio_it_is_of_the_priorities_of_its_class)
{
	READ(CLASSES, {"etf", INDEX, 2 * ROOT, ROOT | 4, .etf = {.delta = 7, .flags = TC_ETF_OFFLOAD_ON}},
	     {"pfifo", INDEX, 3 * ROOT, ROOT | 1, .etf = {0}});
	expect(0, 0, 0);
	expect(1, 0, 0);
	expect(2, NET_ETF_THERE | NET_ETF_OFFLOAD, 7);
	expect(15, 0, 0);
}

Test(etf, a_class_has_what_all_of_its_queues_have)
{
	READ(CLASSES, {"etf", INDEX, 2 * ROOT, ROOT | 2, .etf = {.delta = 7, .flags = TC_ETF_OFFLOAD_ON}},
	     {"etf", INDEX, 3 * ROOT, ROOT | 3, .etf = {.delta = 5}});
	expect(1, NET_ETF_THERE, 7);
	READ(CLASSES, {"etf", INDEX, 2 * ROOT, ROOT | 2, .etf = {.delta = 7, .flags = TC_ETF_OFFLOAD_ON}});
	expect(1, NET_ETF_THERE | NET_ETF_OFFLOAD | NET_ETF_PARTIAL, 7);
}
