// SPDX-License-Identifier: Apache-2.0
/*
 * Placement on the device: kernels that copy the rows of a batch into a dense array by the packets' own numbers, and
 * swap and widen the samples while they copy. libibvcap_cuda(3) has an example.
 *
 * This one file is for nvcc, and for NVRTC (RawModule of CuPy): it includes nothing. The functions work on the host,
 * too. A C or C++ compiler takes the file as well: there a kernel is a function that does the work of one thread, see
 * struct ibvcap_device_grid.
 *
 * Two steps, each a kernel. The first says where each row belongs, as records of struct ibvcap_device_placed. They come
 *
 * - from the host: ibvcap_place_add(), or Placer.index() in Python, makes the same records. The placer knows arrays,
 *   sources that it learns, frames, deadlines and restarts. Copy the records to the device, 16 bytes a row;
 * - or from ibvcap_index_rows(), which reads the numbers on the device, so the CPU reads no packet. It has one array,
 *   which is a ring of numbers, and a list of sources.
 *
 * The second, ibvcap_copy_rows(), copies the payloads of the rows whose kind is FIRST. ibvcap_fill_missing() fills the
 * rows of the numbers that are not present.
 *
 * Both steps read what the library reads, as it reads it: numbers, counts and sources by the description of the stream
 * (ibvcap_rx_sequence()), also across header row and payload row, irregular rows, and fragments; rows in error have
 * no number. The pieces that are checked on the host are checked here, too: no packet, record or description, whatever
 * its bytes are, makes a kernel read beyond a row or write beyond the array that the arguments describe. An array of
 * present has whole words of 4 bytes, see ibvcap_index_rows().
 *
 * A grid of any shape does all of the work. ibvcap_copy_rows() takes 32 consecutive threads for a row, so blocks of a
 * multiple of 32 threads are best, and about as many threads as 32 * n.
 */
#ifndef IBVCAP_CUDA_PLACE_CUH
#define IBVCAP_CUDA_PLACE_CUH

typedef unsigned char ibvcap_u8;
typedef unsigned short ibvcap_u16;
typedef unsigned int ibvcap_u32;
typedef unsigned long long ibvcap_u64;

/* ---- device, or host ------------------------------------------------------------------------------ */

#ifdef __CUDACC_RTC__
#define IBVCAP_DEVICE static __device__ inline
#define IBVCAP_KERNEL extern "C" __global__
#elif defined(__CUDACC__)
#define IBVCAP_DEVICE static __host__ __device__ inline
#define IBVCAP_KERNEL static __global__ __attribute__((unused))
#else
#define IBVCAP_DEVICE static inline
#define IBVCAP_KERNEL static inline
#endif

#ifndef __CUDACC_RTC__
/*
 * On the host: which thread of how many a call of a kernel is. A call without more is a grid of one thread, and does
 * all of the work.
 */
struct ibvcap_device_grid {
	ibvcap_u64 thread;
	ibvcap_u64 threads;
};
static __attribute__((unused)) struct ibvcap_device_grid ibvcap_device_host = {0, 1};
#endif

IBVCAP_DEVICE ibvcap_u64 ibvcap_device_thread(void)
{
#ifdef __CUDA_ARCH__
	return (ibvcap_u64)blockIdx.x * blockDim.x + threadIdx.x;
#else
	return ibvcap_device_host.thread;
#endif
}

IBVCAP_DEVICE ibvcap_u64 ibvcap_device_threads(void)
{
#ifdef __CUDA_ARCH__
	return (ibvcap_u64)gridDim.x * blockDim.x;
#else
	return ibvcap_device_host.threads;
#endif
}

IBVCAP_DEVICE void ibvcap_device_add(ibvcap_u64 *to, ibvcap_u64 n)
{
#ifdef __CUDA_ARCH__
	atomicAdd(to, n);
#else
	*to += n;
#endif
}

IBVCAP_DEVICE void ibvcap_device_raise(ibvcap_u64 *to, ibvcap_u64 value)
{
#ifdef __CUDA_ARCH__
	atomicMax(to, value);
#else
	*to = *to > value ? *to : value;
#endif
}

/* Set the bits of a byte; returns what it was. Atomic by its aligned word of 4 bytes, which is written back whole. */
IBVCAP_DEVICE ibvcap_u8 ibvcap_device_mark(ibvcap_u8 *at, ibvcap_u8 bits)
{
#ifdef __CUDA_ARCH__
	const ibvcap_u32 shift = (ibvcap_u32)((ibvcap_u64)at & 3) * 8;
	ibvcap_u32 *word = (ibvcap_u32 *)((ibvcap_u64)at & ~3ull);

	return (ibvcap_u8)(atomicOr(word, (ibvcap_u32)bits << shift) >> shift);
#else
	const ibvcap_u8 was = *at;

	*at = (ibvcap_u8)(was | bits);
	return was;
#endif
}

/* ---- what lies in the memory of a stream ------------------------------------------------------------ */
/* The structs of ibvcap.h and place.h, for a compiler that has no header of the host: the same layout. */

/* struct ibvcap_meta */
struct ibvcap_device_meta {
	ibvcap_u64 timestamp_ns;
	ibvcap_u16 length;
	ibvcap_u16 flags;
	ibvcap_u8 header_length;
	ibvcap_u8 flow;
	ibvcap_u16 wire_length;
};

#define IBVCAP_DEVICE_FLAG_FRAGMENT 0x08u
#define IBVCAP_DEVICE_FLAG_ERROR    0x20u
#define IBVCAP_DEVICE_FLAG_UNUSABLE 0x40u

/* struct ibvcap_placed */
struct ibvcap_device_placed {
	ibvcap_u32 kind; /* enum ibvcap_placed_kind */
	ibvcap_u32 array;
	ibvcap_u32 source;
	ibvcap_u32 row;
};

