// SPDX-License-Identifier: Apache-2.0
#include "tests/support/reference_device.h"

#include <errno.h>
#include <string.h>

static struct device *device_of(struct backend_queue *queue)
{
	return (struct device *)queue;
}

/* The row has the packet's number in its first bytes. */
static void fill_slot(struct device *device, uint64_t number)
{
	struct device_completion *completion = &device->completions[device->n_completed++ % (2 * DEVICE_SLOTS)];
	uint64_t at = device->n_used++ % DEVICE_SLOTS;

	memcpy(device->slots[at].payload, &number, sizeof(number));
	*completion = (struct device_completion){device->slots[at].slot, *device->now_ns + device->late_ns, false};
}

bool device_arrive(struct device *device, uint64_t number)
{
	bool has_room = device->has_kernel_ring ? device->n_queued - device->n_taken < DEVICE_KERNEL_RING
	                                        : device->n_posted > device->n_used;

	device->matched++;
	if (device->has_failed || !has_room) {
		device->dropped++;
		return false;
	}
	device->accepted++;
	if (device->has_kernel_ring)
		device->kernel_ring[device->n_queued++ % DEVICE_KERNEL_RING] = number;
	else
		fill_slot(device, number);
	return true;
}

static void flush_slots(struct device *device)
{
	while (device->n_used < device->n_posted) {
		uint32_t slot = device->slots[device->n_used++ % DEVICE_SLOTS].slot;

		device->completions[device->n_completed++ % (2 * DEVICE_SLOTS)] =
			(struct device_completion){slot, *device->now_ns, true};
	}
}

void device_fail(struct device *device)
{
	device->has_failed = true;
	flush_slots(device);
}

static int device_post(struct backend_queue *queue, const struct backend_run *run)
{
	struct device *device = device_of(queue);
	uint32_t i;

	for (i = 0; i < run->n && device->n_posted - device->n_used < DEVICE_SLOTS; i++) {
		uint64_t at = device->n_posted++ % DEVICE_SLOTS;

		device->slots[at].slot = run->slot + i;
		device->slots[at].payload = run->payload + (size_t)i * 64;
	}
	if (device->has_failed)
		flush_slots(device);
	backend_use_post(&queue->use, i);
	return (int)i;
}

static int device_poll(struct backend_queue *queue, struct backend_event *events, uint32_t max)
{
	struct device *device = device_of(queue);
	uint32_t n;

	while (device->n_taken < device->n_queued && device->n_posted > device->n_used &&
	       device->n_completed - device->n_polled < max)
		fill_slot(device, device->kernel_ring[device->n_taken++ % DEVICE_KERNEL_RING]);
	for (n = 0; n < max && device->n_polled < device->n_completed; n++, device->n_polled++) {
		const struct device_completion *completion =
			&device->completions[device->n_polled % (2 * DEVICE_SLOTS)];

		if (completion->visible_ns > *device->now_ns)
			break;
		events[n] = (struct backend_event){.slot = completion->slot,
		                                   .bytes = completion->is_flushed ? 0 : 64,
		                                   .status = completion->is_flushed ? BACKEND_FLUSHED : BACKEND_OK};
	}
	backend_use_take(&queue->use, n);
	return (int)n;
}

static int device_reset(struct backend_queue *queue)
{
	struct device *device = device_of(queue);

	if (device->cannot_reset)
		return -EIO;
	device->n_posted = device->n_used = device->n_completed = device->n_polled = 0;
	device->has_failed = false;
	backend_use_reset(&queue->use);
	return 0;
}

static int device_start(struct backend_queue *queue)
{
	(void)queue;
	return 0;
}

static int device_read_matched(struct backend_queue *queue, uint64_t *packets)
{
	struct device *device = device_of(queue);

	if (device->has_kernel_ring)
		queue->n_dropped[BACKEND_DROP_RING_FULL] = device->dropped;
	*packets = device->matched;
	return 0;
}

const struct backend_ops device_ops = {
	.name = "reference",
	.post = device_post,
	.poll = device_poll,
	.reset = device_reset,
	.start = device_start,
	.read_matched = device_read_matched,
};
