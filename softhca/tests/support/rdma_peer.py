#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One end of an RC connection, by python3-pyverbs: each operation once, on memory that the other end can look at.

    rdma_peer.py DEVICE GID_INDEX active|passive PSN

It prints a line of JSON with what the other end must know, and reads that of the other end. Both print the line "ready"
when they are connected. The active end waits for a line, executes the operations, and prints its memory in hex. The
passive end prints the completions of its receives: bytes, and immediate data or null; and, after a line, its memory.
"""
import json
import sys
import time

import pyverbs.device
import pyverbs.enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

PART = 5001  # bytes that an operation moves: two packets, of which the second is padded
PARTS = 5
WORDS = 2  # for atomics, 8 bytes each, at the start
SIZE = 8 * WORDS + PARTS * PART
SECONDS = 60  # the longest wait for a completion
ACCESS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC)


def pattern(seed):
    """What an end's memory holds before. The words are small numbers."""
    return b"".join((seed + k).to_bytes(8, sys.byteorder) for k in range(WORDS)) + bytes(
        (seed * 31 + i * 7 + i // 251) & 255 for i in range(PARTS * PART))


def part(index):
    return 8 * WORDS + index * PART


class End:
    def __init__(self, device, gid_index, seed, psn):
        self.gid_index, self.psn = gid_index, psn
        self.context = pyverbs.device.Context(name=device)
        self.pd = PD(self.context)
        self.mr = MR(self.pd, SIZE, ACCESS)
        self.mr.write(pattern(seed), SIZE)
        self.cq = CQ(self.context, 32)
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap(16, 16, 1, 1)))
        attr = QPAttr(qp_state=e.IBV_QPS_INIT, port_num=1)
        attr.qp_access_flags = ACCESS
        self.qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_PORT | e.IBV_QP_PKEY_INDEX | e.IBV_QP_ACCESS_FLAGS)

    def address(self):
        return {"qpn": self.qp.qp_num, "psn": self.psn, "gid": self.context.query_gid(1, self.gid_index).gid,
                "buffer": self.mr.buf, "rkey": self.mr.rkey}

    def connect(self, peer):
        self.peer = peer
        attr = QPAttr(qp_state=e.IBV_QPS_RTR, port_num=1)
        route = GlobalRoute(dgid=GID(peer["gid"]), sgid_index=self.gid_index)
        route.hop_limit = 64
        attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
        attr.path_mtu, attr.dest_qp_num, attr.rq_psn = e.IBV_MTU_4096, peer["qpn"], peer["psn"]
        attr.max_dest_rd_atomic, attr.min_rnr_timer = 1, 12
        self.qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN |
                       e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MIN_RNR_TIMER)
        attr = QPAttr(qp_state=e.IBV_QPS_RTS)
        attr.sq_psn, attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.max_rd_atomic = self.psn, 18, 7, 7, 1
        self.qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_SQ_PSN | e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT |
                       e.IBV_QP_RNR_RETRY | e.IBV_QP_MAX_QP_RD_ATOMIC)

    def poll(self):
        end = time.monotonic() + SECONDS
        while True:
            count, completions = self.cq.poll()
            if count:
                assert completions[0].status == e.IBV_WC_SUCCESS, completions[0]
                return completions[0]
            assert time.monotonic() < end, "no completion"

    def receive(self, index):
        self.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(self.mr.buf + part(index), PART, self.mr.lkey)], wr_id=index))

    def execute(self, opcode, offset, size, atomic=None, imm=0):
        """To or from the same place of the other end's memory."""
        request = SendWR(opcode=opcode, num_sge=1, sg=[SGE(self.mr.buf + offset, size, self.mr.lkey)],
                         send_flags=e.IBV_SEND_SIGNALED, imm_data=imm)
        remote = self.peer["buffer"] + offset
        if atomic:
            request.set_wr_atomic(self.peer["rkey"], remote, *atomic)
        else:
            request.set_wr_rdma(self.peer["rkey"], remote)
        self.qp.post_send(request)
        self.poll()


def main():
    device, gid_index, role, psn = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    active = role == "active"
    end = End(device, gid_index, 1 if active else 100, psn)
    if not active:
        for index in (0, 1, 3):  # 3: the receive that RDMA write with immediate takes, which leaves its memory alone
            end.receive(index)
    print(json.dumps(end.address()), flush=True)
    end.connect(json.loads(sys.stdin.readline()))
    print("ready", flush=True)
    if active:
        sys.stdin.readline()
        end.execute(e.IBV_WR_SEND, part(0), PART)
        end.execute(e.IBV_WR_SEND_WITH_IMM, part(1), PART, imm=0x11223344)
        end.execute(e.IBV_WR_RDMA_WRITE, part(2), PART)
        end.execute(e.IBV_WR_RDMA_WRITE_WITH_IMM, part(3), PART, imm=0x55667788)
        end.execute(e.IBV_WR_RDMA_READ, part(4), PART)
        end.execute(e.IBV_WR_ATOMIC_CMP_AND_SWP, 0, 8, atomic=(100, 7777))
        end.execute(e.IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 8, atomic=(1000, 0))
    else:
        found = [end.poll() for _ in range(3)]
        print(json.dumps([[one.byte_len, one.imm_data if one.wc_flags & e.IBV_WC_WITH_IMM else None] for one in found]),
              flush=True)
        sys.stdin.readline()
    print(end.mr.read(SIZE, 0).hex(), flush=True)


if __name__ == "__main__":
    main()
