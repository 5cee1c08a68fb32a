#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A program of the connection manager, below librdmacm: writes commands to /dev/infiniband/rdma_cm.

rdma_cm_client.py facts LOCAL PEER          prints what queries tell of a bound and a resolved identifier, as JSON
rdma_cm_client.py misuse LOCAL              prints [what, errno] of each wrong command, as JSON
rdma_cm_client.py groups LOCAL              joins multicast groups, and prints what happened
rdma_cm_client.py hold LOCAL PORT           binds the port, says "ready" and sleeps
rdma_cm_client.py serve HOW LOCAL PORT SPACE  says "ready", and prints the events of one connection, as JSON.
                                            HOW: accept, reject, leave (end the identifier unanswered), exit, silent,
                                            unread (end the listener), guessed (end the one that was not read of)
rdma_cm_client.py dial HOW PEER PORT SPACE  the same for the other end. HOW: stay (until it is disconnected), hang-up
SPACE: tcp (connections) or udp (datagrams). No queue pair is needed: its number is only told.
"""
import ctypes
import errno
import json
import os
import select
import socket
import struct
import sys

CREATE_ID, DESTROY_ID, BIND_IP, RESOLVE_ROUTE, QUERY_ROUTE, CONNECT, LISTEN = 0, 1, 2, 4, 5, 6, 7
ACCEPT, REJECT, DISCONNECT = 8, 9, 10
LEAVE_MCAST, JOIN_MCAST = 17, 22
INIT_QP_ATTR, GET_EVENT, GET_OPTION, SET_OPTION, MIGRATE_ID, QUERY, BIND, RESOLVE_ADDR = 11, 12, 13, 14, 18, 19, 20, 21
PS_TCP, PS_UDP = 0x106, 0x111
ADDR_RESOLVED, ADDR_ERROR, ROUTE_RESOLVED, REQUEST, RESPONSE, ESTABLISHED, DISCONNECTED = 0, 1, 2, 4, 5, 9, 10
QPS_INIT, QPS_RTR, QPS_RTS = 1, 2, 3
SERVER_QPN, CLIENT_QPN = 0x1234, 0x4321


class File:
    """The character device, without librdmacm."""

    def __init__(self, flags=os.O_NONBLOCK):
        self.fd = os.open("/dev/infiniband/rdma_cm", os.O_RDWR | os.O_CLOEXEC | flags)
        self.out = ctypes.create_string_buffer(1024)

    def address(self):
        return ctypes.addressof(self.out)

    def command(self, number, body, out=0, length=None):
        data = struct.pack("<IHH", number, len(body) if length is None else length, out) + body
        assert os.write(self.fd, data) == len(data)

    def create(self, uid=1, ps=PS_TCP):
        self.command(CREATE_ID, struct.pack("<QQHBB4x", uid, self.address(), ps, 0, 0), 4)
        return struct.unpack_from("<I", self.out)[0]

    def destroy(self, number):
        """The number of events that the program has read."""
        self.command(DESTROY_ID, struct.pack("<QII", self.address(), number, 0), 4)
        return struct.unpack_from("<I", self.out)[0]

    def bind(self, number, host, port):
        address = sockaddr(host, port)
        self.command(BIND, struct.pack("<IHH", number, len(address), 0) + address.ljust(128, b"\0"))

    def resolve(self, number, peer, port=7471):
        address = sockaddr(peer, port)
        head = struct.pack("<IIHHI128x", number, 1000, 0, len(address), 0)
        self.command(RESOLVE_ADDR, head + address.ljust(128, b"\0"))

    def event(self):
        """(uid, identifier, event, status)"""
        self.command(GET_EVENT, struct.pack("<Q", self.address()), 328)
        return struct.unpack_from("<QIIi", self.out)

    def is_readable(self):
        return bool(select.select([self.fd], [], [], 0)[0])

    def join(self, number, group, flags=0, uid=9):
        address = sockaddr(group, 0)
        self.command(JOIN_MCAST, struct.pack("<QQIHH", self.address(), uid, number, len(address), flags) +
                     address.ljust(128, b"\0"), 4)
        return struct.unpack_from("<I", self.out)[0]

    def leave(self, group):
        self.command(LEAVE_MCAST, struct.pack("<QII", self.address(), group, 0), 4)
        return struct.unpack_from("<I", self.out)[0]

    def wait(self):
        return bool(select.select([self.fd], [], [], 30)[0])

    def query(self, number, option, out=1024):
        self.command(QUERY, struct.pack("<QII", self.address(), number, option), out)
        return self.out.raw


def sockaddr(host, port):
    if ":" in host:
        head = struct.pack("<HHI", socket.AF_INET6, socket.htons(port), 0)
        return head + socket.inet_pton(socket.AF_INET6, host) + bytes(4)
    return struct.pack("<HH", socket.AF_INET, socket.htons(port)) + socket.inet_aton(host) + bytes(8)


def refusal(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return None


def parameters(qpn, data):
    """struct rdma_ucm_conn_param"""
    return struct.pack("<II256s8B", qpn, 0, data, len(data), 0, 3, 2, 0, 7, 6, 1)


def next_event(f):
    """{"event", "status", "id", "qpn", "data"} of the next event, for which it waits."""
    assert f.wait(), "no event"
    uid, number, event, status = f.event()
    udp = f.space == PS_UDP
    data = f.out.raw[20:]
    private = data[8 + 32:] if udp else data[8:]
    size = data[8 + 32 + 256] if udp else data[8 + 256]
    found = {"uid": uid, "id": number, "event": event, "status": status, "qpn": struct.unpack_from("<I", data)[0],
             "bytes": size, "data": private[:size].rstrip(b"\0").decode()}
    if not udp and event in (REQUEST, RESPONSE):
        found["depths"] = list(data[8 + 256 + 2:8 + 256 + 4])
    return found


def attributes(f, number, state):
    """(mask, Q_Key, RQ PSN, SQ PSN, destination) of a queue pair."""
    f.command(INIT_QP_ATTR, struct.pack("<QII", f.address(), number, state), 256)
    words = struct.unpack_from("<10I", f.out)
    return {"mask": words[0], "qkey": words[5], "rq_psn": words[6], "sq_psn": words[7], "qpn": words[8]}


def serve(how, local, port, space):
    f, events = File(), []
    f.space = {"tcp": PS_TCP, "udp": PS_UDP}[space]
    listener = f.create(1, f.space)
    f.bind(listener, local, int(port))
    f.command(LISTEN, struct.pack("<II", listener, 1))
    print("ready", flush=True)
    if how in ("unread", "guessed"):
        assert f.wait()
        f.destroy(listener if how == "unread" else listener + 1)
        return [f.is_readable(), refusal(f.destroy, listener + (how == "unread"))]
    events.append(next_event(f))
    number = events[0]["id"]
    if how == "leave":
        events.append({"read": f.destroy(number)})
    elif how == "reject":
        f.command(REJECT, struct.pack("<IBB2x256s", number, 6, 0, b"not me"))
    elif how == "silent":
        sys.stdin.read()
    else:
        if space == "tcp":
            events += [attributes(f, number, state) for state in (QPS_INIT, QPS_RTR, QPS_RTS)]
        f.command(ACCEPT, struct.pack("<Q", 7) + parameters(SERVER_QPN, b"welcome") + struct.pack("<II8x", number, 0))
        if space == "tcp":
            events.append(next_event(f))
        if how == "exit":
            return events
        if space == "tcp":
            events.append(next_event(f))
            f.command(DISCONNECT, struct.pack("<I", number))
        else:
            sys.stdin.read()
    return events


def dial(how, peer, port, space):
    f, events = File(), []
    f.space = {"tcp": PS_TCP, "udp": PS_UDP}[space]
    number = f.create(2, f.space)
    f.resolve(number, peer, int(port))
    events.append(next_event(f))
    if events[-1]["event"] != ADDR_RESOLVED:
        return events
    f.command(RESOLVE_ROUTE, struct.pack("<II", number, 1000))
    events.append(next_event(f))
    f.command(CONNECT, parameters(CLIENT_QPN, b"hello") + struct.pack("<II8x", number, 0))
    events.append(next_event(f))
    if events[-1]["event"] != RESPONSE:
        return events
    events += [attributes(f, number, state) for state in (QPS_INIT, QPS_RTR, QPS_RTS)]
    f.command(ACCEPT, struct.pack("<Q272xII8x", 2, number, 0))
    if how == "hang-up":
        f.command(DISCONNECT, struct.pack("<I", number))
    events.append(next_event(f))
    return events


def groups(local):
    def members():
        return open("/proc/self/net/igmp", encoding="ascii").read().count("090909EF")

    f, other = File(), File()
    member, sender, stream = f.create(2, PS_UDP), f.create(3, PS_UDP), f.create(4)
    found = {"unbound": refusal(f.join, member, "239.9.9.9")}
    for number in (member, sender, stream):
        f.bind(number, local, 0)
    found["wrong"] = [refusal(f.join, stream, "239.9.9.9"), refusal(f.join, member, "10.1.1.1"),
                      refusal(f.join, member, "239.9.9.9", 2)]
    group = f.join(member, "239.9.9.9")
    found["members"] = [members()]
    uid, number, event, status = f.event()
    found["event"] = [uid, number == group, event, status, f.out.raw[20:28].hex(), f.out.raw[28:44].hex()]
    sending = f.join(sender, "239.9.9.8", flags=1)
    found["members"].append(members())
    found["not ours"] = refusal(other.leave, group)
    found["left"] = [f.leave(group), f.leave(sending), f.is_readable()]
    found["members"].append(members())
    return found


def facts(local, peer):
    f, other = File(), File()
    found = {"before": [f.is_readable(), refusal(f.event)]}
    bound, listener, dialer, gone = f.create(1), f.create(2), f.create(3), f.create(4)
    f.bind(bound, local, 0)
    address = f.query(bound, 0)
    found["bound_port"] = struct.unpack_from("!H", address, 18)[0]
    found["device"] = struct.unpack_from("<QBxHHH", address)
    f.bind(listener, "0.0.0.0", 7471)
    f.command(LISTEN, struct.pack("<II", listener, 5))
    found["taken"] = [refusal(f.bind, f.create(), local, 7471), refusal(f.bind, f.create(ps=PS_UDP), local, 7471)]
    f.resolve(gone, "203.0.113.1")
    f.resolve(dialer, peer)
    found["events"] = [f.is_readable(), f.event()[0::2][:2], f.wait() and f.event()[0::2][:2], f.is_readable()]
    address = f.query(dialer, 0)
    found["source"] = socket.inet_ntoa(address[20:24])
    found["destination"] = [socket.inet_ntoa(address[148:152]), struct.unpack_from("!H", address, 146)[0]]
    gids = f.query(dialer, 2)
    found["gids"] = [gids[16 + 8:16 + 24].hex(), gids[144 + 8:144 + 24].hex()]
    found["paths_before"] = struct.unpack_from("<I", f.query(dialer, 1))[0]
    f.command(RESOLVE_ROUTE, struct.pack("<II", dialer, 1000))
    found["route"] = f.event()[:3]
    path = f.query(dialer, 1)
    found["path"] = [struct.unpack_from("<I", path)[0], path[8 + 8 + 8:8 + 8 + 40].hex(), path[8 + 8 + 54] & 63]
    f.command(QUERY_ROUTE, struct.pack("<QII", f.address(), dialer, 0), 1024)
    found["route_mtu"] = struct.unpack_from("<I", f.out, 8 + 48)[0]
    f.command(INIT_QP_ATTR, struct.pack("<QII", f.address(), dialer, QPS_INIT), 256)
    found["init_mask"] = struct.unpack_from("<I", f.out)[0]
    f.resolve(bound, peer)
    f.wait()
    other.command(MIGRATE_ID, struct.pack("<QII", other.address(), bound, f.fd), 4)
    found["moved"] = [f.is_readable(), other.is_readable(), refusal(f.query, bound, 0), other.event()[2],
                      other.is_readable()]
    found["reported"] = [other.destroy(bound), f.destroy(dialer), f.destroy(gone)]
    return found


def misuse(local):
    f, other = File(), File()
    number, foreign, done = f.create(), other.create(), []

    def bind_as(size, reserved):
        f.command(BIND, struct.pack("<IHH", number, size, reserved) + sockaddr(local, 0).ljust(128, b"\0"))

    def wrong(what, call, *arguments):
        done.append([what, refusal(call, *arguments)])

    wrong("short", os.write, f.fd, bytes(7))
    wrong("length beyond the write", f.command, CREATE_ID, bytes(24), 4, 25)
    wrong("no such command", f.command, 23, bytes(8))
    wrong("GET_OPTION", f.command, GET_OPTION, bytes(24))
    wrong("no room for the identifier", f.command, CREATE_ID, struct.pack("<QQHBB4x", 1, f.address(), PS_TCP, 0, 0), 3)
    wrong("no such port space", f.create, 1, 0x105)
    wrong("answer nowhere", f.command, CREATE_ID, struct.pack("<QQHBB4x", 1, 16, PS_TCP, 0, 0), 4)
    wrong("identifier of another file", f.bind, foreign, local, 0)
    wrong("no such identifier", f.bind, 1 << 20, local, 0)
    wrong("address of nobody", f.bind, number, "203.0.113.1", 0)
    wrong("no address family", f.command, BIND_IP, struct.pack("<Q28xI", 0, number))
    wrong("size of another family", bind_as, 28, 0)
    wrong("reserved field", bind_as, 16, 1)
    wrong("route before address", f.command, RESOLVE_ROUTE, struct.pack("<II", number, 1000))
    wrong("queue pair without a device", f.command, INIT_QP_ATTR,
          struct.pack("<QII", f.address(), number, QPS_INIT), 256)
    f.bind(number, local, 0)
    wrong("bound twice", f.bind, number, local, 0)
    wrong("another family's peer", f.resolve, number, "fd00::1")
    wrong("no such question", f.query, number, 9)
    wrong("no room for the answer", f.query, number, 0, 8)
    wrong("no such option", f.command, SET_OPTION, struct.pack("<QIIII", f.address(), number, 0, 9, 4))
    wrong("option of another size", f.command, SET_OPTION, struct.pack("<QIIII", f.address(), number, 0, 1, 1))
    wrong("option from nowhere", f.command, SET_OPTION, struct.pack("<QIIII", 16, number, 0, 2, 4))
    wrong("from a file that is none", f.command, MIGRATE_ID, struct.pack("<QII", f.address(), number, 0), 4)
    f.command(LISTEN, struct.pack("<II", number, 5))
    wrong("listening twice", f.command, LISTEN, struct.pack("<II", number, 5))
    wrong("a listener's peer", f.resolve, number, local)
    return done


def main():
    mode, *arguments = sys.argv[1:]
    if mode == "hold":
        f = File()
        f.bind(f.create(), arguments[0], int(arguments[1]))
        print("ready", flush=True)
        sys.stdin.read()
        return
    modes = {"facts": facts, "groups": groups, "misuse": misuse, "serve": serve, "dial": dial}
    print(json.dumps(modes[mode](*arguments)))


main()