/* enum ibvcap_placed_kind */
#define IBVCAP_DEVICE_FIRST     0u
#define IBVCAP_DEVICE_SECOND    1u
#define IBVCAP_DEVICE_DUPLICATE 2u
#define IBVCAP_DEVICE_LATE      3u /* before the first number of the ring */
#define IBVCAP_DEVICE_FAR       4u /* behind its last number */
#define IBVCAP_DEVICE_OUTSIDE   5u
#define IBVCAP_DEVICE_UNREAD    6u
#define IBVCAP_DEVICE_UNLISTED  7u
#define IBVCAP_DEVICE_EMPTY     8u
#define IBVCAP_DEVICE_NOWHERE   0xffffffffu

/* struct ibvcap_place_source */
struct ibvcap_device_source {
	ibvcap_u8 address[16];
	ibvcap_u8 destination[16];
	ibvcap_u16 port;
	ibvcap_u16 destination_port;
	ibvcap_u32 field_bytes; /* not read */
	ibvcap_u8 field[16];
};

/* struct ibvcap_sequence */
struct ibvcap_device_sequence {
	ibvcap_u16 offset;
	ibvcap_u8 bytes;
	ibvcap_u8 shift;
	ibvcap_u8 bits;
	ibvcap_u8 little_endian;
	ibvcap_u8 upper_bytes;
	ibvcap_u8 upper_bits;
	ibvcap_u16 upper_offset;
	ibvcap_u16 count_offset;
	ibvcap_u16 source_offset;
	ibvcap_u8 count_bytes;
	ibvcap_u8 source_bytes;
	ibvcap_u8 source;
	ibvcap_u8 frame_bytes;
	ibvcap_u16 frame_offset;
	ibvcap_u8 frame_bits;
	ibvcap_u8 reserved0[3];
	ibvcap_u32 step;
	ibvcap_u32 window;
	ibvcap_u64 modulus;
	ibvcap_u64 upper_step;
	ibvcap_u64 jump;
	ibvcap_u8 source_mask[16];
};

/* enum ibvcap_source */
#define IBVCAP_DEVICE_SOURCE_FLOW    0u
#define IBVCAP_DEVICE_SOURCE_ADDRESS 2u
#define IBVCAP_DEVICE_SOURCE_NONE    3u

/** The rows of a batch: device addresses, and the fields of struct ibvcap_rx_batch. */
struct ibvcap_device_rows {
	const ibvcap_u8 *payload;
	const ibvcap_u8 *headers;
	const struct ibvcap_device_meta *meta;
	ibvcap_u32 n;
	ibvcap_u32 stride;
	ibvcap_u32 header_stride;
	ibvcap_u32 header_bytes;
	ibvcap_u32 application_header_bytes;
};

/* ---- a packet in two pieces ------------------------------------------------------------------------- */

/** struct ibvcap_packet */
struct ibvcap_device_packet {
	const ibvcap_u8 *headers;
	const ibvcap_u8 *row;
	ibvcap_u32 header_bytes;
	ibvcap_u32 row_bytes;
	ibvcap_u32 payload_at;
};

/* The caller knows that the packet has a byte there. */
IBVCAP_DEVICE ibvcap_u32 ibvcap_device_byte(const struct ibvcap_device_packet *packet, ibvcap_u32 at)
{
	return at < packet->header_bytes ? packet->headers[at] : packet->row[at - packet->header_bytes];
}

IBVCAP_DEVICE ibvcap_u32 ibvcap_device_be16(const struct ibvcap_device_packet *packet, ibvcap_u32 at)
{
	return ibvcap_device_byte(packet, at) << 8 | ibvcap_device_byte(packet, at + 1);
}

IBVCAP_DEVICE int ibvcap_device_has(const struct ibvcap_device_packet *packet, ibvcap_u64 at, ibvcap_u32 n)
{
	return at + n <= (ibvcap_u64)packet->header_bytes + packet->row_bytes;
}

/* The IP header of a frame, as far as it says which addresses, ports and fragment it has. 0: no such header. */
struct ibvcap_device_ip {
	ibvcap_u32 version;
	ibvcap_u32 at;
	ibvcap_u32 l4_at;
	ibvcap_u32 end;
	ibvcap_u32 protocol;
	ibvcap_u32 fragment_offset;
};

#define IBVCAP_DEVICE_HEADERS_MAX 256u /* bytes of a frame in which its headers are looked for */

#define IBVCAP_DEVICE_UDP 17u
#define IBVCAP_DEVICE_TCP 6u

/* The bytes of an IPv6 extension header, whose length field that is. 0: it is none. */
IBVCAP_DEVICE ibvcap_u32 ibvcap_device_extension(ibvcap_u32 protocol, ibvcap_u32 length)
{
	switch (protocol) {
	case 0:  /* hop by hop */
	case 43: /* routing */
	case 60: /* destination options */
		return (length + 1) * 8;
	case 51: /* authentication */
		return (length + 2) * 4;
	case 44: /* fragment */
		return 8;
	default:
		return 0;
	}
}

IBVCAP_DEVICE void ibvcap_device_walk_ipv4(const struct ibvcap_device_packet *packet, ibvcap_u32 n,
                                           struct ibvcap_device_ip *ip)
{
	const ibvcap_u32 at = ip->at;
	ibvcap_u32 header_bytes;

	if (at + 20 > n)
		return;
	header_bytes = (ibvcap_device_byte(packet, at) & 15) * 4;
	if (ibvcap_device_byte(packet, at) >> 4 != 4 || header_bytes < 20)
		return;
	ip->version = 4;
	ip->end = at + ibvcap_device_be16(packet, at + 2);
	ip->fragment_offset = (ibvcap_device_be16(packet, at + 6) & 0x1fff) << 3;
	ip->protocol = ibvcap_device_byte(packet, at + 9);
	if (at + header_bytes <= n)
		ip->l4_at = at + header_bytes;
}

IBVCAP_DEVICE void ibvcap_device_walk_ipv6(const struct ibvcap_device_packet *packet, ibvcap_u32 n,
                                           struct ibvcap_device_ip *ip)
{
	ibvcap_u32 at = ip->at + 40, i;

