// SPDX-License-Identifier: Apache-2.0
/* Checks a value against the row of its key and stores it in the row's field. Looks up users and groups by name. */
#include "daemon/config/key.h"

#include "daemon/config/config.h"
#include "lib/base/size.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cuts the number to the size of the field; the row's range fits the field. */
static void key_store_bytes(void *field, size_t bytes, int64_t number)
{
	switch (bytes) {
	case 1:
		*(uint8_t *)field = (uint8_t)number;
		break;
	case 2:
		*(uint16_t *)field = (uint16_t)number;
		break;
	case 4:
		*(uint32_t *)field = (uint32_t)number;
		break;
	default:
		*(uint64_t *)field = (uint64_t)number;
	}
}

const char *key_choice_name(const struct key *key, int64_t number)
{
	for (const struct key_choice *choice = key->choices; choice && choice->name; choice++)
		if ((int32_t)choice->value == number)
			return choice->name;
	return NULL;
}

bool key_store_number(const struct key *key, int64_t number, void *base)
{
	bool is_integer = key->type == KEY_INTEGER || (key->type == KEY_NUMBER && !key_choice_name(key, number));

	if (is_integer &&
	    (number < key->min || number > key->max || (key->multiple_of && number % key->multiple_of != 0) ||
	     (key->power_of_two && !is_power_of_two((uint64_t)number))))
		return false;
	key_store_bytes((char *)base + key->offset, key->bytes, key->unit ? number * key->unit : number);
	return true;
}

bool key_parse_number(const struct key *key, const char *text, int64_t *number)
{
	char *end;

	for (const struct key_choice *choice = key->choices; choice->name; choice++) {
		if (strcmp(choice->name, text) == 0) {
			*number = (int32_t)choice->value;
			return true;
		}
	}
	if (!isdigit((unsigned char)text[0]) || strlen(text) > 9)
		return false;
	*number = strtoll(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
	return *end == '\0';
}

static bool key_has_form(const struct key *key, const char *text)
{
	if (key->type == KEY_PATH)
		return text[0] == '/';
	for (; key->type == KEY_NAME && *text; text++)
		if (!isalnum((unsigned char)*text) && !strchr("._-", *text))
			return false;
	return true;
}

static bool key_store_text(const struct key *key, const char *text, char *field)
{
	size_t length = strlen(text);

	if (length == 0 || length >= key->bytes || !key_has_form(key, text))
		return false;
	memcpy(field, text, length + 1);
	return true;
}

static bool key_parse_mode(const char *text, mode_t *mode)
{
	char *end;
	unsigned long bits = strtoul(text, &end, 8);

	*mode = (mode_t)bits;
	return text[0] >= '0' && text[0] <= '7' && *end == '\0' && bits <= 0777;
}

/* Neither 0.0.0.0 nor IPv4 in IPv6 form (::ffff:10.0.0.1) is in a packet's header. Packets to all stations may come. */
static bool is_packet_address(const struct key *key, const struct config_address *address)
{
	static const uint8_t zero[16], mapped[12] = {[10] = 0xff, [11] = 0xff};
	static const uint8_t broadcast[4] = {255, 255, 255, 255};

	if (memcmp(address->address, zero, sizeof(zero)) == 0)
		return false;
	return address->family == AF_INET
	               ? key->type == KEY_PREFIX || memcmp(address->address, broadcast, sizeof(broadcast)) != 0
	               : memcmp(address->address, mapped, sizeof(mapped)) != 0;
}

static bool key_parse_address(const struct key *key, const char *text, struct config_address *address)
{
	*address = (struct config_address){.family = AF_UNSPEC};
	if (!key->required && text[0] == '\0')
		return true;
	address->family = strchr(text, ':') ? AF_INET6 : AF_INET;
	return inet_pton(address->family, text, address->address) == 1 && is_packet_address(key, address) &&
	       (key->type != KEY_UNICAST || !config_is_multicast(address));
}

static bool key_has_open_bits_only(const struct config_address *address, unsigned bits)
{
	unsigned n_bits = address->family == AF_INET6 ? 128 : 32;

	for (; bits < n_bits; bits++)
		if (address->address[bits / 8] & 0x80 >> bits % 8)
			return false;
	return true;
}

/* An address, or "ADDRESS/BITS", where no bit after the prefix is set. */
static bool key_parse_prefix(const struct key *key, const char *text, struct config_address *address, uint8_t *bits)
{
	const char *slash = strchr(text, '/');
	char copy[INET6_ADDRSTRLEN];
	unsigned n_bits;
	int n = 0;

	*bits = 0;
	if (!slash) {
		if (!key_parse_address(key, text, address))
			return false;
		if (address->family != AF_UNSPEC)
			*bits = address->family == AF_INET6 ? 128 : 32;
		return true;
	}
	if ((size_t)(slash - text) >= sizeof(copy) || strspn(slash + 1, "0123456789") != strlen(slash + 1) ||
	    sscanf(slash + 1, "%3u%n", &n_bits, &n) != 1 || slash[1 + n])
		return false;
	memcpy(copy, text, (size_t)(slash - text));
	copy[slash - text] = '\0';
	*address = (struct config_address){.family = strchr(copy, ':') ? AF_INET6 : AF_INET};
	*bits = (uint8_t)n_bits;
	return inet_pton(address->family, copy, address->address) == 1 &&
	       n_bits <= (address->family == AF_INET6 ? 128 : 32) && key_has_open_bits_only(address, n_bits);
}

/* "02:00:00:00:0a:01" and no shorter form. */
static bool key_parse_mac(const struct key *key, const char *text, uint8_t mac[6], bool *has_mac)
{
	static const uint8_t zero[6];
	int n = 0;

	*has_mac = text[0] != '\0';
	if (!*has_mac)
		return true;
	return strlen(text) == 17 && strspn(text, "0123456789abcdefABCDEF:") == 17 &&
	       sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
	              &mac[5], &n) == 6 &&
	       n == 17 && !(key->type == KEY_STATION && mac[0] & 1) && memcmp(mac, zero, sizeof(zero)) != 0;
}

