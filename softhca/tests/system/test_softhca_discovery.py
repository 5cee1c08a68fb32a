# SPDX-License-Identifier: Apache-2.0
"""How programs find the device in sysfs: PCI functions, netdevs of RDMA devices, and the programs of infiniband-diags.

A file that another program reads is read by cat, ls, readlink and shells: each has its own way to a file.
"""
import os
import pathlib
import shutil
import subprocess

import pytest

from softhca import needs_softhca, output, under

IB, PCI, FUNCTION = "/sys/class/infiniband", "/sys/bus/pci/devices", "/sys/devices/pci0000:fe/0000:fe:00.0"
# As Mellanox' ibdev2netdev finds pairs: the same PCI resource, and dev_port one less than the port.
IBDEV2NETDEV = r"""
for ib in /sys/class/infiniband/*; do
  for net in /sys/class/net/*; do
    [ -r $net/device/resource ] || continue
    [ "$(cat $ib/device/resource)" = "$(cat $net/device/resource)" ] || continue
    port=$(($(cat $ib/device/net/${net##*/}/dev_port) + 1))
    echo "${ib##*/} port $port ==> ${net##*/} ($(cat $ib/device/net/${net##*/}/operstate))"
  done
done"""

pytestmark = needs_softhca


def has_program(name):
    return pytest.mark.skipif(not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin"),
                              reason=f"{name} is not installed")


@pytest.mark.parametrize("path, target, place", [
    (f"{IB}/mlx5_0", "../../devices/pci0000:fe/0000:fe:00.0/infiniband/mlx5_0", f"{FUNCTION}/infiniband/mlx5_0"),
    (f"{IB}/mlx5_0/device", "../../../0000:fe:00.0", FUNCTION),
    (f"{IB}/mlx5_0/device/driver", "../../../bus/pci/drivers/mlx5_core", "/sys/bus/pci/drivers/mlx5_core"),
    (f"{PCI}/0000:fe:00.0", "../../../devices/pci0000:fe/0000:fe:00.0", FUNCTION),
    ("/sys/class/net/rx0/device", "../../../pci0000:fe/0000:fe:00.0", FUNCTION),
    ("/sys/class/infiniband_verbs/uverbs0/ibdev", "", f"{FUNCTION}/infiniband_verbs/uverbs0/ibdev")])
def test_links_lead_to_the_pci_function(net, wire, path, target, place):
    """The target of each link is what realpath(3) and a program that follows link by link find."""
    assert output(net, "sh", "-c", f"readlink {path}; true").strip() == target
    assert output(net, "readlink", "-f", path).strip() == place
    assert output(net, "/usr/bin/python3", "-c", f"import os; print(os.path.realpath('{path}'))").strip() == place
    assert output(net, "bash", "-c", f"[ {path} -ef {path} ] && echo it is there") == "it is there\n"


def test_pci_functions_are_listed_with_those_that_are_there(net):
    net.add_wire()
    listed = output(net, "ls", PCI, interfaces="rx0,rx1").split()
    assert set(listed) == {"0000:fe:00.0", "0000:fe:01.0"} | set(os.listdir(PCI) if os.path.isdir(PCI) else [])
    assert len(listed) == len(set(listed))
    found = output(net, "cat", f"{PCI}/0000:fe:01.0/vendor", f"{PCI}/0000:fe:01.0/class", interfaces="rx0,rx1")
    assert found.split() == ["0x15b3", "0x020000"]
    for real in set(listed) - {"0000:fe:00.0", "0000:fe:01.0"}:
        path = pathlib.Path(PCI, real, "vendor")
        assert output(net, "cat", path) == path.read_text()


def test_configuration_space_says_the_same_as_sysfs(net, wire):
    config = output(net, "od", "-An", "-tx2", "-N4", f"{PCI}/0000:fe:00.0/config").split()
    assert ["0x" + word for word in config] == output(net, "cat", f"{PCI}/0000:fe:00.0/vendor",
                                                      f"{PCI}/0000:fe:00.0/device").split()


