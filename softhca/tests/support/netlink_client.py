#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes objects, asks RDMA netlink for the resources of this process, and prints what it says beside what is right."""
import json
import os
import socket
import struct

from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
import pyverbs.enums as e

NETLINK_RDMA, NLDEV, REQUEST, DUMP = 20, 5, 1, 0x300
RES_GET, RES_QP_GET, RES_MR_GET = 9, 10, 13
NLMSG_ERROR, NLMSG_DONE = 2, 3
DEV_INDEX, SUMMARY, ENTRY_NAME, ENTRY_CURR, QP_TABLE, LQPN, TYPE, STATE, PID = 1, 15, 17, 18, 19, 21, 26, 27, 28
MR_TABLE, LKEY, MRLEN = 40, 43, 45
N_REGIONS = 2000


def attribute(kind, value):
    return struct.pack("<HHI", 8, kind, value)


def attributes(data):
    """[(type, value)], nested ones likewise."""
    found = []
    while data:
        size, kind = struct.unpack_from("<HH", data)
        value = data[4:size]
        found.append((kind & 0x3fff, attributes(value) if kind & 0x8000 else value))
        data = data[(size + 3) & ~3:]
    return found


def ask(command, flags=DUMP, *extra):
    """The attributes of all messages of the answer, or a negative errno."""
    nl = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
    nl.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
    nl.bind((0, 0))
    body = attribute(DEV_INDEX, 0) + b"".join(attribute(*pair) for pair in extra)
    nl.send(struct.pack("<IHHII", 16 + len(body), NLDEV << 10 | command, REQUEST | flags, 1, 0) + body)
    found = []
    while True:
        data = nl.recv(4096)
        size, kind, _, sequence, port = struct.unpack_from("<IHHII", data)
        assert (size, sequence, port) == (len(data), 1, nl.getsockname()[0])
        if kind == NLMSG_DONE:
            return found
        if kind == NLMSG_ERROR:
            return struct.unpack_from("<i", data, 16)[0]
        found += attributes(data[16:])
        if flags != DUMP:
            return found


def entries(answer, table):
    return [dict(entry) for kind, value in answer if kind == table for _, entry in value]


def number(entry, kind):
    return int.from_bytes(entry[kind], "little")


context = Context(name="mlx5_0")
pd = PD(context)
cq = CQ(context, 10)
qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RAW_PACKET, scq=cq, rcq=cq, cap=QPCap(max_send_wr=1, max_recv_wr=1)), QPAttr())
regions = [MR(pd, 4096 + i, e.IBV_ACCESS_LOCAL_WRITE) for i in range(N_REGIONS)]

summary = [dict(entry) for kind, value in ask(RES_GET) if kind == SUMMARY for _, entry in value]
mr_entries = entries(ask(RES_MR_GET), MR_TABLE)
qp_entries = entries(ask(RES_QP_GET), QP_TABLE)
one = dict(ask(RES_QP_GET, 0, (LQPN, qp.qp_num)))
print(json.dumps({
    "summary": {entry[ENTRY_NAME].rstrip(b"\0").decode(): number(entry, ENTRY_CURR) for entry in summary},
    "mr": sorted(number(entry, MRLEN) for entry in mr_entries), "mr_expected": [4096 + i for i in range(N_REGIONS)],
    "keys": len({number(entry, LKEY) for entry in mr_entries if LKEY in entry} & {mr.lkey for mr in regions}),
    "qp": [[number(entry, LQPN), number(entry, TYPE), number(entry, STATE)] for entry in qp_entries],
    "qp_expected": [[qp.qp_num, int(e.IBV_QPT_RAW_PACKET), int(qp.qp_state)]],
    "one": [[number(one, LQPN), number(one, TYPE), number(one, STATE)]],
    "missing": ask(RES_QP_GET, 0, (LQPN, 0xffffff)),
    "pid": {number(entry, PID) for entry in mr_entries + qp_entries} == {os.getpid()}}))