	if (at > n || ibvcap_device_byte(packet, ip->at) >> 4 != 6)
		return;
	ip->version = 6;
	ip->end = at + ibvcap_device_be16(packet, ip->at + 4);
	ip->protocol = ibvcap_device_byte(packet, ip->at + 6);
	for (i = 0; ibvcap_device_extension(ip->protocol, 0) && !ip->fragment_offset; i++) {
		ibvcap_u32 bytes;

		if (i == 8 || at + 8 > n)
			return;
		bytes = ibvcap_device_extension(ip->protocol, ibvcap_device_byte(packet, at + 1));
		if (at + bytes > ip->end || at + bytes > n)
			return;
		if (ip->protocol == 44)
			ip->fragment_offset = ibvcap_device_be16(packet, at + 2) & 0xfff8;
		ip->protocol = ibvcap_device_byte(packet, at);
		at += bytes;
	}
	ip->l4_at = at;
}

/** Walk a frame: Ethernet, up to four VLAN tags, IPv4 with options, or IPv6 with extension headers. */
IBVCAP_DEVICE struct ibvcap_device_ip ibvcap_device_walk(const struct ibvcap_device_packet *packet)
{
	const ibvcap_u64 present = (ibvcap_u64)packet->header_bytes + packet->row_bytes;
	const ibvcap_u32 n = present < IBVCAP_DEVICE_HEADERS_MAX ? (ibvcap_u32)present : IBVCAP_DEVICE_HEADERS_MAX;
	struct ibvcap_device_ip ip = {0, 14, 0, 0, 0, 0};
	ibvcap_u32 type, i;

	if (n < 14)
		return ip;
	type = ibvcap_device_be16(packet, 12);
	for (i = 0; type == 0x8100 || type == 0x88a8 || type == 0x9100; i++, ip.at += 4) {
		if (i == 4 || ip.at + 4 > n)
			return ip;
		type = ibvcap_device_be16(packet, ip.at + 2);
	}
	if (type == 0x0800)
		ibvcap_device_walk_ipv4(packet, n, &ip);
	else if (type == 0x86dd)
		ibvcap_device_walk_ipv6(packet, n, &ip);
	return ip;
}

/** The packet of a row; 0: no number can be read from it. */
IBVCAP_DEVICE int ibvcap_device_packet_of_row(const struct ibvcap_device_rows *rows, ibvcap_u32 i,
                                              struct ibvcap_device_packet *packet)
{
	const struct ibvcap_device_meta *meta = &rows->meta[i];
	const ibvcap_u32 end = meta->header_length + rows->application_header_bytes + meta->length;
	struct ibvcap_device_ip ip;

	if (meta->flags & (IBVCAP_DEVICE_FLAG_ERROR | IBVCAP_DEVICE_FLAG_UNUSABLE) || end < rows->header_bytes)
		return 0;
	packet->headers = rows->headers + (ibvcap_u64)i * rows->header_stride;
	packet->row = rows->payload + (ibvcap_u64)i * rows->stride;
	packet->header_bytes = rows->header_bytes;
	packet->row_bytes = end - rows->header_bytes < rows->stride ? end - rows->header_bytes : rows->stride;
	packet->payload_at = meta->header_length;
	if (!(meta->flags & IBVCAP_DEVICE_FLAG_FRAGMENT) || !meta->header_length)
		return 1;
	ip = ibvcap_device_walk(packet);
	return !(ip.l4_at && ip.protocol == IBVCAP_DEVICE_UDP && ip.end >= ip.l4_at && ip.fragment_offset);
}

/* ---- the number ------------------------------------------------------------------------------------- */

/** What a description finds in a packet. */
struct ibvcap_device_reading {
	ibvcap_u64 number; /* in steps, below the cycle */
	ibvcap_u64 frame;  /* 0: the description has no field for it */
	ibvcap_u32 n;      /* numbers that the packet takes */
	struct ibvcap_device_source source;
};

IBVCAP_DEVICE ibvcap_u64 ibvcap_device_low_bits(ibvcap_u32 bits)
{
	return bits < 64 ? (1ull << bits) - 1 : ~0ull;
}

/** Bits of the number; the description has to be sound. */
IBVCAP_DEVICE ibvcap_u32 ibvcap_device_number_bits(const struct ibvcap_device_sequence *sequence)
{
	return sequence->bits ? sequence->bits : 8u * sequence->bytes - sequence->shift;
}

/** Whether these functions take the description: as far as the arithmetic needs it. The library checks more. */
IBVCAP_DEVICE int ibvcap_device_is_sound(const struct ibvcap_device_sequence *sequence)
{
	return sequence->bytes >= 1 && sequence->bytes <= 8 && sequence->shift < 8u * sequence->bytes &&
	       ibvcap_device_number_bits(sequence) + sequence->shift <= 8u * sequence->bytes && sequence->step >= 1 &&
	       sequence->upper_bytes <= 8 && (!sequence->upper_bytes || sequence->upper_step >= 1) &&
	       sequence->count_bytes <= 2 && sequence->source_bytes <= 16 && sequence->frame_bytes <= 8 &&
	       sequence->source <= IBVCAP_DEVICE_SOURCE_NONE;
}

/* The values that a number of these bits takes if it grows by step; 0: 2^64. */
IBVCAP_DEVICE ibvcap_u64 ibvcap_device_steps(ibvcap_u32 bits, ibvcap_u64 step)
{
	if (bits < 64)
		return ((1ull << bits) - 1) / step + 1;
	return step == 1 ? 0 : ~0ull / step + 1;
}

/* How many packet numbers the field with the number has, without the upper field; 0: 2^64. */
IBVCAP_DEVICE ibvcap_u64 ibvcap_device_lower_cycle(const struct ibvcap_device_sequence *sequence)
{
	if (sequence->modulus)
		return (sequence->modulus - 1) / sequence->step + 1;
	return ibvcap_device_steps(ibvcap_device_number_bits(sequence), sequence->step);
}

IBVCAP_DEVICE ibvcap_u32 ibvcap_device_upper_bits(const struct ibvcap_device_sequence *sequence)
{
	return sequence->upper_bits ? sequence->upper_bits : 8u * sequence->upper_bytes;
}

/** The period of the whole number, in packet numbers; 0: 2^64. */
IBVCAP_DEVICE ibvcap_u64 ibvcap_device_cycle(const struct ibvcap_device_sequence *sequence)
{
	const ibvcap_u64 lower = ibvcap_device_lower_cycle(sequence);

	if (!sequence->upper_bytes)
		return lower;
	return lower * ibvcap_device_steps(ibvcap_device_upper_bits(sequence), sequence->upper_step);
}

