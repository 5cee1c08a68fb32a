// SPDX-License-Identifier: Apache-2.0
/* Describes rows of the key table in words, and accesses the fields that rows describe. */
#include "daemon/config/key.h"

#include "lib/base/interface_name.h"
#include "lib/base/nearest.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void __attribute__((format(printf, 3, 4))) key_append(char *buffer, size_t bytes, const char *format, ...)
{
	size_t used = strlen(buffer);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(buffer + used, bytes - used, format, arguments);
	va_end(arguments);
}

static void key_append_range(const struct key *key, char *buffer, size_t bytes)
{
	key_append(buffer, bytes, "an integer from %" PRId64 " to %" PRId64, key->min, key->max);
	if (key->multiple_of)
		key_append(buffer, bytes, ", a multiple of %" PRId64, key->multiple_of);
	if (key->power_of_two)
		key_append(buffer, bytes, ", a power of two");
}

/* last: before the last one. */
static void key_append_choices(const struct key *key, const char *last, char *buffer, size_t bytes)
{
	for (const struct key_choice *choice = key->choices; choice->name; choice++)
		key_append(buffer, bytes, "%s\"%s\"",
		           choice == key->choices ? ""
		           : choice[1].name       ? ", "
		                                  : last,
		           choice->name);
}

const char *key_accepted(const struct key *key, char *buffer, size_t bytes)
{
	static const char *const words[] = {
		[KEY_BOOLEAN] = "true or false",
		[KEY_MODE] = "a string of octal permissions, \"0660\"",
		[KEY_ADDRESS] = "one unicast or multicast address, IPv4 as \"239.1.2.3\", IPv6 as \"ff05::1:2\"",
		[KEY_UNICAST] = "one unicast address, IPv4 as \"10.0.0.1\", IPv6 as \"fe80::1\"",
		[KEY_PREFIX] = "an address or a prefix, \"239.1.2.3\", \"10.1.0.0/16\", \"ff05::1:2\", \"fd00::/8\"",
		[KEY_MAC] = "one Ethernet address, \"02:00:00:00:0a:01\"",
		[KEY_STATION] = "one station's Ethernet address, \"02:00:00:00:0a:01\"",
		[KEY_GID] = "a group's name or number in double quotes",
		[KEY_UIDS] = "an array of names and numbers, [ \"anna\", \"1001\" ]",
		[KEY_GIDS] = "an array of names and numbers, [ \"video\", \"1001\" ]",
		[KEY_GROUP] = "a group, { key = value; … }",
		[KEY_LIST] = "a list of groups, ( { key = value; … }, … )",
	};

	buffer[0] = '\0';
	switch (key->type) {
	case KEY_INTEGER:
		key_append_range(key, buffer, bytes);
		break;
	case KEY_NUMBERS:
		key_append(buffer, bytes, "an array of integers from %" PRId64 " to %" PRId64 ", [ 2, 3 ]", key->min,
		           key->max);
		break;
	case KEY_CHOICE:
		key_append_choices(key, " or ", buffer, bytes);
		break;
	case KEY_NUMBER:
		key_append_choices(key, ", ", buffer, bytes);
		key_append(buffer, bytes, " or ");
		key_append_range(key, buffer, bytes);
		break;
	case KEY_STRING:
		key_append(buffer, bytes, "a string in double quotes, 1 to %zu characters", key->bytes - 1);
		break;
	case KEY_INTERFACE:
		key_append(buffer, bytes, "a name of a network interface in double quotes, 1 to %d characters",
		           INTERFACE_NAME_BYTES - 1);
		break;
	case KEY_NAME:
		key_append(buffer, bytes, "a string in double quotes, 1 to %zu letters, digits, '.', '_' and '-'",
		           key->bytes - 1);
		break;
	case KEY_BYTES:
		key_append(buffer, bytes, "a string of hexadecimal digits, two for each of 1 to %zu bytes, or \"\"",
		           key->bytes);
		break;
	case KEY_PATH:
		key_append(buffer, bytes, "an absolute path in double quotes, at most %zu characters", key->bytes - 1);
		break;
	default:
		key_append(buffer, bytes, "%s", words[key->type]);
	}
	return buffer;
}

const char *key_default(const struct key *key, char *buffer, size_t bytes)
{
	buffer[0] = '\0';
	if (key->required)
		return buffer;
	if (key->type == KEY_INTEGER)
		key_append(buffer, bytes, "%" PRId64, key->number);
	else if (key->type == KEY_BOOLEAN)
		key_append(buffer, bytes, "%s", key->number ? "true" : "false");
	else if (key_is_array(key))
		key_append(buffer, bytes, "[]");
	else if (key->string)
		key_append(buffer, bytes, "\"%s\"", key->string);
	return buffer;
}