def test_netdev_of_the_rdma_device(net, wire):
    """device/net/IF has the attributes of the netdev itself."""
    directory = f"{IB}/mlx5_0/device/net"
    assert output(net, "ls", directory).split() == ["rx0"]
    names = output(net, "ls", f"{directory}/rx0").split()
    assert {"address", "dev_id", "dev_port", "ifindex", "mtu", "operstate", "speed"} <= set(names)
    for name in ("address", "dev_id", "dev_port", "ifindex", "mtu", "operstate", "flags", "carrier"):
        assert output(net, "cat", f"{directory}/rx0/{name}") == output(net, "cat", f"/sys/class/net/rx0/{name}"), name


def test_a_script_pairs_devices_with_netdevs(net):
    net.add_wire()
    assert output(net, "bash", "-c", IBDEV2NETDEV, interfaces="rx1,rx0").splitlines() == [
        "mlx5_0 port 1 ==> rx1 (up)", "mlx5_1 port 1 ==> rx0 (up)"]


def test_a_shell_may_go_there(net, wire):
    """chdir(2), getcwd(3), and names relative to the working directory, until it leaves."""
    script = f"cd {IB}/mlx5_0/ports && pwd && echo * && cd 1/gid_attrs && echo n* && cd /proc/self && ls -d status"
    assert output(net, "sh", "-c", script).split() == [f"{IB}/mlx5_0/ports", "1", "ndevs", "status"]
    script = f"cd {IB}/mlx5_0/none 2>/dev/null || cd {IB}/mlx5_0/fw_ver 2>/dev/null || pwd"
    assert output(net, "sh", "-c", script) == f"{os.getcwd()}\n"


@has_program("ibstat")
def test_ibstat(net, wire):
    lines = [line.strip() for line in output(net, "/usr/sbin/ibstat").splitlines()]
    mac = bytearray(wire.mac_bytes())
    mac[0] ^= 2
    guid = "0x" + (mac[:3] + b"\xff\xfe" + mac[3:]).hex()
    assert lines[0] == "CA 'mlx5_0'"
    assert {"CA type: MT4119", "Number of ports: 1", "Firmware version: 16.35.2000", f"Node GUID: {guid}",
            "State: Active", "Physical state: LinkUp", "Rate: 100", "Link layer: Ethernet"} <= set(lines)
    assert output(net, "/usr/sbin/ibstat", "-l").split() == ["mlx5_0"]


@has_program("ibstatus")
def test_ibstatus(net, wire):
    lines = [" ".join(line.split()) for line in output(net, "/usr/sbin/ibstatus").splitlines()]
    assert lines[0] == "Infiniband device 'mlx5_0' port 1 status:"
    assert {"state: 4: ACTIVE", "phys state: 5: LinkUp", "rate: 100 Gb/sec (4X EDR)"} <= set(lines)


def test_ls_has_no_complaint(net, wire):
    """It asks for extended attributes, and for ".." of directories that only softhca knows."""
    done = subprocess.run(under(net, "ls", "-laR", "/dev/infiniband", f"{IB}/mlx5_0/ports/1/hw_counters",
                                "/sys/class/infiniband_verbs/uverbs0/"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") and "uverbs0\n" in done.stdout and wire.interface == "rx0"


SAYS_ATTRIBUTES = """
import errno, os
def error(call, *arguments):
    try:
        call(*arguments)
    except OSError as e:
        return errno.errorcode[e.errno]
print(os.listxattr("/dev/infiniband/uverbs0"), error(os.getxattr, "/dev/infiniband/uverbs0", "user.x"),
      error(os.listxattr, "/dev/infiniband/uverbs7"), error(os.getxattr, "/dev/infiniband/uverbs7", "user.x"))
print(os.stat("/dev/infiniband/..").st_ino == os.stat("/dev").st_ino, error(os.stat, "/dev/infiniband/../nothing"),
      error(os.stat, "/dev/nothing/../null"))
"""


def test_files_have_no_attributes_and_directories_end(net, wire):
    done = subprocess.run(under(net, "/usr/bin/python3", "-c", SAYS_ATTRIBUTES), capture_output=True, text=True,
                          check=True)
    assert done.stdout == "[] ENODATA ENOENT ENOENT\nTrue ENOENT ENOENT\n" and wire.interface == "rx0"