/** From number a up to b, where the number begins again at 0 after cycle - 1. */
IBVCAP_DEVICE ibvcap_u64 ibvcap_device_distance(ibvcap_u64 cycle, ibvcap_u64 a, ibvcap_u64 b)
{
	return b >= a || cycle == 0 ? b - a : b + (cycle - a);
}

/* A field of the payload of at most 8 bytes. 0: it lies beyond the end. */
IBVCAP_DEVICE int ibvcap_device_field(const struct ibvcap_device_sequence *sequence,
                                      const struct ibvcap_device_packet *packet, ibvcap_u32 offset, ibvcap_u32 bytes,
                                      ibvcap_u64 *value)
{
	const ibvcap_u32 at = packet->payload_at + offset;
	ibvcap_u64 v = 0;
	ibvcap_u32 i;

	if (!ibvcap_device_has(packet, at, bytes))
		return 0;
	for (i = 0; i < bytes; i++)
		v = v << 8 | ibvcap_device_byte(packet, at + (sequence->little_endian ? bytes - 1 - i : i));
	*value = v;
	return 1;
}

/** The packet's number. 0: a field lies beyond the end of the packet. */
IBVCAP_DEVICE int ibvcap_device_number(const struct ibvcap_device_sequence *sequence,
                                       const struct ibvcap_device_packet *packet, ibvcap_u64 *number)
{
	const ibvcap_u64 cycle = ibvcap_device_lower_cycle(sequence);
	ibvcap_u64 value, upper;

	if (!ibvcap_device_field(sequence, packet, sequence->offset, sequence->bytes, &value))
		return 0;
	value = value >> sequence->shift & ibvcap_device_low_bits(ibvcap_device_number_bits(sequence));
	if (sequence->step > 1)
		value = value / sequence->step + (value % sequence->step != 0);
	if (cycle && value >= cycle)
		value %= cycle;
	if (sequence->upper_bytes) {
		if (!ibvcap_device_field(sequence, packet, sequence->upper_offset, sequence->upper_bytes, &upper))
			return 0;
		upper &= ibvcap_device_low_bits(ibvcap_device_upper_bits(sequence));
		value += upper / sequence->upper_step * cycle;
	}
	*number = value;
	return 1;
}

/* All bits 1: the packet takes no number. */
IBVCAP_DEVICE int ibvcap_device_count(const struct ibvcap_device_sequence *sequence,
                                      const struct ibvcap_device_packet *packet, ibvcap_u32 *n)
{
	ibvcap_u64 count = 1;

	if (sequence->count_bytes) {
		if (!ibvcap_device_field(sequence, packet, sequence->count_offset, sequence->count_bytes, &count))
			return 0;
		if (count == ibvcap_device_low_bits(8u * sequence->count_bytes))
			count = 0;
	}
	*n = (ibvcap_u32)count;
	return 1;
}

IBVCAP_DEVICE int ibvcap_device_frame(const struct ibvcap_device_sequence *sequence,
                                      const struct ibvcap_device_packet *packet, ibvcap_u64 *frame)
{
	const ibvcap_u32 bits = sequence->frame_bits ? sequence->frame_bits : 8u * sequence->frame_bytes;

	*frame = 0;
	if (!sequence->frame_bytes)
		return 1;
	if (!ibvcap_device_field(sequence, packet, sequence->frame_offset, sequence->frame_bytes, frame))
		return 0;
	*frame &= ibvcap_device_low_bits(bits);
	return 1;
}

/* Sender's address to `to`, from an IP header; IPv4 as ::ffff:a.b.c.d. */
IBVCAP_DEVICE void ibvcap_device_address(const struct ibvcap_device_packet *packet, const struct ibvcap_device_ip *ip,
                                         ibvcap_u32 at, ibvcap_u8 to[16])
{
	const ibvcap_u32 bytes = ip->version == 4 ? 4 : 16;
	ibvcap_u32 i;

	if (bytes == 4)
		to[10] = to[11] = 0xff;
	for (i = 0; i < bytes; i++)
		to[16 - bytes + i] = (ibvcap_u8)ibvcap_device_byte(packet, ip->at + at + i);
}

IBVCAP_DEVICE void ibvcap_device_source_of_headers(const struct ibvcap_device_sequence *sequence,
                                                   const struct ibvcap_device_packet *packet,
                                                   struct ibvcap_device_source *source)
{
	const struct ibvcap_device_ip ip = ibvcap_device_walk(packet);
	const int is_flow = sequence->source == IBVCAP_DEVICE_SOURCE_FLOW;

	if (!ip.version)
		return;
	ibvcap_device_address(packet, &ip, ip.version == 4 ? 12 : 8, source->address);
	if (is_flow)
		ibvcap_device_address(packet, &ip, ip.version == 4 ? 16 : 24, source->destination);
	if (sequence->source == IBVCAP_DEVICE_SOURCE_ADDRESS || !ip.l4_at || ip.fragment_offset ||
	    (ip.protocol != IBVCAP_DEVICE_UDP && ip.protocol != IBVCAP_DEVICE_TCP) ||
	    !ibvcap_device_has(packet, ip.l4_at, 4))
		return;
	source->port = (ibvcap_u16)ibvcap_device_be16(packet, ip.l4_at);
	if (is_flow)
		source->destination_port = (ibvcap_u16)ibvcap_device_be16(packet, ip.l4_at + 2);
}

/* What tells the packet's source from others; the rest is 0. 0: a field lies beyond the end, or there are no headers */
IBVCAP_DEVICE int ibvcap_device_source_of(const struct ibvcap_device_sequence *sequence,
                                          const struct ibvcap_device_packet *packet,
                                          struct ibvcap_device_source *source)
{
	const ibvcap_u32 at = packet->payload_at + sequence->source_offset;
	const struct ibvcap_device_source none = {{0}, {0}, 0, 0, 0, {0}};
	ibvcap_u32 i;

