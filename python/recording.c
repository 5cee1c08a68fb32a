// SPDX-License-Identifier: Apache-2.0
/* A recording or another capture file: its UDP payloads as batches, in memory of their own. */
#include "python/binding.h"

#include "lib/recording/capture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/ethernet.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define ROWS_MAX        1024
#define BATCH_BYTES_MAX (16u << 20)
#define ROW_ALIGNMENT   64 /* so a longer packet seldom ends a batch */

/* A packet of the file that is not in a batch yet. */
struct pending {
	bool is_set;
	struct datagram datagram; /* until the next is read */
	struct ibvcap_meta meta;
	const uint8_t *headers;
	uint64_t n_lost; /* packets that the file names as missing before it */
};

struct py_recording {
	PyObject base;
	PyObject *path; /* bytes, which the capture keeps a pointer to */
	struct capture capture;
	bool is_open;
	bool is_busy; /* a thread reads, without the interpreter's lock */
	int end;      /* what capture_next() has said of the end: 0, -EBADMSG; 1: not yet */
	uint32_t port;
	uint32_t stride;
	struct pending pending;
	uint8_t headers[UINT8_MAX]; /* headers of the pending packet, if its capture has no Ethernet headers */
	uint64_t n_lost;            /* of capture.n_lost: those before the packets that were read */
	uint64_t n_packets;
	uint64_t n_other_port;
	uint64_t n_left_out[DATAGRAM_VERDICT_N];
};

static struct py_recording *recording_of(PyObject *object)
{
	return (struct py_recording *)object;
}

/* ---- life ---------------------------------------------------------------------------------------- */

static PyObject *recording_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"path", "port", NULL};
	struct py_recording *recording;
	uint32_t port = 0;
	PyObject *path;
	int r;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O&|O&:Recording", names, PyUnicode_FSConverter, &path,
	                                 u32_of, &port))
		return NULL;
	if (port > UINT16_MAX) {
		PyErr_Format(PyExc_ValueError, "port %u: accepted is 0 to 65535, and 0 is any", port);
		Py_DECREF(path);
		return NULL;
	}
	recording = object_new(type);
	if (!recording) {
		Py_DECREF(path);
		return NULL;
	}
	recording->path = path;
	recording->port = port;
	recording->end = 1;
	Py_BEGIN_ALLOW_THREADS
	r = capture_open(&recording->capture, PyBytes_AsString(path),
	                 "python3 PROGRAM, which takes open_recording('-')");
	Py_END_ALLOW_THREADS
	if (r != 0) {
		r = r == EX_NOINPUT && access(PyBytes_AsString(path), R_OK) < 0 ? -errno : -EIO;
		raise_of_file(r, recording->capture.error);
		Py_DECREF(&recording->base);
		return NULL;
	}
	recording->is_open = true;
	return &recording->base;
}

static void recording_close_file(struct py_recording *recording)
{
	if (recording->is_open)
		capture_close(&recording->capture);
	recording->is_open = false;
}

static void recording_dealloc(PyObject *object)
{
	recording_close_file(recording_of(object));
	Py_XDECREF(recording_of(object)->path);
	object_free(object);
}

/* ---- packets ------------------------------------------------------------------------------------- */

static bool is_wanted_datagram(struct py_recording *recording, enum datagram_verdict verdict,
                               const struct datagram *datagram)
{
	if (!datagram->payload || verdict == DATAGRAM_FRAGMENT) {
		recording->n_left_out[verdict]++;
		return false;
	}
	if (recording->port && recording->port != datagram->destination_port) {
		recording->n_other_port++;
		return false;
	}
	return true;
}

/*
 * The headers, which begin with those of Ethernet, as in a batch of a stream: a capture of another link gets zeros, and
 * the type. NULL: they are longer than a packet's meta can say, as in IPv6 with many headers.
 */
static const uint8_t *find_headers(struct py_recording *recording, const struct capture_packet *packet,
                                   const struct datagram *datagram, size_t *bytes)
{
	const uint8_t *ip = packet->frame + datagram->ip_at;
	const bool is_whole = packet->link == DATAGRAM_LINK_ETHERNET || packet->link == DATAGRAM_LINK_PAYLOAD;
	uint16_t type;

	*bytes = is_whole ? (size_t)(datagram->payload - packet->frame)
	                  : ETHER_HDR_LEN + (size_t)(datagram->payload - ip);
	if (*bytes > UINT8_MAX)
		return NULL;
	if (is_whole)
		return packet->frame;
	type = htons(*ip >> 4 == 6 ? ETHERTYPE_IPV6 : ETHERTYPE_IP);
	memcpy(recording->headers + ETHER_HDR_LEN - sizeof(type), &type, sizeof(type));
	memcpy(recording->headers + ETHER_HDR_LEN, ip, *bytes - ETHER_HDR_LEN);
	return recording->headers;
}

