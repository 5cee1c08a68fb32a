# SPDX-License-Identifier: Apache-2.0
"""systemd's part in a restart, played: it keeps what the daemon gives it (sd_notify, FDSTORE=1) and passes it to the
next run (LISTEN_FDS). The real one is in test_service.py."""
import array
import fcntl
import os
import socket

import testbed

FDS_MAX = 64


class Manager:
    """start(streams, …) as the fixture start_daemon, but with what was kept; one daemon at a time."""

    def __init__(self, start_daemon):
        self.start_daemon = start_daemon
        self.kept = []  # (name, descriptor), in the order of coming
        self.units = []  # the same of socket units, which come first
        self.log = []   # messages of all runs
        self.texts = []  # logs of the runs that have ended
        self.n_runs = 0
        self.on_message = None  # called with each message's fields, after it was obeyed

    def names(self):
        return [name for name, _ in self.kept]

    def start(self, streams, name="ibvcapd", environment=None, **options):
        # The daemon wants them from 3 on; by way of numbers that are not in the way.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 200) for _, fd in self.units + self.kept]
        moves = " ".join(f"{3 + i}<&{fd} {fd}<&-" for i, fd in enumerate(high))
        environment = {"FDSTORE": str(FDS_MAX), **(environment or {})}
        if high:
            environment |= {"LISTEN_FDS": str(len(high)),
                            "LISTEN_FDNAMES": ":".join(name for name, _ in self.units + self.kept)}
        prefix = ["bash", "-c", f'LISTEN_PID=$$ exec "$@" {moves}', "bash"]
        self.n_runs += 1
        self.daemon = self.start_daemon(streams, name=name, prefix=prefix, environment=environment, pass_fds=high,
                                        **options)
        for fd in high:
            os.close(fd)
        self.daemon.notifications = self.take
        return self.daemon

    def take(self, timeout):
        """The next message, obeyed."""
        notify = self.daemon.notify
        notify.settimeout(timeout)
        try:
            data, ancillary, _, _ = notify.recvmsg(4096, socket.CMSG_LEN(FDS_MAX * 4))
        except TimeoutError:
            return ""
        fds = array.array("i")
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(payload)
        message = data.decode()
        fields = dict(line.split("=", 1) for line in message.splitlines() if "=" in line)
        self.log.append(fields)
        self.obey(fields, list(fds))
        if self.on_message:
            self.on_message(fields)
        return message

    def obey(self, fields, fds):
        name = fields.get("FDNAME", "stored")
        if fields.get("FDSTOREREMOVE") == "1":
            for entry in [entry for entry in self.kept if entry[0] == name]:
                self.kept.remove(entry)
                os.close(entry[1])
        if fields.get("FDSTORE") == "1":
            for fd in fds:
                if len(self.kept) < FDS_MAX and not any(os.path.sameopenfile(fd, other) for _, other in self.kept):
                    self.kept.append((name, fd))
                else:
                    os.close(fd)
        else:
            for fd in fds:
                os.close(fd)

    def take_all(self):
        while self.take(0.05):
            pass

    def restart(self, streams, stop_signal, **options):
        """As Restart=: the next run begins when this one has ended, however it did."""
        self.daemon.process.send_signal(stop_signal)
        self.daemon.process.wait(60)
        self.take_all()
        self.daemon.kill()
        self.texts.append(self.daemon.text())
        return self.start(streams, **options)

    def close(self):
        for _, fd in self.units + self.kept:
            os.close(fd)


def joined(net, wire):
    """Groups that the receiver's interface is in."""
    return joined_on(net, wire.interface)


def joined_on(net, interface):
    lines = testbed.run("ip", "-n", net.rx, "maddress", "show", "dev", interface).stdout.splitlines()
    return {line.split()[1] for line in lines if line.split()[0] == "inet"}