	*source = none;
	if (sequence->source_bytes && !ibvcap_device_has(packet, at, sequence->source_bytes))
		return 0;
	for (i = 0; i < sequence->source_bytes; i++)
		source->field[i] = (ibvcap_u8)(ibvcap_device_byte(packet, at + i) & sequence->source_mask[i]);
	if (sequence->source == IBVCAP_DEVICE_SOURCE_NONE)
		return 1;
	if (!packet->payload_at)
		return 0;
	ibvcap_device_source_of_headers(sequence, packet, source);
	return 1;
}

/** Read all that the description says. 0: a field lies beyond the end of the packet. */
IBVCAP_DEVICE int ibvcap_device_read(const struct ibvcap_device_sequence *sequence,
                                     const struct ibvcap_device_packet *packet, struct ibvcap_device_reading *reading)
{
	return ibvcap_device_is_sound(sequence) && ibvcap_device_number(sequence, packet, &reading->number) &&
	       ibvcap_device_count(sequence, packet, &reading->n) &&
	       ibvcap_device_source_of(sequence, packet, &reading->source) &&
	       ibvcap_device_frame(sequence, packet, &reading->frame);
}

/* ---- where rows belong ------------------------------------------------------------------------------ */

/** Indices of the counts of ibvcap_index_rows(): first those of the kinds, in rows. */
#define IBVCAP_DEVICE_COUNT_AHEAD 9u  /* the most numbers from the first one to the end of a packet: how far it came */
#define IBVCAP_DEVICE_COUNTS      16u /* room for so many */

/** The ring of numbers that ibvcap_index_rows() fills: number `first` of source s is in row s * numbers + at. */
struct ibvcap_device_ring {
	ibvcap_u8 *present; /* see ibvcap_index_rows(); 0: the number is missing */
	ibvcap_u64 first;
	ibvcap_u32 at;
	ibvcap_u32 numbers;
	ibvcap_u32 sources;
	ibvcap_u32 bit; /* 1 << side */
};

IBVCAP_DEVICE int ibvcap_device_is_source(const struct ibvcap_device_sequence *sequence,
                                          const struct ibvcap_device_source *listed,
                                          const struct ibvcap_device_source *read)
{
	ibvcap_u32 i;

	if (listed->port != read->port && sequence->source < IBVCAP_DEVICE_SOURCE_ADDRESS)
		return 0;
	if (listed->destination_port != read->destination_port && sequence->source == IBVCAP_DEVICE_SOURCE_FLOW)
		return 0;
	for (i = 0; i < 16; i++) {
		if (i < sequence->source_bytes && (listed->field[i] & sequence->source_mask[i]) != read->field[i])
			return 0;
		if (sequence->source != IBVCAP_DEVICE_SOURCE_NONE && listed->address[i] != read->address[i])
			return 0;
		if (sequence->source == IBVCAP_DEVICE_SOURCE_FLOW && listed->destination[i] != read->destination[i])
			return 0;
	}
	return 1;
}

/* Index of the source; n: it is not listed. Without a list, all are source 0. */
IBVCAP_DEVICE ibvcap_u32 ibvcap_device_find_source(const struct ibvcap_device_sequence *sequence,
                                                   const struct ibvcap_device_source *sources, ibvcap_u32 n,
                                                   const struct ibvcap_device_source *read)
{
	ibvcap_u32 i = 0;

	while (i < n && !ibvcap_device_is_source(sequence, &sources[i], read))
		i++;
	return i;
}

/* Mark the n numbers that begin so far ahead of the ring's first. The packet goes to the first that is new. */
IBVCAP_DEVICE ibvcap_u32 ibvcap_device_claim(const struct ibvcap_device_ring *ring, ibvcap_u32 source, ibvcap_u64 ahead,
                                             ibvcap_u32 n, ibvcap_u32 *row)
{
	ibvcap_u32 kind = IBVCAP_DEVICE_DUPLICATE, i;

	*row = (ibvcap_u32)((ring->at + ahead) % ring->numbers);
	for (i = 0; i < n && ahead + i < ring->numbers; i++) {
		const ibvcap_u32 at = (ibvcap_u32)((ring->at + ahead + i) % ring->numbers);
		const ibvcap_u8 was = ibvcap_device_mark(&ring->present[(ibvcap_u64)source * ring->numbers + at],
		                                         (ibvcap_u8)ring->bit);

		if (!was && kind != IBVCAP_DEVICE_FIRST) {
			kind = IBVCAP_DEVICE_FIRST;
			*row = at;
		} else if (!(was & ring->bit) && kind == IBVCAP_DEVICE_DUPLICATE) {
			kind = IBVCAP_DEVICE_SECOND;
		}
	}
	return kind;
}

/** Where a packet belongs, which is marked. */
IBVCAP_DEVICE struct ibvcap_device_placed ibvcap_device_index(const struct ibvcap_device_sequence *sequence,
                                                              const struct ibvcap_device_reading *reading,
                                                              ibvcap_u32 source, const struct ibvcap_device_ring *ring,
                                                              ibvcap_u64 *counts)
{
	struct ibvcap_device_placed placed = {IBVCAP_DEVICE_EMPTY, IBVCAP_DEVICE_NOWHERE, source,
	                                      IBVCAP_DEVICE_NOWHERE};
	const ibvcap_u64 cycle = ibvcap_device_cycle(sequence);
	const ibvcap_u64 behind = ibvcap_device_distance(cycle, reading->number, ring->first);
	/* Numbers of the packet that are before the ring. */
	const ibvcap_u32 n_late = behind < reading->n ? (ibvcap_u32)behind : 0, n = reading->n - n_late;
	const ibvcap_u64 ahead = n_late ? 0 : ibvcap_device_distance(cycle, ring->first, reading->number);

	if (source >= ring->sources) {
		placed.kind = IBVCAP_DEVICE_UNLISTED;
		placed.source = IBVCAP_DEVICE_NOWHERE;
	} else if (reading->n == 0) {
		placed.kind = IBVCAP_DEVICE_EMPTY;
	} else if (reading->n > ring->numbers) {
		placed.kind = IBVCAP_DEVICE_OUTSIDE;
	} else if (ahead < ring->numbers) {
		placed.kind = ibvcap_device_claim(ring, source, ahead, n, &placed.row);
		placed.array = 0;
	} else {
		placed.kind = behind <= ahead ? IBVCAP_DEVICE_LATE : IBVCAP_DEVICE_FAR;
	}
	if (placed.kind <= IBVCAP_DEVICE_DUPLICATE || (placed.kind == IBVCAP_DEVICE_FAR && ahead <= sequence->jump))
		ibvcap_device_raise(&counts[IBVCAP_DEVICE_COUNT_AHEAD], ahead + n);
	return placed;
}

