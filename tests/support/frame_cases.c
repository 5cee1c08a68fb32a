// SPDX-License-Identifier: Apache-2.0
/* Reads the table of frames, and makes each frame by its recipe. The table says how both are written. */
#include "tests/support/frame_cases.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTHS_MAX 8
#define LINE_BYTES  256

/* A length's field, which is filled in when the frame is whole. */
struct length {
	uint32_t at;
	uint32_t counted_at; /* the first byte that counts */
	int adds;
	bool is_zero;
};

struct recipe {
	struct frame_case *row;
	const char *word; /* the one that is being read */
	uint32_t n;       /* bytes so far */
	uint32_t padding;
	uint32_t next_at; /* the byte that names the next header; 0: an EtherType does */
	struct length lengths[LENGTHS_MAX];
	uint32_t n_lengths;
};

static void fail_row(const char *what, const char *row)
{
	fprintf(stderr, "frames.txt: %s: %s\n", what, row);
	abort();
}

static void put(struct recipe *recipe, uint32_t n, const uint8_t *bytes)
{
	if (recipe->n + n > FRAME_CASE_BYTES_MAX)
		fail_row("too long", recipe->row->recipe);
	memcpy(recipe->row->bytes + recipe->n, bytes, n);
	recipe->n += n;
}

static void put16(struct recipe *recipe, uint32_t value)
{
	put(recipe, 2, (uint8_t[]){(uint8_t)(value >> 8), (uint8_t)value});
}

static void put_zeros(struct recipe *recipe, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		put(recipe, 1, (const uint8_t[]){0});
}

/* The number behind this option of the word, as behind "ihl=" in "v4:ihl=4". */
static int option(const struct recipe *recipe, const char *name, int base, int unless)
{
	const char *found = strstr(recipe->word, name);

	return found ? (int)strtol(found + strlen(name), NULL, base) : unless;
}

static void put_length(struct recipe *recipe, uint32_t counted_at)
{
	if (recipe->n_lengths == LENGTHS_MAX)
		fail_row("too many lengths", recipe->row->recipe);
	recipe->lengths[recipe->n_lengths++] = (struct length){.at = recipe->n,
	                                                       .counted_at = counted_at,
	                                                       .adds = option(recipe, ":add=", 10, 0),
	                                                       .is_zero = strstr(recipe->word, ":zero")};
	put16(recipe, 0);
}

/* ---- words --------------------------------------------------------------------------------------- */

static void put_ethernet(struct recipe *recipe, uint32_t value)
{
	(void)value;
	put(recipe, 12, (const uint8_t[]){2, 0, 0, 0, 10, 1, 2, 0, 0, 0, 10, 9});
	recipe->next_at = 0;
}

static void put_type(struct recipe *recipe, uint32_t type)
{
	put16(recipe, type);
}

static void put_tag(struct recipe *recipe, uint32_t type)
{
	put16(recipe, type);
	put16(recipe, 5);
}

/* The header before names the next one by this number. */
static void put_next(struct recipe *recipe, uint32_t number)
{
	if (recipe->next_at)
		recipe->row->bytes[recipe->next_at] = (uint8_t)number;
}

static uint32_t begin_ip(struct recipe *recipe, uint32_t type, uint32_t number)
{
	put_next(recipe, number);
	if (!recipe->next_at)
		put16(recipe, type);
	return recipe->n;
}

static void put_ipv4(struct recipe *recipe, uint32_t value)
{
	uint32_t at = begin_ip(recipe, 0x0800, IPPROTO_IPIP);
	int n_options = option(recipe, ":opt=", 10, 0), words = option(recipe, ":ihl=", 10, 5 + n_options);

	(void)value;
	put16(recipe, (uint32_t)(option(recipe, ":ver=", 10, 4) << 12 | words << 8));
	put_length(recipe, at);
	put16(recipe, 0x1234);
	put16(recipe, (uint32_t)option(recipe, ":frag=", 16, 0));
	put(recipe, 4, (const uint8_t[]){64, 0, 0, 0});
	put(recipe, 8, (const uint8_t[]){10, 0, 0, 9, 10, 0, 0, 1});
	for (int i = 0; i < n_options; i++)
		put(recipe, 4, (const uint8_t[]){1, 1, 1, 1});
	recipe->next_at = at + 9;
}