static void set_pending(struct pending *pending, const struct capture_packet *packet, const struct datagram *datagram,
                        const uint8_t *headers, size_t header_bytes)
{
	pending->is_set = true;
	pending->datagram = *datagram;
	pending->headers = headers;
	pending->meta = (struct ibvcap_meta){
		.timestamp_ns = packet->time_ns,
		.length = (uint16_t)datagram->bytes,
		.wire_length = (uint16_t)datagram->whole_bytes,
		.header_length = (uint8_t)header_bytes,
		.flags = datagram->bytes < datagram->whole_bytes ? IBVCAP_PACKET_FLAG_TRUNCATED : 0,
	};
}

/* Read until a packet is pending. Without the interpreter's lock. */
static void read_pending(struct py_recording *recording)
{
	struct capture *capture = &recording->capture;
	struct capture_packet packet;

	while (!recording->pending.is_set && recording->end > 0) {
		struct datagram datagram = {0};
		enum datagram_verdict verdict;
		const uint8_t *headers = NULL;
		size_t header_bytes;

		recording->end = capture_next(capture, &packet);
		if (recording->end <= 0)
			return;
		recording->pending.n_lost += capture->n_lost - recording->n_lost;
		recording->n_lost = capture->n_lost;
		verdict = datagram_find(packet.link, packet.frame, packet.captured, packet.wire_bytes, &datagram);
		if (datagram.payload)
			headers = find_headers(recording, &packet, &datagram, &header_bytes);
		if (!headers)
			datagram.payload = NULL;
		if (is_wanted_datagram(recording, verdict, &datagram))
			set_pending(&recording->pending, &packet, &datagram, headers, header_bytes);
	}
}

/* One allocation, which begins with the payload rows. False: no memory. */
static bool begin_rows(struct py_recording *recording, struct ibvcap_rx_batch *rows, uint32_t max)
{
	const struct pending *pending = &recording->pending;
	uint8_t *memory;

	if (pending->datagram.bytes > recording->stride || recording->stride == 0)
		recording->stride = pending->datagram.bytes ? (pending->datagram.bytes + ROW_ALIGNMENT - 1) /
		                                                      ROW_ALIGNMENT * ROW_ALIGNMENT
		                                            : ROW_ALIGNMENT;
	max = max < ROWS_MAX ? max : ROWS_MAX;
	max = max < BATCH_BYTES_MAX / recording->stride ? max : BATCH_BYTES_MAX / recording->stride;
	memory = calloc(max, recording->stride + pending->meta.header_length + sizeof(*rows->meta));
	*rows = (struct ibvcap_rx_batch){
		.size = sizeof(*rows),
		.payload = memory,
		.meta = (const struct ibvcap_meta *)(memory + (size_t)max * recording->stride),
		.headers = memory + (size_t)max * (recording->stride + sizeof(*rows->meta)),
		.sequence = recording->n_packets,
		.stride = recording->stride,
		.header_bytes = pending->meta.header_length,
		.header_stride = pending->meta.header_length,
		.lease = max,
	};
	return memory != NULL;
}

/* All rows of a batch have headers of one length, and the file names no loss between them. */
static bool fits(const struct pending *pending, const struct ibvcap_rx_batch *rows)
{
	return rows->n < rows->lease && pending->meta.header_length == rows->header_bytes &&
	       pending->datagram.bytes <= rows->stride && pending->n_lost == 0;
}

static void add_row(struct py_recording *recording, struct ibvcap_rx_batch *rows)
{
	struct pending *pending = &recording->pending;
	uint8_t *payload = (uint8_t *)rows->payload + (size_t)rows->n * rows->stride;
	uint8_t *headers = (uint8_t *)rows->headers + (size_t)rows->n * rows->header_stride;

	if (pending->datagram.bytes < rows->stride)
		pending->meta.flags |= IBVCAP_PACKET_FLAG_SHORT;
	memcpy(payload, pending->datagram.payload, pending->datagram.bytes);
	memcpy(headers, pending->headers, rows->header_bytes);
	((struct ibvcap_meta *)rows->meta)[rows->n++] = pending->meta;
	recording->n_packets++;
	*pending = (struct pending){0};
}

/* Without the interpreter's lock. False: no memory. *rows has no row at the end of the file. */
static bool read_rows(struct py_recording *recording, uint32_t max, struct ibvcap_rx_batch *rows, uint64_t *n_lost)
{
	*rows = (struct ibvcap_rx_batch){0};
	read_pending(recording);
	if (!recording->pending.is_set)
		return true;
	if (!begin_rows(recording, rows, max))
		return false;
	*n_lost = recording->pending.n_lost;
	recording->pending.n_lost = 0;
	while (recording->pending.is_set && fits(&recording->pending, rows)) {
		add_row(recording, rows);
		read_pending(recording);
	}
	return true;
}