/**
 * Say of each row where it belongs, by its number, and mark it in the ring. All pointers are the device's.
 *
 * sequence: the description of the stream (72 bytes), sound as the library checks it; of others, all rows are UNREAD.
 * sources: those that are listed, n_sources of them; 0: all packets are of source 0, whatever sent them. first: number
 * whose row is `at`, in steps, below the cycle; the ring has the numbers from it on. The caller moves both when it has
 * used the oldest rows, and has set their present to 0. side: from 0 to 7, as of a placer. counts: see
 * IBVCAP_DEVICE_COUNTS; added to.
 *
 * present: a byte for each of the sources * numbers rows. The device marks it by its word of 4 bytes, so allocate
 * (sources * numbers + 3) / 4 * 4 bytes at a multiple of 4: the kernel also reads and writes back, as they were, the
 * bytes between the last row's and the end of its word.
 *
 * A number that comes twice has one FIRST, whichever thread is first. A packet with several numbers is FIRST if one of
 * them is new, and has the row of that.
 */
IBVCAP_KERNEL void ibvcap_index_rows(const ibvcap_u8 *payload, const ibvcap_u8 *headers,
                                     const struct ibvcap_device_meta *meta, ibvcap_u32 n, ibvcap_u32 stride,
                                     ibvcap_u32 header_stride, ibvcap_u32 header_bytes,
                                     ibvcap_u32 application_header_bytes, const struct ibvcap_device_sequence *sequence,
                                     const struct ibvcap_device_source *sources, ibvcap_u32 n_sources, ibvcap_u64 first,
                                     ibvcap_u32 at, ibvcap_u32 numbers, ibvcap_u32 side, ibvcap_u8 *present,
                                     struct ibvcap_device_placed *placed, ibvcap_u64 *counts)
{
	const struct ibvcap_device_rows rows = {payload, headers,       meta,         n,
	                                        stride,  header_stride, header_bytes, application_header_bytes};
	const struct ibvcap_device_ring ring = {present,         first, at, numbers, n_sources ? n_sources : 1,
	                                        1u << (side & 7)};
	ibvcap_u64 i;

	for (i = ibvcap_device_thread(); i < n; i += ibvcap_device_threads()) {
		struct ibvcap_device_placed to = {IBVCAP_DEVICE_UNREAD, IBVCAP_DEVICE_NOWHERE, IBVCAP_DEVICE_NOWHERE,
		                                  IBVCAP_DEVICE_NOWHERE};
		struct ibvcap_device_reading reading;
		struct ibvcap_device_packet packet;

		if (ibvcap_device_packet_of_row(&rows, (ibvcap_u32)i, &packet) &&
		    ibvcap_device_read(sequence, &packet, &reading))
			to = ibvcap_device_index(
				sequence, &reading,
				ibvcap_device_find_source(sequence, sources, n_sources, &reading.source), &ring,
				counts);
		ibvcap_device_add(&counts[to.kind], 1);
		placed[i] = to;
	}
}

/* ---- samples ---------------------------------------------------------------------------------------- */

/** What ibvcap_copy_rows() makes of a payload. A complex sample is two: (int8, int8) becomes a complex64 by I8. */
#define IBVCAP_SAMPLES_BYTES  0u /* bytes as they are */
#define IBVCAP_SAMPLES_SWAP16 1u /* 2 bytes, swapped */
#define IBVCAP_SAMPLES_SWAP32 2u /* 4 bytes, swapped */
#define IBVCAP_SAMPLES_I8     3u /* int8 to float, and so on */
#define IBVCAP_SAMPLES_U8     4u
#define IBVCAP_SAMPLES_LE16   5u
#define IBVCAP_SAMPLES_BE16   6u
#define IBVCAP_SAMPLES_LEU16  7u
#define IBVCAP_SAMPLES_BEU16  8u
#define IBVCAP_SAMPLES_N      9u

/** Bytes of a sample in the packet; 0: no such format. */
IBVCAP_DEVICE ibvcap_u32 ibvcap_device_sample_bytes(ibvcap_u32 format)
{
	if (format == IBVCAP_SAMPLES_SWAP32)
		return 4;
	if (format == IBVCAP_SAMPLES_BYTES || format == IBVCAP_SAMPLES_I8 || format == IBVCAP_SAMPLES_U8)
		return 1;
	return format < IBVCAP_SAMPLES_N ? 2 : 0;
}

/** Bytes of a sample in the array. */
IBVCAP_DEVICE ibvcap_u32 ibvcap_device_made_bytes(ibvcap_u32 format)
{
	return format >= IBVCAP_SAMPLES_I8 ? (ibvcap_u32)sizeof(float) : ibvcap_device_sample_bytes(format);
}

/** The value of a sample, of a format that makes floats of them. */
IBVCAP_DEVICE float ibvcap_device_value(ibvcap_u32 format, const ibvcap_u8 *sample)
{
	switch (format) {
	case IBVCAP_SAMPLES_I8:
		return (float)(signed char)sample[0];
	case IBVCAP_SAMPLES_U8:
		return (float)sample[0];
	case IBVCAP_SAMPLES_LE16:
		return (float)(short)(sample[1] << 8 | sample[0]);
	case IBVCAP_SAMPLES_BE16:
		return (float)(short)(sample[0] << 8 | sample[1]);
	case IBVCAP_SAMPLES_LEU16:
		return (float)(sample[1] << 8 | sample[0]);
	default:
		return (float)(sample[0] << 8 | sample[1]);
	}
}

