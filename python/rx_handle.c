// SPDX-License-Identifier: Apache-2.0
/* Receive handles, for the receivers of both modules: opens one by keyword arguments, and shows it as dicts. */
#include "python/binding.h"

#include <string.h>

/* Of start and policy, for PyArg_Parse…(): the number behind one of the module's names. */
static int constant_of(PyObject *number, void *to)
{
	if (PyLong_Check(number)) {
		*(int *)to = (int)PyLong_AsLong(number);
		return !PyErr_Occurred();
	}
	PyErr_Format(
		PyExc_TypeError,
		"%R: start is ibvcap.NEWEST, OLDEST, PACKETS_BACK or NS_BACK, and policy is ibvcap.LOSSY or LOSSLESS",
		number);
	return 0;
}

struct ibvcap_rx *rx_open_by_keywords(PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"stream", "start",  "back",    "queue",    "policy", "lease_blocks",
	                        "group",  "socket", "timeout", "reattach", NULL};
	struct ibvcap_rx_options options = IBVCAP_INIT(struct ibvcap_rx_options);
	const char *stream, *group = NULL, *socket_path = NULL;
	int start = IBVCAP_START_NEWEST, policy = IBVCAP_POLICY_LOSSY, r, reattach_ms;
	PyObject *reattach = NULL;
	struct ibvcap_rx *rx;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|$O&O&O&O&O&zzO&O:Receiver", names, &stream,
	                                 constant_of, &start, u64_of, &options.back, u32_of, &options.queue,
	                                 constant_of, &policy, u32_of, &options.lease_blocks, &group, &socket_path,
	                                 answer_timeout_of, &options.timeout_ms, &reattach))
		return NULL;
	reattach_ms = reattach ? timeout_ms_of(reattach) : 0;
	if (reattach_ms == -2)
		return NULL;
	if (group && strlen(group) >= sizeof(options.group)) {
		PyErr_Format(PyExc_ValueError, "group is longer than %zu characters", sizeof(options.group) - 1);
		return NULL;
	}
	strcpy(options.group, group ? group : "");
	options.start = (enum ibvcap_start)start;
	options.policy = (enum ibvcap_policy)policy;
	if (reattach)
		options.reattach_ms = reattach_ms == 0  ? IBVCAP_NO_REATTACH
		                      : reattach_ms < 0 ? INT32_MAX
		                                        : (uint32_t)reattach_ms;
	Py_BEGIN_ALLOW_THREADS
	r = ibvcap_rx_open(socket_path, stream, &options, &rx);
	Py_END_ALLOW_THREADS
	if (r == 0)
		return rx;
	raise_error(r);
	return NULL;
}

#define INFO(name)  MEMBER(ibvcap_rx_info, name)
#define LACK(name)  MEMBER_LACK(ibvcap_rx_info, name, #name)
#define COUNT(name) MEMBER(ibvcap_rx_counts, name)

static const struct member info_members[] = {
	INFO(stream),
	INFO(epoch),
	INFO(queue),
	INFO(n_queues),
	INFO(slot_bytes),
	INFO(slots_per_block),
	INFO(history_blocks),
	INFO(lease_blocks),
	INFO(policy),
	INFO(clock_source),
	INFO(n_attached),
	LACK(clock_error_ns),
	INFO(attach_sequence),
	INFO(attach_back),
	INFO(row_stride),
	INFO(header_stride),
	INFO(header_bytes),
	INFO(application_header_bytes),
	INFO(flags),
	INFO(disconnected),
	INFO(failed_queues),
	INFO(system_clock),
	LACK(tai_offset_s),
	LACK(clock_delay_ns),
	LACK(system_clock_error_ns),
	LACK(clock_drift_ppb),
	LACK(sensor_offset_min_ns),
	LACK(sensor_offset_ns),
	LACK(sensor_offset_max_ns),
	{NULL, 0, 0},
};

static const struct member count_members[] = {
	COUNT(published), COUNT(delivered), COUNT(skipped),  COUNT(lag),
	COUNT(epochs),    COUNT(abandoned), COUNT(failures), {NULL, 0, 0},
};

PyObject *rx_info_to_dict(struct ibvcap_rx *rx)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	int r = ibvcap_rx_info(rx, &info);

	return r < 0 ? raise_error(r) : members_to_dict(info_members, &info);
}

PyObject *rx_counts_to_dict(struct ibvcap_rx *rx, uint64_t n_lost)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	int r = ibvcap_rx_counts(rx, &counts);
	PyObject *dict = r < 0 ? raise_error(r) : members_to_dict(count_members, &counts);
	PyObject *lost = dict ? PyLong_FromUnsignedLongLong(n_lost) : NULL;

	if (!lost || PyDict_SetItemString(dict, "lost", lost) < 0)
		Py_CLEAR(dict);
	Py_XDECREF(lost);
	return dict;
}