static void put_ipv6(struct recipe *recipe, uint32_t value)
{
	uint32_t at = begin_ip(recipe, 0x86dd, IPPROTO_IPV6);

	(void)value;
	put16(recipe, (uint32_t)(option(recipe, ":ver=", 10, 6) << 12));
	put_zeros(recipe, 2);
	put_length(recipe, at + 40);
	put(recipe, 2, (const uint8_t[]){0, 64});
	put(recipe, 16, (const uint8_t[16]){0xfd, [15] = 9});
	put(recipe, 16, (const uint8_t[16]){0xfd, [15] = 1});
	recipe->next_at = at + 6;
}

static void put_extension(struct recipe *recipe, uint32_t number, uint32_t n, uint32_t length)
{
	uint32_t at = recipe->n;

	put_next(recipe, number);
	put16(recipe, (uint32_t)option(recipe, ":len=", 10, (int)length));
	put_zeros(recipe, n - 2);
	recipe->next_at = at;
}

static void put_hop_by_hop(struct recipe *recipe, uint32_t words)
{
	put_extension(recipe, IPPROTO_HOPOPTS, 8 * words, words - 1);
}

static void put_routing(struct recipe *recipe, uint32_t words)
{
	put_extension(recipe, IPPROTO_ROUTING, 8 * words, words - 1);
}

static void put_destination(struct recipe *recipe, uint32_t words)
{
	put_extension(recipe, IPPROTO_DSTOPTS, 8 * words, words - 1);
}

static void put_authentication(struct recipe *recipe, uint32_t words)
{
	put_extension(recipe, IPPROTO_AH, 4 * words, words - 2);
}

static void put_fragment(struct recipe *recipe, uint32_t field)
{
	put_extension(recipe, IPPROTO_FRAGMENT, 8, 0);
	recipe->n -= 6;
	put16(recipe, field);
	put(recipe, 4, (const uint8_t[]){0x12, 0x34, 0x56, 0x78});
}

static void put_ports(struct recipe *recipe, uint32_t number)
{
	put_next(recipe, number);
	put16(recipe, 4000);
	put16(recipe, FRAME_CASE_PORT);
}

static void put_udp(struct recipe *recipe, uint32_t value)
{
	uint32_t at = recipe->n;

	(void)value;
	put_ports(recipe, IPPROTO_UDP);
	put_length(recipe, at);
	put16(recipe, 0);
}

static void put_tcp(struct recipe *recipe, uint32_t value)
{
	(void)value;
	put_ports(recipe, IPPROTO_TCP);
	put_zeros(recipe, 16);
}

static void put_vxlan(struct recipe *recipe, uint32_t value)
{
	(void)value;
	put(recipe, 8, (const uint8_t[]){8, 0, 0, 0, 0, 0, 7, 0});
}

static void put_data(struct recipe *recipe, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		put(recipe, 1, (uint8_t[]){(uint8_t)(0x80 + i)});
}

static void put_padding(struct recipe *recipe, uint32_t n)
{
	recipe->padding += n;
	put_data(recipe, n);
}

static const struct word {
	const char *name;
	void (*put)(struct recipe *recipe, uint32_t value);
	int base; /* of the number behind "=" */
} words[] = {
	{"eth", put_ethernet, 10},     {"tag", put_tag, 16},       {"type", put_type, 16},
	{"v4", put_ipv4, 10},          {"v6", put_ipv6, 10},       {"hop", put_hop_by_hop, 10},
	{"route", put_routing, 10},    {"frag", put_fragment, 16}, {"ah", put_authentication, 10},
	{"dest", put_destination, 10}, {"next", put_next, 10},     {"udp", put_udp, 10},
	{"tcp", put_tcp, 10},          {"vxlan", put_vxlan, 10},   {"data", put_data, 10},
	{"pad", put_padding, 10},
};

static void put_word(struct recipe *recipe)
{
	size_t n_name = strcspn(recipe->word, "=:");
	const char *value = recipe->word[n_name] == '=' ? recipe->word + n_name + 1 : "1";

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i].name) == n_name && strncmp(recipe->word, words[i].name, n_name) == 0) {
			words[i].put(recipe, (uint32_t)strtoul(value, NULL, words[i].base));
			return;
		}
	fail_row("not a word", recipe->word);
}