/* "f0000000ffffffff". Bytes after those of the text are 0. */
static bool key_parse_bytes(const char *text, uint8_t *field, size_t bytes)
{
	size_t length = strlen(text);

	memset(field, length ? 0 : 0xff, bytes);
	if (length % 2 || length > 2 * bytes || strspn(text, "0123456789abcdefABCDEF") != length)
		return false;
	for (size_t i = 0; i < length / 2; i++) {
		const char digits[] = {text[2 * i], text[2 * i + 1], '\0'};

		field[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return true;
}

bool key_store_string(const struct key *key, const char *text, void *base)
{
	void *field = (char *)base + key->offset;
	int64_t number;

	switch (key->type) {
	case KEY_CHOICE:
		for (const struct key_choice *choice = key->choices; choice->name; choice++) {
			if (strcmp(choice->name, text) == 0) {
				key_store_bytes(field, key->bytes, choice->value);
				return true;
			}
		}
		return false;
	case KEY_MODE:
		return key_parse_mode(text, field);
	case KEY_ADDRESS:
	case KEY_UNICAST:
		return key_parse_address(key, text, field);
	case KEY_PREFIX:
		return key_parse_prefix(key, text, field, (uint8_t *)base + key->count);
	case KEY_NUMBER:
		return key_parse_number(key, text, &number) && key_store_number(key, number, base);
	case KEY_BYTES:
		return key_parse_bytes(text, field, key->bytes);
	case KEY_MAC:
	case KEY_STATION:
		return key_parse_mac(key, text, field, (bool *)((char *)base + key->count));
	default:
		return key_store_text(key, text, field);
	}
}

/* ---- users and groups --------------------------------------------------------------------------- */

/* Buffer for an entry of the user database. The entry of a group lists its members, so the buffer may have to grow. */
#define ENTRY_BYTES     4096u
#define ENTRY_BYTES_MAX (1u << 20)

/* UINT32_MAX is no id: (uid_t)-1 means "no change" to the kernel. */
static bool user_names_parse_id(const char *text, uint32_t *id)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end || number >= UINT32_MAX)
		return false;
	*id = (uint32_t)number;
	return true;
}

int user_names_find_user(const char *text, uint32_t *id)
{
	char buffer[ENTRY_BYTES];
	struct passwd entry, *found;
	int error;

	if (user_names_parse_id(text, id))
		return 0;
	error = getpwnam_r(text, &entry, buffer, sizeof(buffer), &found);
	if (found)
		*id = entry.pw_uid;
	return found ? 0 : error ? -error : -ENOENT;
}

int user_names_find_group(const char *text, uint32_t *id)
{
	struct group entry, *found = NULL;
	int error = ERANGE;

	if (user_names_parse_id(text, id))
		return 0;
	for (size_t bytes = ENTRY_BYTES; error == ERANGE && bytes <= ENTRY_BYTES_MAX; bytes *= 2) {
		char *buffer = malloc(bytes);

		if (!buffer)
			return -ENOMEM;
		error = getgrnam_r(text, &entry, buffer, bytes, &found);
		if (found)
			*id = entry.gr_gid;
		free(buffer);
	}
	return found ? 0 : error ? -error : -ENOENT;
}
