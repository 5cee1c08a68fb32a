# SPDX-License-Identifier: Apache-2.0
"""softhca below unmodified programs: a plain verbs client, shells, and direct readers of sysfs.

IBVCAP_BUILD_DIR names the build directory (default: build/dev).
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

import frames
from wires import ROOT, Net, in_namespace, ledgers, run, wait_until
from softhca import CLIENT, GROUP, LIBRARY, PORT, RULES, SOFTHCA, Client, keep_rule
from softhca import for_all_users, needs_softhca, output, records, under

pytestmark = needs_softhca


# ---- the device as tools see it ------------------------------------------------------------------------------------


def test_profiles(net):
    out = subprocess.run(Net.command(net.rx, SOFTHCA, "-i", "rx0", "-p", "connectx6", "ibv_devinfo"), check=True,
                         capture_output=True, text=True).stdout
    assert "vendor_part_id:\t\t\t4123" in out


def test_direct_readers_of_sysfs(net, wire):
    script = f"""
        cd /; ls /sys/class/infiniband /sys/class/infiniband_verbs /dev/infiniband
        cat /sys/class/infiniband/mlx5_0/ports/1/state /sys/class/infiniband/mlx5_0/node_type
        cat /sys/class/infiniband/mlx5_0/ports/1/gids/2 /sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/2
        ls /sys/class/net/{wire.interface}/device/infiniband /sys/class/infiniband/mlx5_0/device/net
        cat /sys/class/infiniband/mlx5_0/device/net/{wire.interface}/dev_port
        cat /sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_buffer
        test -e /sys/class/infiniband/mlx5_1 || echo no second
        test -L /sys/class/infiniband/mlx5_0 && basename $(readlink /sys/class/infiniband/mlx5_0/device)
        test -c /dev/infiniband/uverbs0 && stat -c %t:%T /dev/infiniband/uverbs0
        cat /sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/200 2>&1 | grep -o Invalid.*
    """
    address = wire.address.split(".")
    hexed = ":".join("%02x%02x" % (int(address[i]), int(address[i + 1])) for i in (0, 2))
    assert output(net, "bash", "-c", script).split("\n") == [
        "/dev/infiniband:", "rdma_cm", "uverbs0", "", "/sys/class/infiniband:", "mlx5_0", "",
        "/sys/class/infiniband_verbs:", "abi_version",
        "uverbs0", "4: ACTIVE", "1: CA", f"0000:0000:0000:0000:0000:ffff:{hexed}", wire.interface,
        "/sys/class/infiniband/mlx5_0/device/net:", wire.interface, "",
        f"/sys/class/net/{wire.interface}/device/infiniband:",
        "mlx5_0", "0", "0", "no second", "0000:fe:00.0", "e7:c0", "Invalid argument", ""]


def test_python_reads_sysfs(net):
    script = ("import os; print(os.listdir('/sys/class/infiniband'), os.path.exists('/dev/infiniband/uverbs0'),"
              "open('/sys/class/infiniband/mlx5_0/ports/1/link_layer').read().strip(),"
              "os.path.exists('/sys/class/infiniband/nonsense'))")
    assert output(net, "/usr/bin/python3", "-c", script) == "['mlx5_0'] True Ethernet False\n"


def test_nothing_is_seen_without_interfaces():
    out = subprocess.run(["ls", "/sys/class/infiniband/mlx5_0"], capture_output=True, text=True, check=False,
                         env={**os.environ, "LD_PRELOAD": str(LIBRARY)})
    assert out.returncode != 0 and "No such file" in out.stderr


# ---- the command ---------------------------------------------------------------------------------------------------


def test_exit_status_and_arguments_pass_through(net):
    done = subprocess.run(under(net, "sh", "-c", 'printf "%s|" "$@"; exit 7', "sh", "a b", "", "$x"),
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (7, "a b||$x|")


def test_a_path_that_cannot_be_preloaded_is_refused(net, tmp):
    place = tmp / "a b"
    place.mkdir()
    for built in (SOFTHCA, LIBRARY):
        shutil.copy(built, place)
    command = Net.command(net.rx, place / "softhca", "-i", "rx0", "--", "ibv_devices")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (64, ""), done
    assert "LD_PRELOAD takes no path with a space or a colon" in done.stderr
    (tmp / "link.so").symlink_to(place / LIBRARY.name)
    command[-2:-2] = ["-l", str(tmp / "link.so")]
    assert "mlx5_0" in run(*command).stdout


def test_signals_pass_through(net):
    process = subprocess.Popen(under(net, "sleep", "60"))
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM


def test_a_missing_interface_is_one_line(net):
    done = subprocess.run(under(net, "true", interfaces="nope0"), capture_output=True, text=True, check=False)
    assert done.returncode == 66
    assert done.stderr == "softhca: no network device called nope0; see: ip -br link\n"


def test_an_interface_has_all_of_its_names(net, wire):
    name = "a-name-of-an-interface-that-is-longer-than-fifteen-characters"
    run("ip", "-n", net.rx, "link", "property", "add", "dev", wire.interface, "altname", name)
    other = net.add_wire().interface
    done = run(*under(net, "sh", "-c", "echo $SOFTHCA_INTERFACES; ls /sys/class/net/*/device/infiniband",
                      interfaces=f"{other},{name}"))
    assert done.stdout.splitlines()[0] == f"{other},{wire.interface}" and "mlx5_1" in done.stdout, done
    for names, status, words in ((f"{wire.interface},{name}", 64, "the same network device twice"),
                                 (f"{name},", 64, "not a list of network devices"),
                                 (name[:-1], 66, "no network device called a-name"),
                                 ("x" * 200, 66, "no network device called xxx"), ("", 66, "-i needs the name")):
        done = subprocess.run(under(net, "true", interfaces=names), capture_output=True, text=True, check=False)
        assert done.returncode == status and words in done.stderr, done


def test_a_missing_interface_is_one_line_without_the_command_too(net, wire):
    """Only programs that look for devices say it: a shell may change the namespace first."""
    environment = {**os.environ, "SOFTHCA_INTERFACES": "nope0,rx0", "LD_PRELOAD": str(LIBRARY)}
    line = "softhca: there is no network device called nope0 here, so mlx5_0 does not work; see: ip -br link\n"
    for script, expected in (("test -e /dev/null", ""), ("ls -R /sys/class/infiniband >&-", line)):
        done = subprocess.run(["ip", "netns", "exec", net.rx, "env", *(f"{name}={environment[name]}" for name in (
            "SOFTHCA_INTERFACES", "LD_PRELOAD")), "bash", "-c", script], capture_output=True, text=True, check=False)
        assert [text for text in done.stderr.splitlines(True) if text.startswith("softhca")] == [expected][:bool(
            expected)], done
    assert wire


def test_version():
    project = re.search(r"^project\(ibvcap VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)
    assert run(SOFTHCA, "--version").stdout == f"softhca {project[1]}\n"


def test_a_privileged_program_is_refused(tmp):
    """ld.so(8): LD_PRELOAD is ignored, and unset for all that the program starts."""
    program = tmp / "ls"
    shutil.copy("/bin/ls", program)
    tmp.chmod(0o755)
    as_nobody = ("setpriv", "--reuid=65534", "--clear-groups", for_all_users(tmp), "-i", "lo", "--", program,
                 "/sys/class/infiniband")
    assert run(*as_nobody).stderr == ""
    without_gain = ("setpriv", "--no-new-privs", *as_nobody)
    for gain, refused in ((("chmod", "u+s", program), (as_nobody,)),
                          (("setcap", "cap_net_raw+ep", program), (as_nobody, without_gain))):
        program.chmod(0o755)
        run(*gain)
        for command in refused:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 64 and done.stderr.count("\n") == 1, done
            assert "the dynamic linker ignores LD_PRELOAD for programs that are set-uid" in done.stderr
        assert without_gain in refused or run(*without_gain).stdout == "mlx5_0\n"
    assert run(*as_nobody[3:]).stdout == "mlx5_0\n", "root gains nothing by file capabilities"
    run("setcap", "-r", program)
    os.chown(program, 65534, -1)
    program.chmod(0o4755)
    assert run(*as_nobody).stdout == "mlx5_0\n", "nor a user by a set-uid program of his own"


def test_a_static_program_is_told(tmp):
    source, program = tmp / "static.c", tmp / "static"
    source.write_text("int main(void) { return 7; }")
    run("cc", "-static", "-o", program, source)
    done = subprocess.run([SOFTHCA, "-i", "lo", program], capture_output=True, text=True, check=False)
    assert done.returncode == 7
    assert done.stderr == (f"softhca: {program}: is statically linked, so it does not see the devices; programs that "
                           "it starts do\n")


def test_offloads_that_are_on_are_told(net, wire):
    """Frames that no wire has: without a checksum, or longer than the MTU."""
    client = Client(net, "-a", wire.address, "-c", 3)
    run("ip", "netns", "exec", net.tx, "ethtool", "-K", wire.tx, "tx", "on")
    try:
        sender = in_namespace(net.tx, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        for _ in range(2):
            sender.sendto(b"x" * 50, (wire.address, PORT))
        for namespace, device in ((net.rx, wire.interface), (net.tx, wire.tx)):
            run("ip", "-n", namespace, "link", "set", device, "mtu", "9600")
        wire.send(*[wire.frame(b"x" * 9500, PORT)] * 2, wire.frame(b"x" * 50, PORT))
        out, err = client.process.communicate(timeout=60)
    finally:
        run("ip", "netns", "exec", net.tx, "ethtool", "-K", wire.tx, "tx", "off")
        for namespace, device in ((net.rx, wire.interface), (net.tx, wire.tx)):
            run("ip", "-n", namespace, "link", "set", device, "mtu", "9000")
    assert client.process.returncode == 0, out
    lines = err.splitlines()
    assert len(lines) == 2 and "on its end: ethtool -K IF tx off" in lines[0], err
    assert "a frame of 9542 bytes counts as a discard" in lines[1], err


def test_datagrams_that_the_kernel_joined_are_told_with_the_offload_that_parts_them(net, wire):
    """UDP_SEGMENT: ten datagrams in one packet, which a wire does not have."""
    client = Client(net, "-a", wire.address, "-c", 10)
    offload = ["ip", "netns", "exec", net.tx, "ethtool", "-K", wire.tx]
    try:
        run(*offload, "tx", "on", "tx-udp-segmentation", "on")
        sender = in_namespace(net.tx, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sender.setsockopt(socket.IPPROTO_UDP, 103, 1000)  # UDP_SEGMENT
        sender.sendto(b"x" * 10000, (wire.address, PORT))
        run(*offload, "tx-udp-segmentation", "off")
        sender.sendto(b"x" * 10000, (wire.address, PORT))
        out, err = client.process.communicate(timeout=60)
    finally:
        run(*offload, "tx", "off", "tx-udp-segmentation", "off")
    assert client.process.returncode == 0, out
    assert "a frame of 10042 bytes counts as a discard" in err and "tx-udp-segmentation off" in err, err


# ---- rules ---------------------------------------------------------------------------------------------------------


NEEDS_A_FRAME = "send-inline-with-checksums"  # has a test of its own


def rules():
    if not RULES.exists():
        return []
    return [name for name in (line.split("\t")[0] for line in run(RULES, "list").stdout.splitlines())
            if name != NEEDS_A_FRAME]


@pytest.mark.parametrize("rule", rules())
def test_rule(net, wire, rule):
    leaves_objects = {"ASAN_OPTIONS": "detect_leaks=0"} if rule == "closing-frees-what-is-left" else {}
    keep_rule(net, wire, rule, HAS_IPC_LOCK="1", **leaves_objects)


def test_memlock_counts_without_ipc_lock(net):
    done = subprocess.run(under(net, RULES, "mr-memlock-limit", prefix=("setpriv", "--bounding-set=-ipc_lock")),
                          capture_output=True, text=True, check=False)
    assert done.stdout == "kept\n", done


def test_raw_queue_needs_net_raw(net):
    done = subprocess.run(under(net, CLIENT, prefix=("setpriv", "--bounding-set=-net_raw")), capture_output=True,
                          text=True, check=False)
    assert done.returncode == 1
    assert "ibv_create_qp_ex (errno 1" in done.stderr


# ---- receiving -----------------------------------------------------------------------------------------------------


def test_frames_arrive_byte_for_byte(net, wire, tmp):
    sent = [wire.frame(bytes((i * 7 + k) & 255 for k in range(size)), PORT)
            for i, size in enumerate((1, 17, 18, 19, 100, 1472, 4000, 8900))]
    client = Client(net, "-c", len(sent), "-w", tmp / "dump", "-a", wire.address)
    wire.send(*sent)
    counts = client.counts()
    # IEEE 802.3: a frame on a wire has at least 60 bytes before its FCS.
    assert records(tmp / "dump") == [frame.ljust(60, b"\0") for frame in sent]
    assert counts["csum_ok"] == len(sent) and counts["errors"] == 0 and counts["backwards"] == 0


def test_only_matching_frames_are_taken(net, wire, tmp):
    client = Client(net, "-a", wire.address, "-c", 2, "-w", tmp / "dump")
    others = wire.frame(b"x" * 50, PORT + 1), frames.udp_frame(b"x" * 50, "10.9.9.9", PORT, wire.mac_bytes())
    matching = [wire.frame(b"x" * 50, PORT), wire.frame(b"x" * 50, PORT, source="10.1.1.1")]
    wire.send(others[0], matching[0], others[1], matching[1])
    assert client.counts()["matched"] == 2
    assert records(tmp / "dump") == matching


def test_frames_for_another_mac_stay_out_unless_promiscuous(net, wire):
    other = frames.udp_frame(b"x" * 50, wire.address, PORT, bytes.fromhex("020000009999"))
    client = Client(net, "-i", 300)
    wire.send(other)
    assert client.counts()["matched"] == 0
    run("ip", "-n", net.rx, "link", "set", wire.interface, "promisc", "on")
    client = Client(net, "-c", 1)
    wire.send(other)
    assert client.counts()["received"] == 1


def test_multicast_needs_a_join(net, wire):
    """verbs-rules.md: multicast needs an IGMP join by an ordinary socket on that interface."""
    client = Client(net, "-a", GROUP, "-i", 300)
    wire.send(wire.frame(b"x" * 50, PORT, destination=GROUP))
    assert client.counts()["matched"] == 0
    client = Client(net, "-a", GROUP, "-c", 1, "-g", wire.interface)
    wire.send(wire.frame(b"x" * 50, PORT, destination=GROUP))
    assert client.counts()["received"] == 1


def test_ipv6(net, wire):
    client = Client(net, "-a", "fd00::1", "-c", 1)
    wire.send(frames.udp_frame(b"x" * 50, "fd00::1", PORT, wire.mac_bytes()))
    assert client.counts()["received"] == 1


def test_checksum_flag_is_true(net, wire):
    """A frame with a wrong checksum is received, without the flag."""
    good = bytearray(wire.frame(b"y" * 64, PORT))
    bad_ip, bad_udp = bytearray(good), bytearray(good)
    bad_ip[24] ^= 0xFF
    bad_udp[40:42] = b"\x12\x34"
    client = Client(net, "-c", 3)
    wire.send(bytes(good), bytes(bad_ip), bytes(bad_udp))
    counts = client.counts()
    assert (counts["received"], counts["csum_ok"]) == (3, 1)


def test_vlan_tag_is_in_the_frame(net, wire, tmp):
    frame = wire.frame(b"z" * 100, PORT, vlan=0x2005)
    client = Client(net, "-c", 1, "-w", tmp / "dump")
    wire.send(frame)
    assert client.counts()["last_byte_len"] == len(frame)
    assert records(tmp / "dump") == [frame]


def test_vlan_stripping_puts_it_into_the_completion(net, wire, tmp):
    client = Client(net, "-c", 1, "-v", "-w", tmp / "dump")
    wire.send(wire.frame(b"z" * 100, PORT, vlan=0x2005))
    counts = client.counts()
    assert counts["last_cvlan"] == 0x2005
    assert records(tmp / "dump") == [wire.frame(b"z" * 100, PORT)]


def test_events_wake_the_program(net, wire):
    client = Client(net, "-e", "-c", 5)
    for _ in range(5):
        wire.send(wire.frame(b"x" * 50, PORT))
        time.sleep(0.05)
    counts = client.counts()
    assert counts["received"] == 5
    assert 1 <= counts["events"] <= 6


def test_timestamps_run_at_the_core_clock(net, wire):
    """The timestamp is of the frame's arrival: the sender reads its clock before and after. A wrong rate would
    show as a factor."""
    client, sent = Client(net, "-c", 2), []
    for pause in (2, 0):
        before = time.monotonic()
        wire.send(wire.frame(b"x" * 50, PORT))
        sent.append((before, time.monotonic()))
        time.sleep(pause)
    seconds = client.counts()["ticks"] / 78125e3
    assert (sent[1][0] - sent[0][1]) / 1.5 < seconds < (sent[1][1] - sent[0][0]) * 1.5


def test_starved_queue_counts_what_it_drops(net, wire):
    client = Client(net, "-n", 64, "-r", "-m", 1000)
    wire.send(*[wire.frame(b"x" * 50, PORT)] * 1000)
    counts = client.counts()
    assert (counts["received"], counts["out_of_buffer"]) == (64, 936)


def test_two_devices_are_two_wires(net, tmp):
    second = net.add_wire()
    client = Client(net, "-d", "mlx5_1", "-c", 2, "-w", tmp / "dump", interfaces="rx0,rx1")
    net.wires[0].send(net.wires[0].frame(b"other" * 10, PORT))
    second.send(*[second.frame(b"x" * 50, PORT)] * 2)
    client.counts()
    assert records(tmp / "dump") == [second.frame(b"x" * 50, PORT)] * 2


def test_reception_goes_on_after_the_link_was_down(net, wire):
    client = Client(net, "-c", 2)
    wire.send(wire.frame(b"x" * 50, PORT))
    for state in ("down", "up"):
        run("ip", "-n", net.rx, "link", "set", wire.interface, state)
        # The sender's end learns of it later, and drops frames until then.
        wait_until(lambda up=state == "up": (wire.link(net.tx, wire.tx)["operstate"] == "UP") == up, 60,
                   f"the link {state}")
    wire.send(wire.frame(b"x" * 50, PORT))
    assert client.counts()["received"] == 2


def test_environment_alone_is_enough(net, wire):
    listed = subprocess.run(Net.command(net.rx, "ibv_devices"), capture_output=True, text=True, check=True,
                            env={**os.environ, "SOFTHCA_INTERFACES": wire.interface, "LD_PRELOAD": str(LIBRARY)}).stdout
    assert "mlx5_0" in listed


def test_killed_leaves_nothing_but_counters(net, wire):
    before = in_namespace(net.rx, ledgers)
    client = Client(net, "-i", 60000)
    client.process.send_signal(signal.SIGKILL)
    assert client.process.wait(60) == -signal.SIGKILL
    client.process.stdout.close()
    left = in_namespace(net.rx, ledgers) - before
    assert all(re.fullmatch(r"softhca-[0-9a-f]+-\d+", ledger.name) for ledger in left) and len(left) <= 1, left
    assert Client(net, "-i", 100).counts()["received"] == 0  # and the next one starts afresh


def test_below_address_sanitizer(net, wire, tmp):
    support = ROOT / "softhca/tests/support"
    program = tmp / "client"
    run("gcc", "-std=gnu11", "-g", "-D_GNU_SOURCE", "-fsanitize=address,undefined", support / "verbs_client.c",
        support / "verbs_common.c", "-libverbs", "-o", program)
    client = Client(net, "-c", 100, program=program)
    wire.send(*[wire.frame(b"x" * 50, PORT)] * 100)
    assert client.counts()["received"] == 100


# ---- sending -------------------------------------------------------------------------------------------------------


def open_udp(address, port):
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind((address, port))
    receiver.settimeout(60)
    return receiver


def receive_one(wire, seconds=60):
    """The next frame at the other end that is not the kernel's own."""
    wire.socket.settimeout(seconds)
    while True:
        frame = wire.socket.recv(65536)
        if frame[12:14] == b"\x88\xb5":
            return frame


