#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A client of python3-pyverbs: device list, raw packet queue pairs, flows, extended completions, RSS.

    pyverbs_client.py list
    pyverbs_client.py receive|receive-ex|rss COUNT MAC      says "ready", then one JSON object a completion
    pyverbs_client.py events COUNT                          says "ready", then COUNT times a list of an event of a
                                                            context and one of the same context, imported
    pyverbs_client.py send|send-ex                          a frame in hex a line on stdin; says how many were sent

Only what the bindings of rdma-core 44 and 56 both have.
"""
import json
import os
import sys
import time

import pyverbs.device
import pyverbs.enums as e
from pyverbs.cq import CQ, CQEX, CqInitAttrEx, PollCqAttr
from pyverbs.flow import Flow, FlowAttr
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.spec import EthSpec
from pyverbs.wq import WQ, RwqIndTable, RwqIndTableInitAttr, RxHashConf, WQAttr, WQInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

DEPTH = 256
SLOT_BYTES = 2048
SECONDS = 30  # the longest wait for a completion


def open_device():
    context = pyverbs.device.Context(name="mlx5_0")
    return context, PD(context)


def list_devices():
    for device in pyverbs.device.get_device_list():
        context = pyverbs.device.Context(name=device.name.decode())
        port = context.query_port(1)
        print(json.dumps({"name": device.name.decode(), "node_type": device.node_type,
                          "max_qp_wr": context.query_device().max_qp_wr, "state": port.state,
                          "link_layer": port.link_layer, "gid": context.query_gid(1, 0).gid,
                          "raw_packet_caps": context.query_device_ex().raw_packet_caps}))


def poll(cq):
    """The next completion as a dictionary, by the call that the queue is for."""
    end = time.monotonic() + SECONDS
    if isinstance(cq, CQEX):
        while cq.start_poll(PollCqAttr()):
            assert time.monotonic() < end, "no completion"
        found = {"wr_id": cq.wr_id, "status": cq.status, "byte_len": cq.read_byte_len(),
                 "timestamp": cq.read_timestamp()}
        cq.end_poll()
        return found
    while True:
        count, completions = cq.poll()
        if count:
            return {"wr_id": completions[0].wr_id, "status": completions[0].status, "byte_len": completions[0].byte_len}
        assert time.monotonic() < end, "no completion"


def to_rts(qp):
    for state in (e.IBV_QPS_INIT, e.IBV_QPS_RTR, e.IBV_QPS_RTS):
        attr = QPAttr(qp_state=state, port_num=1)
        qp.modify(attr, e.IBV_QP_STATE | (e.IBV_QP_PORT if state == e.IBV_QPS_INIT else 0))


def raw_qp(pd, cq):
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RAW_PACKET, scq=cq, rcq=cq, cap=QPCap(DEPTH, DEPTH, 1, 1), sq_sig_all=1))
    to_rts(qp)
    return qp


def steer(qp, mac):
    attr = FlowAttr(num_of_specs=1, port=1)
    attr.specs.append(EthSpec(dst_mac=mac))
    return Flow(qp, attr)


def receive_wr(mr, slot, tag=0):
    return RecvWR(num_sge=1, sg=[SGE(mr.buf + slot * SLOT_BYTES, SLOT_BYTES, mr.lkey)], wr_id=tag << 32 | slot)


def report(mr, found, **more):
    slot = found.pop("wr_id") & 0xFFFFFFFF
    print(json.dumps({**found, **more, "frame": mr.read(found["byte_len"], slot * SLOT_BYTES).hex()}), flush=True)
    return slot


def receive(count, mac, extended):
    context, pd = open_device()
    mr = MR(pd, DEPTH * SLOT_BYTES, e.IBV_ACCESS_LOCAL_WRITE)
    if extended:
        flags = e.IBV_WC_EX_WITH_BYTE_LEN | e.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
        cq = CQEX(context, CqInitAttrEx(cqe=2 * DEPTH, wc_flags=flags))
    else:
        cq = CQ(context, 2 * DEPTH)
    qp = raw_qp(pd, cq)
    for slot in range(DEPTH):
        qp.post_recv(receive_wr(mr, slot))
    with steer(qp, mac):
        print("ready", flush=True)
        for _ in range(count):
            qp.post_recv(receive_wr(mr, report(mr, poll(cq))))
    qp.close()


def rss(count, mac):
    """Two work queues that share a completion queue; each completion says which queue it belongs to."""
    context, pd = open_device()
    mr = MR(pd, DEPTH * SLOT_BYTES, e.IBV_ACCESS_LOCAL_WRITE)
    cq = CQ(context, 2 * DEPTH)
    wqs = [WQ(context, WQInitAttr(wq_type=e.IBV_WQT_RQ, wq_pd=pd, wq_cq=cq, max_wr=DEPTH, max_sge=1)) for _ in range(2)]
    for index, wq in enumerate(wqs):
        wq.modify(WQAttr(attr_mask=e.IBV_WQ_ATTR_STATE, wq_state=e.IBV_WQS_RDY))
        for slot in range(index * DEPTH // 2, (index + 1) * DEPTH // 2):
            wq.post_recv(receive_wr(mr, slot, index))
    table = RwqIndTable(context, RwqIndTableInitAttr(1, wqs))
    hashing = RxHashConf(rx_hash_function=e.IBV_RX_HASH_FUNC_TOEPLITZ, rx_hash_key_len=40,
                         rx_hash_key=list(range(1, 41)),
                         rx_hash_fields_mask=e.IBV_RX_HASH_SRC_IPV4 | e.IBV_RX_HASH_DST_IPV4)
    mask = e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_RX_HASH | e.IBV_QP_INIT_ATTR_IND_TABLE
    qp = QPEx(context, QPInitAttrEx(qp_type=e.IBV_QPT_RAW_PACKET, comp_mask=mask, pd=pd, hash_conf=hashing,
                                    ind_table=table))
    with steer(qp, mac):
        print("ready", flush=True)
        for _ in range(count):
            found = poll(cq)
            report(mr, found, queue=found["wr_id"] >> 32)
    qp.close()
    table.close()


def send(extended):
    context, pd = open_device()
    mr = MR(pd, SLOT_BYTES, e.IBV_ACCESS_LOCAL_WRITE)
    cq = CQ(context, 2 * DEPTH)
    cap = QPCap(DEPTH, DEPTH, 1, 1)
    if extended:
        mask = e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
        qp = QPEx(context, QPInitAttrEx(qp_type=e.IBV_QPT_RAW_PACKET, scq=cq, rcq=cq, cap=cap, pd=pd, sq_sig_all=1,
                                        comp_mask=mask, send_ops_flags=e.IBV_QP_EX_WITH_SEND))
        to_rts(qp)
    else:
        qp = raw_qp(pd, cq)
    sent = 0
    for line in sys.stdin:
        frame = bytes.fromhex(line)
        mr.write(frame, len(frame))
        if extended:
            qp.wr_start()
            qp.wr_id, qp.wr_flags = sent, 0
            qp.wr_send()
            qp.wr_set_sge(SGE(mr.buf, len(frame), mr.lkey))
            qp.wr_complete()
        else:
            qp.post_send(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(mr.buf, len(frame), mr.lkey)], wr_id=sent))
        found = poll(cq)
        assert (found["status"], found["wr_id"]) == (e.IBV_WC_SUCCESS, sent), found
        sent += 1
    print(sent)


def events(count):
    """DPDK imports the context that it has opened."""
    first = pyverbs.device.Context(name="mlx5_0")
    imported = pyverbs.device.Context(cmd_fd=os.dup(first.cmd_fd))
    PD(imported)
    print("ready", flush=True)
    for _ in range(count):
        print(json.dumps([context.get_async_event().event_type for context in (first, imported)]), flush=True)


def main():
    action, arguments = sys.argv[1], sys.argv[2:]
    if action == "list":
        list_devices()
    elif action == "events":
        events(int(arguments[0]))
    elif action in ("receive", "receive-ex"):
        receive(int(arguments[0]), arguments[1], action == "receive-ex")
    elif action == "rss":
        rss(int(arguments[0]), arguments[1])
    elif action in ("send", "send-ex"):
        send(action == "send-ex")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
