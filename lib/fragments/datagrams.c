// SPDX-License-Identifier: Apache-2.0
/* Collects the fragments of datagrams in buffers of their own, and says when one is whole. */
#include "lib/fragments/datagrams.h"

#include "lib/frame/checksum.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/random.h>

#define HEADER_ROOM           256 /* for Ethernet, tags and IP headers of the first fragment */
#define PAGE_BYTES            4096u
#define IP_BYTES_MAX          65535u
#define UNIT_BYTES            8u /* fragments begin at multiples of it */
#define N_UNITS               (65536u / UNIT_BYTES)
#define N_BUCKETS             1024u
#define IPV4_DONT             0x4000
#define UNTAGGED              UINT16_MAX
#define FRAGMENT_HEADER_BYTES 8u

/* All bytes count, so there is no padding. */
struct datagram_key {
	uint8_t source[16];
	uint8_t destination[16];
	uint32_t id;
	uint16_t vlan; /* the tag control information of the outer tag; UNTAGGED */
	uint16_t ip_version;
};

struct datagram {
	TAILQ_ENTRY(datagram) by_age; /* in held or remembered */
	TAILQ_ENTRY(datagram) of_source;
	LIST_ENTRY(datagram) of_key;
	struct datagram_key key;
	bool is_held;       /* else it was whole and is remembered: its bytes are compared with those of the next one */
	bool is_foreign;    /* its first fragment has come, for a port that the stream has no flow for */
	bool is_equal;      /* to the one before it, as far as it has come */
	uint32_t n_compare; /* bytes of the one before it, which the buffer has; 0: none is remembered */
	uint64_t came_ns;   /* its first fragment did after that */
	uint64_t until_ns;
	uint32_t n_fragments;
	uint32_t n_bytes;      /* that have come */
	uint32_t end;          /* of the datagram, once its last fragment has come; 0 */
	uint32_t highest;      /* end of the fragment that reaches furthest */
	uint32_t header_bytes; /* once its first fragment has come; 0 */
	uint32_t l3_at;        /* likewise */
	bool begins_with_udp;  /* likewise: no extension headers of IPv6 before it */
	bool has_wrong_header; /* the checksum of a fragment's IPv4 header is wrong */
	uint32_t tag;
	uint8_t *buffer; /* HEADER_ROOM, then bytes of the datagram */
	uint64_t units[N_UNITS / 64];
};

TAILQ_HEAD(datagram_list, datagram);
LIST_HEAD(datagram_chain, datagram);

struct datagram_source {
	struct datagram_list list; /* held, oldest first */
	uint32_t n;
};

struct datagrams {
	struct datagram entries[DATAGRAMS_MAX];
	uint8_t *buffers;
	size_t buffers_bytes;
	uint32_t bytes_max;
	uint64_t seed; /* random, so that nobody can choose keys of one bucket */
	datagrams_wants_port *wants_port;
	const void *context;
	struct datagram_list unused, held, remembered;
	struct datagram_source sources[N_BUCKETS];
	struct datagram_chain chains[N_BUCKETS];
	struct datagram_counts counts;
	uint64_t came_ns; /* all frames that came before that have been added */
};

/* What a fragment brings. */
struct piece {
	const uint8_t *bytes;
	uint32_t offset;
	uint32_t n_bytes;
	bool is_last;
};

/* ---- memory ---------------------------------------------------------------------------------------- */