/* Sample i of a row, out of its bytes. */
IBVCAP_DEVICE void ibvcap_device_store(ibvcap_u8 *row, ibvcap_u32 i, ibvcap_u32 format, const ibvcap_u8 *sample)
{
	switch (format) {
	case IBVCAP_SAMPLES_BYTES:
		row[i] = sample[0];
		break;
	case IBVCAP_SAMPLES_SWAP16:
		row[2 * i] = sample[1];
		row[2 * i + 1] = sample[0];
		break;
	case IBVCAP_SAMPLES_SWAP32:
		row[4 * i] = sample[3];
		row[4 * i + 1] = sample[2];
		row[4 * i + 2] = sample[1];
		row[4 * i + 3] = sample[0];
		break;
	default:
		((float *)row)[i] = ibvcap_device_value(format, sample);
	}
}

/* What stands for a sample that did not come: the float, or the byte of that value. */
IBVCAP_DEVICE void ibvcap_device_fill(ibvcap_u8 *row, ibvcap_u32 i, ibvcap_u32 format, float fill)
{
	const ibvcap_u32 bytes = ibvcap_device_sample_bytes(format);
	ibvcap_u32 k;

	if (format >= IBVCAP_SAMPLES_I8) {
		((float *)row)[i] = fill;
		return;
	}
	for (k = 0; k < bytes; k++)
		row[bytes * i + k] = fill >= 0 && fill <= 255 ? (ibvcap_u8)fill : 0;
}

#define IBVCAP_DEVICE_CHUNK 16u

/* 16 bytes of a packet, for one load over the bus. */
union ibvcap_device_chunk {
#ifdef __CUDACC__
	uint4 word;
#endif
	ibvcap_u32 words[4];
	ibvcap_u8 bytes[16];
};

/* From an address that is a multiple of 16. */
IBVCAP_DEVICE void ibvcap_device_load(union ibvcap_device_chunk *chunk, const ibvcap_u8 *from)
{
#ifdef __CUDA_ARCH__
	chunk->word = *(const uint4 *)from;
#else
	ibvcap_u32 i;

	for (i = 0; i < IBVCAP_DEVICE_CHUNK; i++)
		chunk->bytes[i] = from[i];
#endif
}

/* 16 bytes as they are, by stores as wide as the address allows. */
IBVCAP_DEVICE void ibvcap_device_store_bytes(ibvcap_u8 *to, const union ibvcap_device_chunk *chunk)
{
	ibvcap_u32 i;

#ifdef __CUDA_ARCH__
	if (((ibvcap_u64)to & 15) == 0) {
		*(uint4 *)to = chunk->word;
		return;
	}
	if (((ibvcap_u64)to & 3) == 0) {
		for (i = 0; i < 4; i++)
			((ibvcap_u32 *)to)[i] = chunk->words[i];
		return;
	}
#endif
	for (i = 0; i < IBVCAP_DEVICE_CHUNK; i++)
		to[i] = chunk->bytes[i];
}

/* ---- copies ------------------------------------------------------------------------------------------ */

/* The bytes of a payload that are copied: it begins in the header row, or has no byte there. */
struct ibvcap_device_pieces {
	const ibvcap_u8 *headers;
	const ibvcap_u8 *row;
	ibvcap_u32 header_bytes;
	ibvcap_u32 bytes; /* of both */
};

IBVCAP_DEVICE struct ibvcap_device_pieces ibvcap_device_find_pieces(const struct ibvcap_device_packet *packet,
                                                                    ibvcap_u32 skip_bytes)
{
	const ibvcap_u64 from = (ibvcap_u64)packet->payload_at + skip_bytes;
	const ibvcap_u32 in_headers = from < packet->header_bytes ? (ibvcap_u32)from : packet->header_bytes;
	const ibvcap_u64 rest = from - in_headers;
	const ibvcap_u32 in_row = rest < packet->row_bytes ? (ibvcap_u32)rest : packet->row_bytes;
	struct ibvcap_device_pieces pieces;

	pieces.headers = packet->headers + in_headers;
	pieces.row = packet->row + in_row;
	pieces.header_bytes = packet->header_bytes - in_headers;
	pieces.bytes = pieces.header_bytes + packet->row_bytes - in_row;
	return pieces;
}

/* Sample i, wherever its bytes lie. */
IBVCAP_DEVICE void ibvcap_device_copy_sample(const struct ibvcap_device_pieces *pieces, ibvcap_u8 *to, ibvcap_u32 i,
                                             ibvcap_u32 format)
{
	const ibvcap_u32 bytes = ibvcap_device_sample_bytes(format);
	ibvcap_u8 sample[4] = {0, 0, 0, 0};
	ibvcap_u32 k;

	for (k = 0; k < bytes; k++) {
		const ibvcap_u32 at = bytes * i + k;

		sample[k] = at < pieces->header_bytes ? pieces->headers[at] : pieces->row[at - pieces->header_bytes];
	}
	ibvcap_device_store(to, i, format, sample);
}

/* The samples of 16 bytes, from sample i on. */
IBVCAP_DEVICE void ibvcap_device_copy_chunk(const ibvcap_u8 *from, ibvcap_u8 *to, ibvcap_u32 i, ibvcap_u32 format)
{
	const ibvcap_u32 bytes = ibvcap_device_sample_bytes(format);
	union ibvcap_device_chunk chunk;
	ibvcap_u32 k;

	ibvcap_device_load(&chunk, from);
	if (format == IBVCAP_SAMPLES_BYTES) {
		ibvcap_device_store_bytes(to + i, &chunk);
		return;
	}
	for (k = 0; k < IBVCAP_DEVICE_CHUNK / bytes; k++)
		ibvcap_device_store(to, i + k, format, &chunk.bytes[bytes * k]);
}

/*
 * What one of some lanes does of a row of n_row samples: of the packet's n_present samples, those between two chunks'
 * boundaries by loads of 16 bytes, the others one by one. The rest of the row is filled.
 */