static void make_frame(struct frame_case *row)
{
	struct recipe recipe = {.row = row};
	char copy[sizeof(row->recipe)], *rest = NULL;

	memcpy(copy, row->recipe, sizeof(copy));
	for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		recipe.word = word;
		put_word(&recipe);
	}
	for (uint32_t i = 0; i < recipe.n_lengths; i++) {
		const struct length *length = &recipe.lengths[i];
		uint32_t value = recipe.n - recipe.padding - length->counted_at + (uint32_t)length->adds;

		if (length->is_zero)
			value = 0;
		row->bytes[length->at] = (uint8_t)(value >> 8);
		row->bytes[length->at + 1] = (uint8_t)value;
	}
	row->wire_bytes = recipe.n;
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static const struct name {
	const char *name;
	int value;
} ends[] = {{"udp", FRAME_UDP},
            {"later", FRAME_LATER_FRAGMENT},
            {"protocol", FRAME_OTHER_PROTOCOL},
            {"type", FRAME_OTHER_TYPE},
            {"tags", FRAME_TOO_MANY_TAGS},
            {"extensions", FRAME_TOO_MANY_EXTENSIONS},
            {"cut", FRAME_CUT},
            {"short", FRAME_SHORT},
            {"malformed", FRAME_MALFORMED},
            {NULL, 0}},
  verdicts[] = {{"whole", DATAGRAM_WHOLE}, {"not-udp", DATAGRAM_NOT_UDP},     {"fragment", DATAGRAM_FRAGMENT},
                {"cut", DATAGRAM_CUT},     {"malformed", DATAGRAM_MALFORMED}, {NULL, 0}},
  reasons[] = {{"same", FRAME_CASE_SAME},
               {"tags", FRAME_CASE_TAGS},
               {"9100", FRAME_CASE_9100},
               {"extensions", FRAME_CASE_EXTENSIONS},
               {"lengths", FRAME_CASE_LENGTHS},
               {"ports", FRAME_CASE_PORTS},
               {NULL, 0}};

static int value_of(const struct name *names, const char *name, const char *line)
{
	for (; names->name; names++)
		if (strcmp(names->name, name) == 0)
			return names->value;
	fail_row(name, line);
	return 0;
}

static void read_row(const char *line, struct frame_case *row)
{
	struct frame *frame = &row->frame;
	char end[16], verdict[16], bpf[16];
	uint32_t wire, captured, more;
	int n;

	*row = (struct frame_case){.captured = 0};
	n = sscanf(line,
	           " %127[^|]| %" SCNu32 " %" SCNu32 " | %15s %" SCNu8 " %" SCNu8 " %" SCNu8 " %" SCNu8 " %" SCNu32
	           " %" SCNu32 " %" SCNu16 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " | %" SCNu32 " %15s %15s",
	           row->recipe, &wire, &captured, end, &frame->ip_version, &frame->n_tags, &frame->n_extensions,
	           &frame->protocol, &frame->l3_at, &frame->l4_at, &frame->fragment_offset, &more, &frame->payload_at,
	           &frame->payload_bytes, &frame->datagram_bytes, &row->needed, verdict, bpf);
	if (n != 18)
		fail_row("not a row", line);
	make_frame(row);
	row->wire_bytes = wire ? wire : row->wire_bytes;
	row->captured = captured ? captured : row->wire_bytes;
	frame->more_fragments = more;
	frame->end = (enum frame_end)value_of(ends, end, line);
	row->verdict = (enum datagram_verdict)value_of(verdicts, verdict, line);
	row->bpf = (enum frame_case_bpf)value_of(reasons, bpf, line);
}

unsigned frame_cases_visit(const char *directory, void (*visit)(const struct frame_case *row, void *context),
                           void *context)
{
	static struct frame_case row;
	char path[4096], line[LINE_BYTES];
	unsigned n = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/frames.txt", directory);
	file = fopen(path, "re");
	if (!file)
		fail_row("not there", path);
	while (fgets(line, sizeof(line), file)) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		read_row(line, &row);
		visit(&row, context);
		n++;
	}
	fclose(file);
	return n;
}

bool frame_case_is_taken(const struct frame_case *row)
{
	return (row->frame.end == FRAME_UDP) != (row->bpf != FRAME_CASE_SAME);
}
