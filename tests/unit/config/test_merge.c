// SPDX-License-Identifier: Apache-2.0
/* Configurations made of others, and the keys that a reload cannot change. */
#include "daemon/config/diff.h"
#include "daemon/config/key.h"
#include "daemon/config/merge.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct failure failure;
static const struct config_removed nothing;

/* A file of streams of these names, each with more in it. */
static struct config *load(const char *control, const char *first, const char *second, const char *more)
{
	struct config *config = NULL;
	char text[2048];
	int n = snprintf(text, sizeof(text), "control = { %s };\nstreams = (", control);

	for (int i = 0; i < 2; i++) {
		const char *name = i ? second : first;

		if (name)
			n += snprintf(text + n, sizeof(text) - (size_t)n,
			              "%s{ name = \"%s\"; interface = \"eth0\"; payload_size = 1000; users = [ 7, 8 ]; "
			              "lossless_deadline_ms = 5; lossless_users = [ 7 ]; flows = ( { destination = "
			              "\"239.1.1.%d\"; port = 7; } ); %s }",
			              i && first ? ", " : "", name, i + 1, more);
	}
	snprintf(text + n, sizeof(text) - (size_t)n, ");\n");
	cr_assert(eq(int, config_load_text("test.conf", text, &config, &failure), 0), "%s", failure.text);
	return config;
}

Test(merge, a_copy_stands_on_its_own_without_what_was_removed_and_with_what_was_added)
{
	struct config *base = load("max_clients = 9; observer_groups = [ 5 ];", "a", "b", ""),
		      *added = load("", "c", NULL, ""), *copy;

	cr_assert(eq(int, config_merge(base, added, &(struct config_removed){.stream = "a"}, &copy, &failure), 0));
	config_free(base);
	config_free(added);
	cr_expect(eq(u32, copy->n_streams, 2));
	cr_expect(eq(u32, copy->max_clients, 9));
	cr_expect(eq(u32, copy->observer_groups[0], 5));
	cr_expect(eq(str, (char *)copy->streams[0].name, (char *)"b"));
	cr_expect(eq(str, (char *)copy->streams[1].name, (char *)"c"));
	cr_expect(eq(str, (char *)copy->streams[1].file, (char *)"test.conf"));
	cr_expect(eq(u32, copy->streams[0].users[1], 8));
	cr_expect(eq(u32, copy->streams[0].lossless_users[0], 7));
	cr_expect(eq(u32, copy->streams[0].flows[0].destination.address[3], 2));
	cr_expect(eq(str, (char *)copy->streams[0].flows[0].file, (char *)"test.conf"));
	config_free(copy);
}

Test(merge, a_name_that_is_there_or_is_not_there_is_refused)
{
	struct config *base = load("", "a", "b", ""), *copy;

	cr_expect(eq(int, config_merge(base, base, &nothing, &copy, &failure), -EEXIST));
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(strstr(failure.text, "test.conf:2: name = \"a\"") == failure.text, "%s", failure.text);
	cr_expect(eq(int, config_merge(base, NULL, &(struct config_removed){.stream = "x"}, &copy, &failure), -ENOENT));
	cr_expect(strstr(failure.text, "no stream 'x'") != NULL);
	config_free(base);
}

static const char *fixed_key(const char *before, const char *after)
{
	struct config *a = load("", "a", NULL, before), *b = load("", "a", NULL, after);
	const char *key = diff_fixed_key(&stream_keys, &a->streams[0], &b->streams[0]);

	config_free(a);
	config_free(b);
	return key ? key : "none";
}

Test(merge, what_memory_and_queue_were_made_by_is_fixed_and_rights_and_limits_are_not)
{
	cr_expect(eq(str, (char *)fixed_key("", ""), (char *)"none"));
	cr_expect(eq(str, (char *)fixed_key("", "history_blocks = 65;"), (char *)"history_blocks"));
	cr_expect(eq(str, (char *)fixed_key("", "lease_blocks = 5;"), (char *)"lease_blocks"));
	cr_expect(eq(str, (char *)fixed_key("", "max_consumers = 9;"), (char *)"max_consumers"));
	cr_expect(eq(str, (char *)fixed_key("", "join = false;"), (char *)"join"));
	cr_expect(eq(str, (char *)fixed_key("", "cpu = 1;"), (char *)"cpu"));
	cr_expect(eq(str, (char *)fixed_key("", "groups = [ 5 ];"), (char *)"none"));
	cr_expect(
		eq(str, (char *)fixed_key("", "max_consumers_per_user = 1; lossless_groups = [ 5 ];"), (char *)"none"));
}

Test(merge, auto_stays_auto_beside_a_stream_of_the_interface_that_names_a_backend)
{
	struct config *base = load("", "a", NULL, ""), *packet = load("", "b", NULL, "backend = \"packet\";"), *merged;

	cr_expect(eq(int, base->streams[0].backend, CONFIG_BACKEND_AUTO));
	cr_assert(eq(int, config_merge(base, packet, &nothing, &merged, &failure), 0));
	cr_expect(eq(int, merged->streams[0].backend, CONFIG_BACKEND_AUTO));
	cr_expect(eq(int, merged->streams[1].backend, CONFIG_BACKEND_PACKET));
	cr_expect(strstr(merged->streams[0].text, "backend = \"auto\"") != NULL);
	config_free(merged);
	config_free(packet);
	config_free(base);
}