IBVCAP_DEVICE void ibvcap_device_copy_lane(const struct ibvcap_device_pieces *pieces, ibvcap_u8 *to, ibvcap_u32 n_row,
                                           ibvcap_u32 format, float fill, ibvcap_u32 lane, ibvcap_u32 lanes)
{
	const ibvcap_u32 bytes = ibvcap_device_sample_bytes(format);
	const ibvcap_u32 n_present = pieces->bytes / bytes < n_row ? pieces->bytes / bytes : n_row;
	const ibvcap_u32 to_boundary = (ibvcap_u32)(0 - (ibvcap_u64)pieces->row) & (IBVCAP_DEVICE_CHUNK - 1);
	ibvcap_u32 head = pieces->header_bytes + to_boundary, n_chunks = 0, tail, i;

	if (head % bytes == 0 && head < n_present * bytes)
		n_chunks = (n_present * bytes - head) / IBVCAP_DEVICE_CHUNK;
	head = n_chunks ? head / bytes : 0; /* in samples from here on */
	tail = head + n_chunks * (IBVCAP_DEVICE_CHUNK / bytes);
	for (i = lane; i < n_chunks; i += lanes)
		ibvcap_device_copy_chunk(pieces->row + to_boundary + i * IBVCAP_DEVICE_CHUNK, to,
		                         head + i * (IBVCAP_DEVICE_CHUNK / bytes), format);
	for (i = lane; i < head; i += lanes)
		ibvcap_device_copy_sample(pieces, to, i, format);
	for (i = tail + lane; i < n_present; i += lanes)
		ibvcap_device_copy_sample(pieces, to, i, format);
	for (i = n_present + lane; i < n_row; i += lanes)
		ibvcap_device_fill(to, i, format, fill);
}

/* The threads are dealt out in groups of lanes. */
IBVCAP_DEVICE ibvcap_u32 ibvcap_device_lanes(void)
{
	return ibvcap_device_threads() < 32 ? (ibvcap_u32)ibvcap_device_threads() : 32;
}

/**
 * Copy the rows whose kind is FIRST into a dense array: to [arrays][sources][numbers][samples of row_bytes]. Pointers
 * are the device's. Rows of other kinds, and those whose record is beyond the array, are not copied.
 *
 * row_bytes: of a payload, behind skip_bytes, that a row of the array has room for, a multiple of the sample's bytes;
 * longer payloads are cut. format: IBVCAP_SAMPLES_*; a row of the array has row_bytes * 4 / (bytes of a sample) bytes
 * if it makes floats, else row_bytes. `to` is a multiple of 4; of 16 is faster. fill: the rest of a row whose payload
 * is shorter: a float, or a byte of that value. lengths, if not NULL, gets the bytes of the payload in the row, as
 * struct ibvcap_place_array has them: [arrays][sources][numbers].
 */
IBVCAP_KERNEL void ibvcap_copy_rows(const ibvcap_u8 *payload, const ibvcap_u8 *headers,
                                    const struct ibvcap_device_meta *meta, ibvcap_u32 n, ibvcap_u32 stride,
                                    ibvcap_u32 header_stride, ibvcap_u32 header_bytes,
                                    ibvcap_u32 application_header_bytes, const struct ibvcap_device_placed *placed,
                                    ibvcap_u8 *to, ibvcap_u16 *lengths, ibvcap_u32 arrays, ibvcap_u32 sources,
                                    ibvcap_u32 numbers, ibvcap_u32 row_bytes, ibvcap_u32 skip_bytes, ibvcap_u32 format,
                                    float fill)
{
	const struct ibvcap_device_rows rows = {payload, headers,       meta,         n,
	                                        stride,  header_stride, header_bytes, application_header_bytes};
	const ibvcap_u32 bytes = ibvcap_device_sample_bytes(format), lanes = ibvcap_device_lanes();
	const ibvcap_u64 groups = ibvcap_device_threads() / lanes, thread = ibvcap_device_thread();
	const ibvcap_u32 n_row = bytes ? row_bytes / bytes : 0;
	ibvcap_u64 i;

	if (!bytes || thread >= groups * lanes)
		return;
	for (i = thread / lanes; i < n; i += groups) {
		const struct ibvcap_device_placed *where = &placed[i];
		struct ibvcap_device_packet packet;
		struct ibvcap_device_pieces pieces;
		ibvcap_u64 at;

		if (where->kind != IBVCAP_DEVICE_FIRST || where->array >= arrays || where->source >= sources ||
		    where->row >= numbers || !ibvcap_device_packet_of_row(&rows, (ibvcap_u32)i, &packet))
			continue;
		at = ((ibvcap_u64)where->array * sources + where->source) * numbers + where->row;
		pieces = ibvcap_device_find_pieces(&packet, skip_bytes);
		ibvcap_device_copy_lane(&pieces, to + at * n_row * ibvcap_device_made_bytes(format), n_row, format,
		                        fill, (ibvcap_u32)(thread % lanes), lanes);
		if (lengths && thread % lanes == 0)
			lengths[at] = (ibvcap_u16)(pieces.bytes < row_bytes ? pieces.bytes : row_bytes);
	}
}

/**
 * Fill the rows of the numbers that are missing: those whose byte of present is 0. n: of present, and rows of `to`;
 * row_bytes, format and fill as of ibvcap_copy_rows(). lengths, if not NULL, become 0.
 */
IBVCAP_KERNEL void ibvcap_fill_missing(const ibvcap_u8 *present, ibvcap_u8 *to, ibvcap_u16 *lengths, ibvcap_u64 n,
                                       ibvcap_u32 row_bytes, ibvcap_u32 format, float fill)
{
	const ibvcap_u32 bytes = ibvcap_device_sample_bytes(format), lanes = ibvcap_device_lanes();
	const ibvcap_u64 groups = ibvcap_device_threads() / lanes, thread = ibvcap_device_thread();
	const ibvcap_u32 n_row = bytes ? row_bytes / bytes : 0;
	ibvcap_u64 i;
	ibvcap_u32 k;

	if (!bytes || thread >= groups * lanes)
		return;
	for (i = thread / lanes; i < n; i += groups) {
		if (present[i])
			continue;
		for (k = (ibvcap_u32)(thread % lanes); k < n_row; k += lanes)
			ibvcap_device_fill(to + i * n_row * ibvcap_device_made_bytes(format), k, format, fill);
		if (lengths && thread % lanes == 0)
			lengths[i] = 0;
	}
}

#endif
