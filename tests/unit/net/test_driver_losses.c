// SPDX-License-Identifier: Apache-2.0
/* The table of drivers, and the sums of statistics that a driver of the test's own answers. */
#include "daemon/net/driver_losses.h"
#include "tests/support/own_ioctl.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

TestSuite(driver_losses, .timeout = 30);

/* ---- the driver -------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	uint64_t value;
} statistics[] = {
	{"rx_packets", 1000},
	{"rx_no_room", 1},
	{"rx0_no_room", 20},
	{"rx1_no_room", 300},
	{"rx_a_name_that_fills_all_32_bytes", 4000}, /* has no 0 at its end */
	{"[1]: rx_no_room", 50000},
};

static struct {
	unsigned n_requests;
	unsigned n_added; /* statistics that it gets after it has told their names */
} card;

static int card_give_names(struct ethtool_gstrings *names)
{
	cr_assert(eq(u32, names->string_set, ETH_SS_STATS));
	names->len = N_OF(statistics);
	for (uint32_t i = 0; i < names->len; i++)
		memcpy(names->data + (size_t)i * ETH_GSTRING_LEN, statistics[i].name,
		       strnlen(statistics[i].name, ETH_GSTRING_LEN));
	return 0;
}

static int card_give_values(struct ethtool_stats *values)
{
	values->n_stats = N_OF(statistics) + card.n_added;
	for (uint32_t i = 0; i < N_OF(statistics); i++)
		values->data[i] = statistics[i].value;
	return 0;
}

/* In place of the C library's. */
static int answer_ioctl(int fd, unsigned long request, struct ifreq *argument)
{
	union {
		void *data;
		uint32_t *command;
		struct ethtool_sset_info *count;
		struct ethtool_gstrings *names;
		struct ethtool_stats *values;
	} asked = {.data = argument->ifr_data};

	if (request != SIOCETHTOOL)
		return real_ioctl(fd, request, argument);
	card.n_requests++;
	cr_assert(strcmp(argument->ifr_name, "eth7") == 0);
	switch (*asked.command) {
	case ETHTOOL_GSSET_INFO:
		asked.count->data[0] = N_OF(statistics);
		return 0;
	case ETHTOOL_GSTRINGS:
		return card_give_names(asked.names);
	case ETHTOOL_GSTATS:
		return card_give_values(asked.values);
	default:
		errno = EOPNOTSUPP;
		return -1;
	}
}

/* ---- reading ----------------------------------------------------------------------------------------- */

static int sum_of(const struct driver_losses *driver, uint64_t *packets)
{
	*packets = 7;
	return driver_losses_read("eth7", driver, packets);
}

Test(driver_losses, those_that_match_are_added_up)
{
	const struct driver_losses driver = {.statistics = {"rx_no_room", "rx[0-9]_no_room", "rx_a_name*"}};
	uint64_t packets;

	cr_assert(eq(int, sum_of(&driver, &packets), 0));
	cr_expect(eq(u64, packets, 4321));
}

Test(driver_losses, one_that_two_patterns_match_counts_once)
{
	const struct driver_losses driver = {.statistics = {"rx1_*", "rx?_no_room", "*: rx_no_room"}};
	uint64_t packets;

	cr_assert(eq(int, sum_of(&driver, &packets), 0));
	cr_expect(eq(u64, packets, 50320));
}

Test(driver_losses, a_driver_without_statistics_is_not_asked)
{
	const struct driver_losses driver = {.driver = "card"};
	uint64_t packets;

	cr_assert(eq(int, sum_of(&driver, &packets), 0));
	cr_expect(eq(u64, packets, 0));
	cr_expect(eq(uint, card.n_requests, 0));
}

Test(driver_losses, a_driver_of_which_none_matches_says_so)
{
	const struct driver_losses driver = {.statistics = {"rx_no", "rx_no_room_", "no_room"}};
	uint64_t packets;

	cr_expect(eq(int, sum_of(&driver, &packets), -ENOTSUP));
	cr_expect(eq(u64, packets, 7));
}

Test(driver_losses, values_of_other_names_are_not_taken)
{
	const struct driver_losses driver = {.statistics = {"rx_no_room"}};
	uint64_t packets;

	card.n_added = 1;
	cr_expect(eq(int, sum_of(&driver, &packets), -EAGAIN));
	cr_expect(eq(u64, packets, 7));
}

/* ---- the table --------------------------------------------------------------------------------------- */

Test(driver_losses, each_driver_has_one_row_and_is_found)
{
	const struct driver_losses *row = driver_losses_table;

	cr_assert(row->driver != NULL);
	for (; row->driver; row++) {
		cr_expect(row == driver_losses_table || strcmp((row - 1)->driver, row->driver) < 0, "%s", row->driver);
		cr_expect(driver_losses_find(row->driver) == row, "%s", row->driver);
	}
	cr_expect(driver_losses_find("") == NULL);
	cr_expect(driver_losses_find("mlx5") == NULL);
	cr_expect(driver_losses_find("mlx5_core_") == NULL);
}

/* What the kernel's statistics and port_discards have would count twice. */
Test(driver_losses, no_row_names_a_statistic_that_is_read_elsewhere)
{
	static const char *const elsewhere[] = {"rx_dropped", "rx_missed_errors", "rx_fifo_errors", "rx_over_errors",
	                                        "rx_discards_phy"};

	for (const struct driver_losses *row = driver_losses_table; row->driver; row++)
		for (const char *const *pattern = row->statistics; *pattern; pattern++)
			for (size_t i = 0; i < N_OF(elsewhere); i++)
				cr_expect(fnmatch(*pattern, elsewhere[i], 0) == FNM_NOMATCH, "%s: %s", row->driver,
				          *pattern);
}

static void write_page_line(const struct driver_losses *row, FILE *line)
{
	fprintf(line, "\n.It %s Ta %s", row->driver, row->statistics[0] ? row->statistics[0] : "none");
	for (size_t i = 1; row->statistics[0] && row->statistics[i]; i++)
		fprintf(line, ", %s", row->statistics[i]);
	fprintf(line, " Ta %s Ta %u\n",
	        row->is_complete    ? "yes"
	        : row->by_both_ends ? "by both ends"
	                            : "no",
	        row->delay_ms);
	cr_assert(fclose(line) == 0);
}

Test(driver_losses, the_page_has_the_table)
{
	FILE *page = fopen(PAGE, "re");
	char *text = NULL, line[512];
	size_t length = 0;

	cr_assert(page && getdelim(&text, &length, '\0', page) > 0, "%s", PAGE);
	for (const struct driver_losses *row = driver_losses_table; row->driver; row++) {
		write_page_line(row, fmemopen(line, sizeof(line), "w"));
		cr_expect(strstr(text, line) != NULL, "%s lacks:%s", PAGE, line);
	}
	free(text);
	fclose(page);
}