int datagrams_new(uint32_t bytes_max, datagrams_wants_port *wants_port, const void *context,
                  struct datagrams **datagrams)
{
	struct datagrams *d = calloc(1, sizeof(*d));
	size_t stride = (HEADER_ROOM + (size_t)bytes_max + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;

	if (!d)
		return -ENOMEM;
	d->bytes_max = bytes_max;
	d->wants_port = wants_port;
	d->context = context;
	d->buffers_bytes = DATAGRAMS_MAX * stride;
	/* Pages come when fragments first need them. */
	d->buffers = mmap(NULL, d->buffers_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (d->buffers == MAP_FAILED || getrandom(&d->seed, sizeof(d->seed), 0) != sizeof(d->seed)) {
		if (d->buffers != MAP_FAILED)
			munmap(d->buffers, d->buffers_bytes);
		free(d);
		return -ENOMEM;
	}
	TAILQ_INIT(&d->unused);
	TAILQ_INIT(&d->held);
	TAILQ_INIT(&d->remembered);
	for (unsigned i = 0; i < N_BUCKETS; i++) {
		TAILQ_INIT(&d->sources[i].list);
		LIST_INIT(&d->chains[i]);
	}
	for (unsigned i = 0; i < DATAGRAMS_MAX; i++) {
		d->entries[i].buffer = d->buffers + i * stride;
		TAILQ_INSERT_TAIL(&d->unused, &d->entries[i], by_age);
	}
	*datagrams = d;
	return 0;
}

void datagrams_free(struct datagrams *datagrams)
{
	if (datagrams)
		munmap(datagrams->buffers, datagrams->buffers_bytes);
	free(datagrams);
}

const struct datagram_counts *datagrams_counts(const struct datagrams *datagrams)
{
	return &datagrams->counts;
}

uint64_t datagrams_oldest_ns(const struct datagrams *datagrams)
{
	const struct datagram *oldest = TAILQ_FIRST(&datagrams->held);

	return oldest ? oldest->came_ns : UINT64_MAX;
}

/* ---- the table ------------------------------------------------------------------------------------- */

static uint32_t hash_words(const struct datagrams *d, const void *bytes, size_t n)
{
	uint64_t hash = d->seed, word;

	for (size_t i = 0; i < n; i += sizeof(word)) {
		memcpy(&word, (const uint8_t *)bytes + i, sizeof(word));
		hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return (uint32_t)(hash % N_BUCKETS);
}

static struct datagram_chain *chain_of(struct datagrams *d, const struct datagram_key *key)
{
	return &d->chains[hash_words(d, key, sizeof(*key))];
}

static struct datagram_source *source_of(struct datagrams *d, const struct datagram_key *key)
{
	return &d->sources[hash_words(d, key->source, sizeof(key->source))];
}

static struct datagram *datagrams_find(struct datagrams *d, const struct datagram_key *key)
{
	struct datagram *datagram;

	LIST_FOREACH (datagram, chain_of(d, key), of_key)
		if (memcmp(&datagram->key, key, sizeof(*key)) == 0)
			return datagram;
	return NULL;
}

/* It is not held any more: the next fragment with its identification begins another one, as in Linux. */
static void datagram_remember(struct datagrams *d, struct datagram *datagram, uint64_t now_ns)
{
	struct datagram_source *source = source_of(d, &datagram->key);

	TAILQ_REMOVE(&d->held, datagram, by_age);
	TAILQ_REMOVE(&source->list, datagram, of_source);
	source->n--;
	d->counts.held -= datagram->n_fragments;
	datagram->is_held = false;
	datagram->until_ns = now_ns + DATAGRAM_TIMEOUT_NS;
	TAILQ_INSERT_TAIL(&d->remembered, datagram, by_age);
}

static void datagram_forget(struct datagrams *d, struct datagram *datagram)
{
	TAILQ_REMOVE(&d->remembered, datagram, by_age);
	LIST_REMOVE(datagram, of_key);
	TAILQ_INSERT_HEAD(&d->unused, datagram, by_age);
}

static void datagram_drop(struct datagrams *d, struct datagram *datagram)
{
	datagram_remember(d, datagram, 0);
	datagram_forget(d, datagram);
}

/*
 * A part of it lacks. If it is equal to the one before it, the network may have repeated fragments of that one. If its
 * first fragment is for another port, the others may be of two datagrams with one identification. Without the first
 * fragment, its port is not known.
 */
static void datagram_give_up(struct datagrams *d, struct datagram *datagram)
{
	bool may_be_none = datagram->is_equal || datagram->is_foreign;

	if (may_be_none || !datagram->header_bytes) {
		d->counts.ambiguous += datagram->n_fragments;
	} else {
		d->counts.lost++;
		d->counts.joined += datagram->n_fragments - 1;
	}
	if (!may_be_none) {
		d->counts.incomplete++;
		d->counts.incomplete_bytes += datagram->n_bytes;
	}
	datagram_drop(d, datagram);
}

/* Remembered ones go first: they cost no data. */
static struct datagram *datagram_take_unused(struct datagrams *d)
{
	struct datagram *datagram;

	if (TAILQ_EMPTY(&d->unused) && !TAILQ_EMPTY(&d->remembered))
		datagram_forget(d, TAILQ_FIRST(&d->remembered));
	if (TAILQ_EMPTY(&d->unused))
		datagram_give_up(d, TAILQ_FIRST(&d->held));
	datagram = TAILQ_FIRST(&d->unused);
	TAILQ_REMOVE(&d->unused, datagram, by_age);
	return datagram;
}

/* remembered: the one before it with its identification, whose place it takes; or NULL. */
static struct datagram *datagram_begin(struct datagrams *d, const struct datagram_key *key, struct datagram *remembered,
                                       uint64_t now_ns)
{
	struct datagram_source *source = source_of(d, key);
	struct datagram *datagram = remembered;

	if (source->n == DATAGRAMS_PER_SOURCE)
		datagram_give_up(d, TAILQ_FIRST(&source->list));
	if (remembered) {
		TAILQ_REMOVE(&d->remembered, remembered, by_age);
	} else {
		datagram = datagram_take_unused(d);
		datagram->key = *key;
		LIST_INSERT_HEAD(chain_of(d, key), datagram, of_key);
	}
	datagram->is_held = true;
	datagram->is_foreign = datagram->has_wrong_header = false;
	datagram->is_equal = remembered != NULL;
	datagram->n_compare = remembered ? remembered->end : 0;
	datagram->came_ns = d->came_ns;
	datagram->until_ns = now_ns + DATAGRAM_TIMEOUT_NS;
	datagram->n_fragments = datagram->n_bytes = datagram->end = datagram->highest = datagram->header_bytes = 0;
	memset(datagram->units, 0, sizeof(datagram->units));
	TAILQ_INSERT_TAIL(&d->held, datagram, by_age);
	TAILQ_INSERT_TAIL(&source->list, datagram, of_source);
	source->n++;
	return datagram;
}

void datagrams_time_out(struct datagrams *d, uint64_t came_ns)
{
	struct datagram *oldest;

	while ((oldest = TAILQ_FIRST(&d->held)) && oldest->until_ns <= came_ns)
		datagram_give_up(d, oldest);
	while ((oldest = TAILQ_FIRST(&d->remembered)) && oldest->until_ns <= came_ns)
		datagram_forget(d, oldest);
}

void datagrams_expire(struct datagrams *d, uint64_t came_ns)
{
	d->came_ns = came_ns;
	datagrams_time_out(d, came_ns);
}

void datagrams_give_up(struct datagrams *d)
{
	while (!TAILQ_EMPTY(&d->held))
		datagram_give_up(d, TAILQ_FIRST(&d->held));
}

/* ---- one fragment ---------------------------------------------------------------------------------- */

static struct datagram_key key_of_fragment(const uint8_t *bytes, const struct frame *frame)
{
	const uint8_t *ip = bytes + frame->l3_at;
	struct datagram_key key = {.id = frame->fragment_id, .vlan = UNTAGGED, .ip_version = frame->ip_version};

	if (frame->n_tags)
		key.vlan = frame_be16(bytes + frame->l3_at - FRAME_TAG_BYTES * frame->n_tags);
	memcpy(key.source, ip + (frame->ip_version == 4 ? 12 : 8), frame->ip_version == 4 ? 4 : 16);
	memcpy(key.destination, ip + (frame->ip_version == 4 ? 16 : 24), frame->ip_version == 4 ? 4 : 16);
	return key;
}

/* Where the part of the datagram begins in the frame. The walk has found it in the frame. */
static uint32_t piece_at(const struct frame *frame)
{
	return frame->ip_version == 4 ? frame->l4_at : frame->fragment_at + FRAGMENT_HEADER_BYTES;
}

/* Bytes of the whole IP packet that are no part of the datagram and count against its largest size. */
static uint32_t counted_header_bytes(const struct frame *frame)
{
	return frame->ip_version == 4 ? frame->l4_at - frame->l3_at
	                              : frame->fragment_at - frame->l3_at - FRAME_IPV6_BYTES;
}

/* False: its lengths contradict the frame, or each other. */
static bool read_piece(const uint8_t *bytes, uint32_t n_bytes, const struct frame *frame, struct piece *piece)
{
	uint32_t at = piece_at(frame);

	if (frame->ip_end <= at || frame->ip_end > n_bytes)
		return false;
	*piece = (struct piece){.bytes = bytes + at,
	                        .offset = frame->fragment_offset,
	                        .n_bytes = frame->ip_end - at,
	                        .is_last = !frame->more_fragments};
	return (piece->is_last || piece->n_bytes % UNIT_BYTES == 0) &&
	       piece->offset + piece->n_bytes <= IP_BYTES_MAX - counted_header_bytes(frame) &&
	       (piece->offset || at <= HEADER_ROOM);
}

static uint32_t units_of(const struct piece *piece)
{
	return (piece->n_bytes + UNIT_BYTES - 1) / UNIT_BYTES;
}

/* How many of the piece's units have come before; `mark`: they have come now. */
static uint32_t count_units(struct datagram *datagram, const struct piece *piece, bool mark)
{
	uint32_t first = piece->offset / UNIT_BYTES, end = first + units_of(piece), n = 0;

	for (uint32_t i = first / 64; i * 64 < end; i++) {
		uint64_t units = UINT64_MAX;

		if (i == first / 64)
			units <<= first % 64;
		if (end - i * 64 < 64)
			units &= ~(UINT64_MAX << (end - i * 64));
		n += (uint32_t)__builtin_popcountll(datagram->units[i] & units);
		if (mark)
			datagram->units[i] |= units;
	}
	return n;
}

/* So many bytes of the piece are kept. */
static uint32_t kept_bytes(const struct datagrams *d, const struct piece *piece)
{
	uint32_t room = d->bytes_max > piece->offset ? d->bytes_max - piece->offset : 0;

	return piece->n_bytes < room ? piece->n_bytes : room;
}

/* The bytes that came there last. Those that are not kept count as equal. */
static bool has_bytes_of(const struct datagrams *d, const struct datagram *datagram, const struct piece *piece)
{
	return memcmp(datagram->buffer + HEADER_ROOM + piece->offset, piece->bytes, kept_bytes(d, piece)) == 0;
}

static bool has_other_end(const struct datagram *datagram, const struct piece *piece)
{
	uint32_t piece_end = piece->offset + piece->n_bytes;

	return (datagram->end && piece_end > datagram->end) || (piece->is_last && piece_end < datagram->highest);
}

static bool is_of_one_before(const struct datagrams *d, const struct datagram *datagram, const struct piece *piece)
{
	uint32_t piece_end = piece->offset + piece->n_bytes;

	return piece_end <= datagram->n_compare && piece->is_last == (piece_end == datagram->n_compare) &&
	       has_bytes_of(d, datagram, piece);
}

static void datagram_keep(const struct datagrams *d, struct datagram *datagram, const struct piece *piece)
{
	datagram->is_equal = datagram->is_equal && is_of_one_before(d, datagram, piece);
	memcpy(datagram->buffer + HEADER_ROOM + piece->offset, piece->bytes, kept_bytes(d, piece));
	count_units(datagram, piece, true);
	datagram->n_bytes += piece->n_bytes;
	if (piece->offset + piece->n_bytes > datagram->highest)
		datagram->highest = piece->offset + piece->n_bytes;
}

/* The headers as they are without fragments, but for the lengths, which are not known yet. */
static void keep_headers(struct datagram *datagram, const uint8_t *bytes, const struct frame *frame, uint32_t tag)
{
	uint8_t *headers = datagram->buffer;

	datagram->header_bytes = frame->ip_version == 4 ? frame->l4_at : frame->fragment_at;
	datagram->l3_at = frame->l3_at;
	datagram->begins_with_udp = frame->l4_at == piece_at(frame);
	datagram->tag = tag;
	memcpy(headers, bytes, datagram->header_bytes);
	if (frame->ip_version == 6)
		headers[frame->fragment_named_at] = bytes[frame->fragment_at];
}

static void store_be16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static void end_headers(const struct datagram *datagram)
{
	uint8_t *ip = datagram->buffer + datagram->l3_at;
	uint32_t ip_bytes = datagram->header_bytes - datagram->l3_at;
	uint16_t sum;

	if (datagram->key.ip_version == 6) {
		store_be16(ip + 4, ip_bytes - FRAME_IPV6_BYTES + datagram->end);
		return;
	}
	store_be16(ip + 2, ip_bytes + datagram->end);
	store_be16(ip + 6, frame_be16(ip + 6) & IPV4_DONT);
	store_be16(ip + 10, 0);
	sum = (uint16_t)~checksum_fold(checksum_sum_bytes(ip, ip_bytes));
	memcpy(ip + 10, &sum, sizeof(sum));
}

/* UDP's own checksum (RFC 768): no card checks that of fragments. It is not known if bytes were not kept. */
static bool is_checksum_bad(const struct datagrams *d, const struct datagram *datagram)
{
	const uint8_t *udp = datagram->buffer + HEADER_ROOM;
	uint8_t pseudo[8] = {0};
	uint32_t udp_bytes = frame_be16(udp + 4);

	if (!datagram->begins_with_udp || frame_be16(udp + 6) == 0 || datagram->end > d->bytes_max ||
	    udp_bytes > datagram->end || udp_bytes < FRAME_UDP_BYTES)
		return false;
	store_be16(pseudo + 2, udp_bytes);
	pseudo[5] = IPPROTO_UDP;
	return checksum_fold(checksum_sum_bytes(datagram->key.source, 16) +
	                     checksum_sum_bytes(datagram->key.destination, 16) + checksum_sum_bytes(pseudo, 8) +
	                     checksum_sum_bytes(udp, udp_bytes)) != UINT16_MAX;
}

static bool is_header_wrong(const uint8_t *bytes, const struct frame *frame)
{
	const uint8_t *ip = bytes + frame->l3_at;

	return frame->ip_version == 4 && checksum_fold(checksum_sum_bytes(ip, (ip[0] & 15u) * 4)) != UINT16_MAX;
}

static void datagram_show(const struct datagrams *d, const struct datagram *datagram, struct datagram_frame *whole)
{
	uint32_t kept = datagram->end < d->bytes_max ? datagram->end : d->bytes_max;

	end_headers(datagram);
	*whole = (struct datagram_frame){
		.headers = datagram->buffer,
		.header_bytes = datagram->header_bytes,
		.bytes = datagram->buffer + HEADER_ROOM,
		.n_kept = kept,
		.n_bytes = datagram->end,
		.is_checksum_bad = is_checksum_bad(d, datagram),
		.has_wrong_header = datagram->has_wrong_header,
		.tag = datagram->tag,
	};
}

/* As Linux does: a fragment that has come before is dropped, and one that overlaps others takes its datagram along. */
static bool datagram_accepts(struct datagrams *d, struct datagram *datagram, const struct piece *piece)
{
	uint32_t n_before = count_units(datagram, piece, false);

	if (has_other_end(datagram, piece) || (n_before && n_before < units_of(piece))) {
		d->counts.refused++;
		d->counts.joined += datagram->n_fragments;
		datagram_drop(d, datagram);
		return false;
	}
	if (piece->is_last)
		datagram->end = piece->offset + piece->n_bytes;
	if (!n_before)
		return true;
	if (has_bytes_of(d, datagram, piece))
		d->counts.ambiguous++; /* a repeat, or of another datagram with equal bytes */
	else
		d->counts.refused++;
	return false;
}

/* With a wrong checksum it may be made of two. False: it is for another port. */
static bool datagram_end(struct datagrams *d, struct datagram *datagram, uint64_t now_ns, struct datagram_frame *whole)
{
	bool is_ours = !datagram->is_foreign;

	datagram_remember(d, datagram, now_ns);
	datagram_show(d, datagram, whole);
	*(whole->is_checksum_bad ? &d->counts.ambiguous : &d->counts.joined) += datagram->n_fragments - is_ours;
	d->counts.whole += is_ours;
	return is_ours;
}

bool datagrams_add(struct datagrams *d, const uint8_t *bytes, uint32_t n_bytes, const struct frame *frame, uint32_t tag,
                   uint64_t now_ns, struct datagram_frame *whole)
{
	const struct datagram_key key = key_of_fragment(bytes, frame);
	struct datagram *datagram;
	struct piece piece;

	if (!read_piece(bytes, n_bytes, frame, &piece)) {
		d->counts.refused++;
		return false;
	}
	datagram = datagrams_find(d, &key);
	if (!datagram || !datagram->is_held)
		datagram = datagram_begin(d, &key, datagram, now_ns);
	if (!datagram_accepts(d, datagram, &piece))
		return false;
	datagram_keep(d, datagram, &piece);
	datagram->has_wrong_header |= is_header_wrong(bytes, frame);
	datagram->n_fragments++;
	d->counts.held++;
	if (piece.offset == 0) {
		uint16_t port_be;

		keep_headers(datagram, bytes, frame, tag);
		memcpy(&port_be, bytes + frame->l4_at + 2, sizeof(port_be));
		datagram->is_foreign = !d->wants_port(d->context, port_be);
	}
	return datagram->end && datagram->n_bytes == datagram->end && datagram_end(d, datagram, now_ns, whole);
}
