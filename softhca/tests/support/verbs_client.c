// SPDX-License-Identifier: Apache-2.0
/*
 * A plain verbs program: receives UDP through a raw packet queue pair and says what it saw, one
 * JSON object at the end. It knows nothing of softhca.
 */
#include "verbs_common.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

struct options {
	struct queue_config queue;
	const char *dst, *group_netdev, *dump;
	uint16_t port;
	uint64_t count, accounted;
	unsigned int idle_ms, post;
	bool event, repost, join;
};

struct result {
	uint64_t received, bytes, errors, len_errors, csum_ok, backwards;
	uint64_t first_ts, last_ts, events, first_ns, last_ns;
	unsigned int last_byte_len, last_cvlan;
};

static void take(struct queue *q, struct result *r, FILE *dump)
{
	uint64_t ts = ibv_wc_read_completion_ts(q->cq);
	unsigned int slot = (unsigned int)q->cq->wr_id;

	if (q->cq->status) {
		r->errors++;
		r->len_errors += q->cq->status == IBV_WC_LOC_LEN_ERR;
		return;
	}
	r->last_ns = now_ns();
	if (!r->received++)
		r->first_ns = r->last_ns, r->first_ts = ts;
	r->last_byte_len = ibv_wc_read_byte_len(q->cq);
	r->last_cvlan = ibv_wc_read_cvlan(q->cq);
	r->bytes += r->last_byte_len;
	r->csum_ok += !!(ibv_wc_read_wc_flags(q->cq) & IBV_WC_IP_CSUM_OK);
	r->backwards += ts < r->last_ts;
	r->last_ts = ts;
	if (dump) {
		uint32_t n = r->last_byte_len, in_header = 0;

		fwrite(&n, 4, 1, dump);
		if (q->config.n_sge == 2) {
			in_header = n < HEADER_BYTES ? n : HEADER_BYTES;
			fwrite(q->headers + (size_t)slot * HEADER_STRIDE, 1, in_header, dump);
		}
		n -= in_header;
		if (n > q->config.payload_bytes)
			n = q->config.payload_bytes;
		fwrite(q->payloads + (size_t)slot * q->config.payload_bytes, 1, n, dump);
	}
}

static unsigned int poll_burst(struct queue *q, struct result *r, FILE *dump)
{
	struct ibv_poll_cq_attr attr = {};
	unsigned int n = 0;

	if (ibv_start_poll(q->cq, &attr))
		return 0;
	do {
		take(q, r, dump);
		n++;
	} while (n < 64 && !ibv_next_poll(q->cq));
	ibv_end_poll(q->cq);
	return n;
}

/* Arm, poll once more (the caller), sleep; returns false when nothing came. */
static bool sleep_on_channel(struct queue *q, struct result *r, unsigned int ms)
{
	struct pollfd p = {.fd = q->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *ctx;

	if (poll(&p, 1, (int)ms) <= 0)
		return false;
	if (ibv_get_cq_event(q->channel, &cq, &ctx))
		die("ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	r->events++;
	return true;
}

static int join(const struct options *o)
{
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	struct ip_mreqn m = {.imr_ifindex = (int)if_nametoindex(o->group_netdev)};

	inet_pton(AF_INET, o->dst, &m.imr_multiaddr);
	if (setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof(m)))
		die("IP_ADD_MEMBERSHIP");
	return s;
}

/* The first word of a file of the port. */
static void read_port_file(struct queue *q, const char *name, char *text, size_t size)
{
	char path[160];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/%s", ibv_get_device_name(q->ctx->device), name);
	fd = open(path, O_RDONLY);
	n = fd < 0 ? -1 : read(fd, text, size - 1);
	if (n <= 0)
		die("%s", path);
	text[n - 1] = 0;
	close(fd);
}

static uint64_t out_of_buffer_before, discards_before;

static uint64_t out_of_buffer(struct queue *q)
{
	char text[32];

	read_port_file(q, "hw_counters/out_of_buffer", text, sizeof(text));
	return (uint32_t)(strtoull(text, NULL, 10) - out_of_buffer_before);
}

static void ethtool(int s, const char *netdev, void *data)
{
	struct ifreq ifr = {};

	memcpy(ifr.ifr_name, netdev, strnlen(netdev, IFNAMSIZ - 1));
	ifr.ifr_data = data;
	if (ioctl(s, SIOCETHTOOL, &ifr))
		die("SIOCETHTOOL");
}

/* What the port lost before steering: mlx5's rx_discards_phy. */
static uint64_t discards(struct queue *q)
{
	union {
		struct ethtool_sset_info info;
		uint32_t words[sizeof(struct ethtool_sset_info) / sizeof(uint32_t) + 1]; /* the last is the answer */
	} set = {.info = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1 << ETH_SS_STATS}};
	struct ethtool_gstrings *names;
	struct ethtool_stats *values;
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	uint64_t found = UINT64_MAX;
	uint32_t n;
	char netdev[32];

	read_port_file(q, "gid_attrs/ndevs/0", netdev, sizeof(netdev));
	ethtool(s, netdev, &set);
	n = set.words[sizeof(set.info) / sizeof(uint32_t)];
	names = calloc(1, sizeof(*names) + (size_t)n * ETH_GSTRING_LEN);
	values = calloc(1, sizeof(*values) + n * sizeof(uint64_t));
	*names = (struct ethtool_gstrings){ETHTOOL_GSTRINGS, ETH_SS_STATS, n};
	*values = (struct ethtool_stats){ETHTOOL_GSTATS, n};
	ethtool(s, netdev, names);
	ethtool(s, netdev, values);
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp((char *)names->data + i * ETH_GSTRING_LEN, "rx_discards_phy"))
			found = values->data[i];
	free(names);
	free(values);
	close(s);
	return found - discards_before;
}