static bool recording_begin(const struct py_recording *recording)
{
	if (recording->is_busy)
		PyErr_SetString(PyExc_RuntimeError, "another thread reads this recording");
	return !recording->is_busy;
}

/* A new reference; None: the end of the file. */
static PyObject *recording_take(PyObject *object, PyObject *argument)
{
	struct py_recording *recording = recording_of(object);
	struct ibvcap_rx_batch rows;
	uint64_t n_lost = 0;
	uint32_t max;
	bool is_read;

	if (!u32_of(argument, &max) || !recording_begin(recording))
		return NULL;
	if (!recording->is_open) {
		PyErr_SetString(PyExc_ValueError, "the recording is closed");
		return NULL;
	}
	recording->is_busy = true;
	Py_BEGIN_ALLOW_THREADS
	is_read = read_rows(recording, max, &rows, &n_lost);
	Py_END_ALLOW_THREADS
	recording->is_busy = false;
	if (!is_read)
		return PyErr_NoMemory();
	if (rows.n)
		return (PyObject *)batch_new_of_memory(&rows, n_lost);
	return recording->end < 0 ? raise_of_file(-EBADMSG, recording->capture.error) : Py_NewRef(Py_None);
}

/* ---- what is known ------------------------------------------------------------------------------- */

static PyObject *recording_counts(PyObject *object, void *closure)
{
	const struct py_recording *recording = recording_of(object);
	const struct joiner_counts joined = joiner_counts(&recording->capture.joiner);
	const uint64_t *n = recording->n_left_out;

	return Py_BuildValue(
		"{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "packets", (unsigned long long)recording->n_packets,
		"other_port", (unsigned long long)recording->n_other_port, "not_udp",
		(unsigned long long)n[DATAGRAM_NOT_UDP], "fragments",
		(unsigned long long)(n[DATAGRAM_FRAGMENT] + joined.incomplete + joined.refused), "joined",
		(unsigned long long)joined.joined, "cut", (unsigned long long)n[DATAGRAM_CUT], "malformed",
		(unsigned long long)n[DATAGRAM_MALFORMED], "unknown_link", (unsigned long long)n[DATAGRAM_UNKNOWN_LINK],
		"lost", (unsigned long long)capture_lost(&recording->capture));
}

static PyObject *recording_close_now(PyObject *object, PyObject *unused)
{
	if (!recording_begin(recording_of(object)))
		return NULL;
	recording_close_file(recording_of(object));
	Py_RETURN_NONE;
}

PyObject *recording_sequence_to_bytes(PyObject *object)
{
	static const struct ibvcap_sequence none;
	struct py_recording *recording = recording_of(object);

	if (!recording_begin(recording))
		return NULL;
	if (recording->is_open) {
		recording->is_busy = true;
		Py_BEGIN_ALLOW_THREADS
		read_pending(recording);
		Py_END_ALLOW_THREADS
		recording->is_busy = false;
	}
	switch (recording->capture.numbers) {
	case CAPTURE_NUMBERS_DIFFER:
		return raise_error_text(-ENODATA,
		                        "%s: its streams have their numbers at different places: give a dict "
		                        "with the keys of 'sequence' in ibvcapd.conf(5), and the port",
		                        PyBytes_AsString(recording->path));
	case CAPTURE_NUMBERS_IN_FRAMES:
		return raise_error_text(-ENODATA,
		                        "%s: it says where whole frames have their number, not payloads: "
		                        "give a dict with the keys of 'sequence' in ibvcapd.conf(5)",
		                        PyBytes_AsString(recording->path));
	default:
		return PyBytes_FromStringAndSize((const char *)(recording->capture.numbers == CAPTURE_NUMBERS_KNOWN
		                                                        ? &recording->capture.sequence
		                                                        : &none),
		                                 sizeof(none));
	}
}

static PyMethodDef recording_methods[] = {
	{"_take", recording_take, METH_O, NULL},
	{"close", recording_close_now, METH_NOARGS, "close($self)\n--\n\nClose the file. Batches stay valid."},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef recording_getters[] = {
	{"counts", recording_counts, NULL,
         "Packets so far, as a dict. packets: in batches, of them joined: of fragments; lost: missing, as the file "
         "says; the rest was left out: "
         "to another\nport, not UDP, fragments of datagrams, cut off within the headers, malformed, or of a\nlink type "
         "that is not known.",
         NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot recording_slots[] = {
	{Py_tp_doc, "_Recording(path, port=0)\n--\n\n"},
	{Py_tp_new, recording_new},
	{Py_tp_dealloc, recording_dealloc},
	{Py_tp_methods, recording_methods},
	{Py_tp_getset, recording_getters},
	{0, NULL},
};

PyType_Spec recording_spec = TYPE_SPEC("_Recording", struct py_recording, Py_TPFLAGS_BASETYPE, recording_slots);
