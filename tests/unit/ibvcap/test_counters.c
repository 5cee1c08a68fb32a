// SPDX-License-Identifier: Apache-2.0
#include "lib/ibvcap/counters.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <string.h>

static void expect_labels(const char *const *labels, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		cr_assert_not_null(labels[i], "counter %u", i);
		cr_expect_gt(strlen(labels[i]), 0);
		for (const char *c = labels[i]; *c; c++)
			cr_expect(islower(*c) || isdigit(*c) || *c == '_', "%s: a JSON key is snake_case", labels[i]);
		for (unsigned j = 0; j < i; j++)
			cr_expect_str_neq(labels[i], labels[j]);
	}
}

Test(counters, every_one_has_a_label_of_its_own)
{
	expect_labels(rx_counter_labels, IBVCAP_RX_COUNTER_N);
	expect_labels(consumer_counter_labels, CONSUMER_COUNTER_N);
	expect_labels(stream_counter_labels, STREAM_COUNTER_N);
	expect_labels(interface_counter_labels, INTERFACE_COUNTER_N);
	expect_labels(tx_counter_labels, IBVCAP_TX_COUNTER_N);
}

Test(counters, what_is_sent_together_does_not_share_a_label)
{
	for (unsigned i = 0; i < IBVCAP_RX_COUNTER_N; i++)
		for (unsigned j = 0; j < STREAM_COUNTER_N; j++)
			cr_expect_str_neq(rx_counter_labels[i], stream_counter_labels[j]);
}