Test(merge, of_control_the_socket_itself_is_fixed)
{
	struct config *base = load("", "a", NULL, ""), *limits = load("max_clients = 3;", "a", NULL, ""),
		      *mode = load("mode = \"0600\";", "a", NULL, "");

	cr_expect(eq(ptr, (void *)diff_fixed_key(&control_keys, base, limits), NULL));
	cr_expect(eq(str, (char *)diff_fixed_key(&control_keys, base, mode), (char *)"mode"));
	config_free(base);
	config_free(limits);
	config_free(mode);
}

/* ---- channels ------------------------------------------------------------------------------------ */

static struct config *load_channel(const char *name, const char *more, const char *destination)
{
	struct config *config = NULL;
	char text[1024];

	snprintf(text, sizeof(text),
	         "channels = ( { name = \"%s\"; interface = \"eth0\"; source_port = 9; payload_size = 1000; users = [ "
	         "7, 8 ];\n"
	         "destinations = ( { address = \"10.0.0.1\"; port = 1; %s } ); %s } );",
	         name, destination, more);
	cr_assert(eq(int, config_load_text("test.conf", text, &config, &failure), 0), "%s", failure.text);
	return config;
}

Test(merge, channels_are_copied_added_and_removed_as_streams_are)
{
	struct config *base = load_channel("a", "", "next_hop_mac = \"02:00:00:00:00:07\";"),
		      *added = load_channel("b", "", ""), *stream = load("", "a", NULL, ""), *copy, *again;

	cr_assert(eq(int, config_merge(base, stream, &nothing, &copy, &failure), 0), "%s", failure.text);
	cr_assert(eq(int, config_merge(copy, added, &(struct config_removed){.stream = "a"}, &again, &failure), 0));
	config_free(base);
	config_free(copy);
	cr_expect(eq(u32, again->n_streams, 0));
	cr_expect(eq(u32, again->n_channels, 2));
	cr_expect(eq(str, (char *)again->channels[0].name, (char *)"a"));
	cr_expect(eq(u32, again->channels[0].users[1], 8));
	cr_expect(eq(str, (char *)again->channels[0].file, (char *)"test.conf"));
	cr_expect(eq(u32, again->channels[0].destinations[0].next_hop_mac[5], 7));
	cr_expect(eq(str, (char *)again->channels[0].destinations[0].file, (char *)"test.conf"));
	cr_assert(eq(int, config_merge(again, NULL, &(struct config_removed){.channel = "a"}, &copy, &failure), 0));
	cr_expect(eq(u32, copy->n_channels, 1));
	cr_expect(eq(str, (char *)copy->channels[0].name, (char *)"b"));
	config_free(copy);
	cr_expect(eq(int, config_merge(again, added, &nothing, &copy, &failure), -EEXIST));
	cr_expect(strstr(failure.text, "test.conf:1: name = \"b\"") == failure.text, "%s", failure.text);
	cr_expect(
		eq(int, config_merge(again, NULL, &(struct config_removed){.channel = "x"}, &copy, &failure), -ENOENT));
	cr_expect(strstr(failure.text, "no channel 'x'") != NULL);
	config_free(again);
	config_free(added);
	config_free(stream);
}

Test(merge, a_channel_that_is_added_wants_the_same_of_its_worker)
{
	struct config *base = load_channel("a", "", ""), *added = load_channel("b", "spin_us = 7;", ""), *copy;

	cr_expect(eq(int, config_merge(base, added, &nothing, &copy, &failure), -EINVAL));
	cr_expect(strstr(failure.text, "spin_us of channel 'b'") != NULL, "%s", failure.text);
	config_free(base);
	config_free(added);
}

static const char *fixed_channel_key(const char *more, const char *destination)
{
	struct config *a = load_channel("a", "", ""), *b = load_channel("a", more, destination);
	const char *key = diff_fixed_key(&channel_keys, &a->channels[0], &b->channels[0]);

	config_free(a);
	config_free(b);
	return key ? key : "none";
}

Test(merge, who_paces_a_channel_is_fixed)
{
	struct config *a = load_channel("a", "rate_limit_mbps = 5;", "");
	struct config *b = load_channel("a", "rate_limit_mbps = 5; pacing = \"device\";", "");

	cr_expect(eq(str, (char *)diff_fixed_key(&channel_keys, &a->channels[0], &b->channels[0]), (char *)"pacing"));
	config_free(a);
	config_free(b);
}

Test(merge, of_a_channel_rights_and_limits_of_senders_can_change)
{
	cr_expect(eq(str, (char *)fixed_channel_key("", ""), (char *)"none"));
	cr_expect(eq(str, (char *)fixed_channel_key("groups = [ 5 ]; max_senders = 1; max_senders_per_user = 1;", ""),
	             (char *)"none"));
	cr_expect(eq(str, (char *)fixed_channel_key("", "}, { address = \"10.0.0.1\"; port = 1;"),
	             (char *)"destinations"));
	cr_expect(eq(str, (char *)fixed_channel_key("", "next_hop_mac = \"02:00:00:00:00:07\";"),
	             (char *)"destinations"));
	cr_expect(eq(str, (char *)fixed_channel_key("source = \"10.0.0.9\";", ""), (char *)"source"));
	cr_expect(eq(str, (char *)fixed_channel_key("rate_limit_mbps = 5;", ""), (char *)"rate_limit_mbps"));
	cr_expect(eq(str, (char *)fixed_channel_key("burst_bytes = 5;", ""), (char *)"burst_bytes"));
	cr_expect(eq(str, (char *)fixed_channel_key("arena_slots = 64;", ""), (char *)"arena_slots"));
	cr_expect(eq(str, (char *)fixed_channel_key("dscp = 5;", ""), (char *)"dscp"));
	cr_expect(eq(str, (char *)fixed_channel_key("udp_checksum = \"zero\";", ""), (char *)"udp_checksum"));
}