/* Have all frames that the test sent come to the queue, or are they discards? Not to be asked often, since this takes
 * the device's lock. */
static bool all_accounted(struct queue *q, const struct options *o)
{
	if (!o->accounted)
		return false;
	usleep(1000);
	return queue_matched(q) + discards(q) >= o->accounted;
}

static void receive(struct queue *q, const struct options *o, struct result *r)
{
	FILE *dump = o->dump ? fopen(o->dump, "w") : NULL;
	unsigned int next = o->post;
	uint64_t idle_since = now_ns();
	bool armed = false, last = false;

	while (r->received + r->errors < o->count) {
		unsigned int n = poll_burst(q, r, dump);

		if (n) {
			idle_since = now_ns();
			if (o->repost && queue_post(q, next, n))
				die("ibv_post_recv");
			next += n;
			continue;
		}
		if (last || now_ns() - idle_since > o->idle_ms * 1000000ull)
			break;
		/* What it counted is in the completion queue by now. */
		last = all_accounted(q, o);
		if (last)
			continue;
		if (!o->event)
			continue;
		if (!armed) {
			if (ibv_req_notify_cq(ibv_cq_ex_to_cq(q->cq), 0))
				die("ibv_req_notify_cq");
			armed = true;
			continue;
		}
		if (sleep_on_channel(q, r, o->idle_ms))
			armed = false;
	}
	if (dump)
		fclose(dump);
}

static void parse(struct options *o, int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "d:a:p:c:m:i:n:s:S:g:w:P:t:C:envrN")) != -1) {
		switch (c) {
		case 'd':
			o->queue.device = optarg;
			break;
		case 'a':
			o->dst = optarg;
			break;
		case 'p':
			o->port = (uint16_t)atoi(optarg);
			break;
		case 'c':
			o->count = strtoull(optarg, NULL, 10);
			break;
		case 'm':
			o->accounted = strtoull(optarg, NULL, 10);
			break;
		case 'i':
			o->idle_ms = (unsigned int)atoi(optarg);
			break;
		case 'n':
			o->queue.depth = (unsigned int)atoi(optarg);
			break;
		case 's':
			o->queue.payload_bytes = (unsigned int)atoi(optarg);
			break;
		case 'S':
			o->queue.n_sge = (unsigned int)atoi(optarg);
			break;
		case 'C':
			o->queue.cqe = (unsigned int)atoi(optarg);
			break;
		case 'g':
			o->group_netdev = optarg;
			break;
		case 'w':
			o->dump = optarg;
			break;
		case 'P':
			o->post = (unsigned int)atoi(optarg);
			break;
		case 'e':
			o->event = o->queue.use_channel = true;
			break;
		case 'N':
			o->queue.null_sink = true;
			break;
		case 'v':
			o->queue.strip_vlan = true;
			break;
		case 'r':
			o->repost = false;
			break;
		default:
			die("usage: see the source");
		}
	}
	if (!o->post)
		o->post = o->queue.depth;
}

int main(int argc, char **argv)
{
	struct options o = {.queue = {.depth = 512, .n_sge = 2, .payload_bytes = 9000},
	                    .port = 4000,
	                    .count = UINT64_MAX,
	                    .idle_ms = 1000,
	                    .repost = true};
	struct result r = {};
	struct queue q;
	int err;

	parse(&o, argc, argv);
	queue_open(&q, &o.queue);
	/* The counters are the device's and count for ever. */
	out_of_buffer_before = out_of_buffer(&q);
	discards_before = discards(&q);
	if (queue_post(&q, 0, o.post))
		die("ibv_post_recv");
	err = queue_add_udp_flow(&q, o.dst, o.port, true);
	errno = err;
	if (err)
		die("ibv_create_flow");
	if (o.group_netdev)
		join(&o);
	puts("ready");
	fflush(stdout);
	receive(&q, &o, &r);
	printf("{\"received\": %lu, \"bytes\": %lu, \"errors\": %lu, \"len_errors\": %lu, "
	       "\"csum_ok\": %lu, \"backwards\": %lu, \"events\": %lu, \"matched\": %lu, "
	       "\"out_of_buffer\": %lu, \"last_byte_len\": %u, \"last_cvlan\": %u, "
	       "\"discards\": %lu, \"ticks\": %lu, \"ns\": %lu}\n",
	       r.received, r.bytes, r.errors, r.len_errors, r.csum_ok, r.backwards, r.events, queue_matched(&q),
	       out_of_buffer(&q), r.last_byte_len, r.last_cvlan, discards(&q), r.last_ts - r.first_ts,
	       r.last_ns - r.first_ns);
	queue_close(&q);
	return 0;
}