def test_inline_send_with_checksum_offload(net, wire):
    """The other end's kernel accepts the checksums, which were wrong when the frame was posted."""
    frame = bytearray(frames.udp_frame(b"inline", wire.tx_address, 4321, bytes.fromhex(
        wire.link(net.tx, wire.tx)["address"].replace(":", "")), source=wire.address))[:48]
    frame[24:26] = b"\0\0"
    receiver = in_namespace(net.tx, lambda: open_udp(wire.tx_address, 4321))
    subprocess.run(under(net, RULES, NEEDS_A_FRAME), check=True, env={**os.environ, "FRAME": bytes(frame).hex()})
    assert receiver.recv(100) == b"inline"
    receiver.close()


def test_two_segments_leave_as_one_frame(net, wire):
    wire.socket.bind((wire.tx, 3))
    subprocess.run(under(net, RULES, "send-two-segments"), check=True, capture_output=True)
    for _ in range(50):
        frame = receive_one(wire)
        assert len(frame) == 242 and frame[42:] == bytes(range(200))


def test_sent_frames_leave_the_netdev(net, wire):
    wire.socket.bind((wire.tx, 3))  # ETH_P_ALL: receive too
    subprocess.run(under(net, RULES, "send-only-signalled-complete"), check=True, capture_output=True)
    assert len(receive_one(wire)) == 100
