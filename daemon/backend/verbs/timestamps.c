// SPDX-License-Identifier: Apache-2.0
/*
 * Finds out which timestamps a device puts into completions, and reads their clock. Most devices give ticks of a
 * free-running clock. A card with REAL_TIME_CLOCK_ENABLE may have real time only, seconds << 32 | nanoseconds. Then
 * mlx5_ib refuses a queue whose completion queue asks for ticks (EOPNOTSUPP, get_ts_format), so the backend tries one.
 * Real time is that of the card's precision clock (/dev/ptp*), which need not be set.
 */
#include "daemon/backend/verbs/verbs.h"

#include "daemon/base/log.h"
#include "daemon/net/net.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The errno of creating a queue whose completions have these fields. */
static int try_queue(const struct verbs_backend *backend, uint64_t wc_flags)
{
	struct ibv_cq_init_attr_ex cq_init = {.cqe = 1, .wc_flags = wc_flags};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(backend->context, &cq_init);
	struct ibv_qp_init_attr_ex qp_init = {
		.cap = {.max_recv_wr = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = backend->pd,
	};
	struct ibv_qp *qp;
	int error;

	if (!cq)
		return errno;
	qp_init.send_cq = qp_init.recv_cq = ibv_cq_ex_to_cq(cq);
	qp = ibv_create_qp_ex(backend->context, &qp_init);
	error = qp ? 0 : errno;
	if (qp)
		ibv_destroy_qp(qp);
	ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
	return error;
}

static void use_real_time(struct verbs_backend *backend)
{
	const char *device = verbs_device_name(backend);
	char path[NET_CLOCK_PATH_BYTES];
	int fd = net_precision_clock_open(backend->interface, path);

	backend->ptp_fd = fd;
	if (fd >= 0) {
		backend->timestamps = VERBS_TIMESTAMPS_REAL_TIME;
		log_info("interface %s: device %s has real-time timestamps only, which are mapped to UTC with %s",
		         backend->interface, device, path);
		return;
	}
	log_warning(
		"interface %s: device %s has real-time timestamps only, and its clock %s cannot be read (%s): packets "
		"get the time at which they are polled; a udev rule SUBSYSTEM==\"ptp\", GROUP=\"ibvcap\", "
		"MODE=\"0640\" lets the daemon read the clock; 'mlxconfig -d DEVICE set REAL_TIME_CLOCK_ENABLE=0' and "
		"a reboot give ticks again",
		backend->interface, device, path[0] ? path : "in /dev/ptp*", strerror(-fd));
}

void verbs_timestamps_init(struct verbs_backend *backend)
{
	backend->ptp_fd = -1;
	if (!backend->attr.completion_timestamp_mask || !backend->attr.hca_core_clock)
		return;
	/* Ticks also after any other error: the daemon's own queue fails with the same error and explains it. */
	if (try_queue(backend, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) != EOPNOTSUPP || try_queue(backend, 0) != 0)
		backend->timestamps = VERBS_TIMESTAMPS_TICKS;
	else if (try_queue(backend, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) == 0)
		use_real_time(backend);
	else
		log_warning("interface %s: device %s has real-time timestamps only, and this kernel or libibverbs does "
		            "not offer them: packets get the time at which they are polled; 'mlxconfig -d DEVICE set "
		            "REAL_TIME_CLOCK_ENABLE=0' and a reboot give ticks again",
		            backend->interface, verbs_device_name(backend));
}

void verbs_timestamps_deinit(struct verbs_backend *backend)
{
	if (backend->ptp_fd >= 0)
		close(backend->ptp_fd);
}

static int read_real_time(int fd, struct backend_clock_reading *reading)
{
	struct net_clock_reading now;
	int r = net_precision_clock_read(fd, &now);

	*reading = (struct backend_clock_reading){now.ns, now.utc_before_ns, now.utc_after_ns};
	return r;
}

int verbs_read_clock(struct backend *base, struct backend_clock_reading *reading)
{
	const struct verbs_backend *backend = verbs_backend(base);
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	int error;

	if (backend->timestamps == VERBS_TIMESTAMPS_REAL_TIME)
		return read_real_time(backend->ptp_fd, reading);
	error = -ibv_query_rt_values_ex(backend->context, &values);
	if (error)
		return error == -EOPNOTSUPP ? -ENOTSUP : error;
	/* Ticks, whatever the field's name says. */
	*reading = (struct backend_clock_reading){.raw = (uint64_t)values.raw_clock.tv_nsec};
	return 0;
}