const struct key *key_find(const struct key_group *group, const char *name)
{
	for (unsigned i = 0; i < group->n_keys; i++) {
		const struct key *key = &group->keys[i];

		if (strcmp(key->name, name) == 0)
			return key;
	}
	return NULL;
}

config_setting_t *key_setting(const struct key *key, const config_setting_t *group)
{
	return group ? config_setting_get_member(group, key->name) : NULL;
}

/* ---- near misses --------------------------------------------------------------------------------- */

/* What other programs call a key. A word may stand for several keys, of different groups. */
static const struct {
	const char *word;
	const char *key;
} other_words[] = {
	{"iface", "interface"},
	{"device", "interface"},
	{"dev", "interface"},
	{"nic", "interface"},
	{"dst", "destination"},
	{"dst_ip", "destination"},
	{"dest_ip", "destination"},
	{"destination_ip", "destination"},
	{"ip", "destination"},
	{"address", "destination"},
	{"host", "destination"},
	{"group", "destination"},
	{"multicast", "destination"},
	{"ip", "address"},
	{"host", "address"},
	{"group", "address"},
	{"destination", "address"},
	{"dst_port", "port"},
	{"dest_port", "port"},
	{"destination_port", "port"},
	{"udp_port", "port"},
	{"src", "source"},
	{"src_ip", "source"},
	{"source_ip", "source"},
	{"sender", "source"},
	{"src_port", "source_port"},
	{"mtu", "payload_size"},
	{"packet_size", "payload_size"},
	{"size", "payload_size"},
	{"snaplen", "payload_size"},
	{"hugepages", "page_size"},
	{"huge_pages", "page_size"},
	{"ring_size", "history_blocks"},
	{"buffer_size", "history_blocks"},
	{"rate", "rate_limit_mbps"},
	{"bandwidth", "rate_limit_mbps"},
	{"driver", "backend"},
	{"filter", "flows"},
	{"bpf", "flows"},
	{"core", "cpu"},
	{"mac", "next_hop_mac"},
};

const struct key *key_find_nearest(const struct key_group *group, const char *name)
{
	struct nearest nearest = {.word = name};

	for (size_t i = 0; i < sizeof(other_words) / sizeof(other_words[0]); i++)
		if (strcmp(other_words[i].word, name) == 0 && key_find(group, other_words[i].key))
			return key_find(group, other_words[i].key);
	for (unsigned i = 0; i < group->n_keys; i++)
		nearest_offer(&nearest, group->keys[i].name);
	for (unsigned i = 0; i < group->n_keys && !nearest.best; i++)
		if (strncmp(group->keys[i].name, name, strlen(name)) == 0)
			nearest.best = group->keys[i].name;
	return nearest.best ? key_find(group, nearest.best) : NULL;
}

static bool key_is_host_name(const char *text)
{
	return !strchr(text, ':') && strpbrk(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

const char *key_hint(const struct key *key, const char *text)
{
	bool is_address = key->type == KEY_ADDRESS || key->type == KEY_UNICAST || key->type == KEY_PREFIX;

	if (!strcmp(key->name, "sequence"))
		return "; a line @include \"ibvcapd/sequence/NAME.conf\" in it takes the keys of a known format";
	if (key->type == KEY_PREFIX && strchr(text, '.') && strchr(text, ':'))
		return "; the port is a key of its own: port = N";
	if (is_address && key_is_host_name(text))
		return "; a name is not looked up";
	if (key->type == KEY_PREFIX && strchr(text, '/'))
		return "; a prefix has no bit set after its length";
	if (is_address && strpbrk(text, "/-,"))
		return "; there are no ranges: each address has an entry of its own";
	if (key->type == KEY_INTEGER && text[0] >= '0' && text[0] <= '9' && strpbrk(text, "-:,"))
		return "; there are no ranges: each number has an entry of its own";
	return "";
}

/* ---- fields -------------------------------------------------------------------------------------- */

bool key_is_array(const struct key *key)
{
	return key->type == KEY_UIDS || key->type == KEY_GIDS || key->type == KEY_NUMBERS;
}

uint32_t key_count(const struct key *key, const void *base)
{
	return *(const uint32_t *)((const char *)base + key->count);
}

const void *key_entry(const struct key *key, const void *base, uint32_t index)
{
	const char *entries;

	memcpy(&entries, (const char *)base + key->offset, sizeof(entries));
	return entries + index * key->group->bytes;
}

const char *key_entry_name(const struct key_group *group, const void *entry)
{
	const struct key *key = key_find(group, "name");

	return key ? (const char *)entry + key->offset : NULL;
}

const char *key_group_text(const struct key_group *group, const void *base)
{
	return *(const char *const *)((const char *)base + group->text);
}
