# SPDX-License-Identifier: Apache-2.0
"""doc/containers.md: a consumer in a container that has the socket's directory and nothing else, and the manifest."""
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

import testbed
from ibvcap_tool import IBVCAP, ibvcap

MANIFEST = testbed.ROOT / "contrib/container/kubernetes.yaml"
FIRST_USER = 1_000_000 + (os.getpid() << 16) % 1_000_000_000  # of the container's namespace

needs_nspawn = pytest.mark.skipif(not shutil.which("systemd-nspawn") or os.geteuid() != 0,
                                  reason="needs root and systemd-nspawn: apt install systemd-container")


@pytest.fixture
def root(tmp):
    """The smallest tree: the tool and its libraries."""
    if testbed.is_sanitized():
        pytest.skip("the container has no sanitizer's libraries")
    tree = tmp / "root"
    for name in ("usr/bin", "usr/lib", "usr/lib64", "etc", "run", "tmp", "proc", "sys", "dev"):
        (tree / name).mkdir(parents=True)
    for name in ("lib", "lib64"):
        (tree / name).symlink_to(f"usr/{name}")
    (tree / "etc/os-release").write_text("ID=test\n")
    shutil.copy(IBVCAP, tree / "usr/bin")
    for library in re.findall(r"(/\S+) \(0x", testbed.run("ldd", IBVCAP).stdout):
        # Those of this tree, which may be below a directory that the container has of its own, where the linker looks
        # at last.
        copy = tree / library.lstrip("/") if library.startswith(("/lib", "/usr/")) else tree / "usr/lib" / \
            pathlib.Path(library).name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, copy)
    return tree


def nspawn(root, directory):
    """As doc/containers.md has it. The container's root is FIRST_USER of this machine."""
    return ["systemd-nspawn", "-q", f"--machine=ibvcap-{os.getpid()}", f"--directory={root}", "--register=no",
            "--keep-unit", "--console=pipe", "--as-pid2", "--read-only", "--private-network",
            f"--private-users={FIRST_USER}:65536", "--private-users-ownership=map", "--drop-capability=all",
            "--no-new-privileges=yes", f"--bind-ro={directory}:/run/ibvcapd", "--"]


def podman(root, directory):
    """Likewise, as root. The limits are those that any machine lets it set."""
    tmp = root.parent
    testbed.run("chown", "-R", f"{FIRST_USER}:{FIRST_USER}", root)  # podman makes files there
    settings = tmp / "storage.conf"
    settings.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{tmp}/graph"\nrunroot = "{tmp}/state"\n')
    return ["env", f"CONTAINERS_STORAGE_CONF={settings}", "podman", "--runtime=runc", "--cgroup-manager=cgroupfs",
            "run", "--rm", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024", "--network=none", "--cap-drop=ALL",
            "--security-opt=no-new-privileges", "--read-only", "--read-only-tmpfs=false",
            f"--uidmap=0:{FIRST_USER}:65536", f"--gidmap=0:{FIRST_USER}:65536",
            f"--volume={directory}:/run/ibvcapd:ro", "--rootfs", root]


def contained(root, directory, *command, runtime=nspawn):  # pylint: disable=redefined-outer-name
    return subprocess.Popen([*runtime(root, directory), *map(str, command)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.parametrize("runtime", [
    pytest.param(nspawn, marks=needs_nspawn),
    pytest.param(podman, marks=[
        pytest.mark.skipif(not os.environ.get("IBVCAP_ALL"), reason="only with scripts/test --all"),
        pytest.mark.skipif(not shutil.which("podman") or not shutil.which("runc"), reason="apt install podman runc")])])
def test_a_consumer_in_a_container_reads_on_over_a_restart(start_daemon, wire, root, tmp, runtime):
    """It is the host's user that is admitted, and whose process the host sees."""
    directory = tmp / "run"
    directory.mkdir()
    streams = [testbed.stream(wire, users=[str(FIRST_USER)])]
    control = {"socket": str(directory / "control.sock")}

    def start():
        one = start_daemon(streams, name="ibvcapd0", control=control)
        one.socket_path = directory / "control.sock"
        return one.wait_ready()

    def send(n):
        wire.send(*[wire.frame(bytes(64), 7502) for _ in range(n)])

    def attached():
        return one.status()["consumers"]

    one = start()
    reader = contained(root, directory, "/usr/bin/ibvcap", "recv", "lidar", "--count", 20, "--reattach", 30,
                       "--socket", "/run/ibvcapd/control.sock", runtime=runtime)
    testbed.wait_until(lambda: attached() or reader.poll() is not None, 30, "the consumer")
    assert attached(), reader.communicate(timeout=30)
    (consumer,) = attached()
    assert consumer["uid"] == FIRST_USER
    status = pathlib.Path(f"/proc/{consumer['pid']}/status").read_text()
    assert "Name:\tibvcap\n" in status and re.search(r"^CapEff:\t0+$", status, re.M)
    assert f"process {consumer['pid']} of user" in ibvcap("why", "lidar", "--socket", one.socket_path).stdout
    send(10)
    testbed.wait_until(lambda: attached() and attached()[0]["delivered"] == 10, 20, "10 packets")
    one.stop_clean()
    one = start()
    testbed.wait_until(lambda: attached() or reader.poll() is not None, 30, "the consumer comes again")
    send(10)
    code, out, err = finish(reader)
    assert "lidar: 20 packets" in out, out + err
    assert code in (0, 1, 2), out + err  # whether the restart lost some is not known
    one.stop_clean()


def test_a_consumer_outside_of_the_daemons_pid_namespace_is_said_to_be_there(start_daemon, wire, recv):  # noqa: F811
    one = start_daemon([testbed.stream(wire)], prefix=["unshare", "--pid", "--fork", "--kill-child"]).wait_ready()
    reader = recv(one)
    process = f"process 0, outside of ibvcapd's PID namespace, of user nobody ({testbed.NOBODY.pw_uid})"
    assert f"consumer of lidar: {process}, lossy" in ibvcap("status", "--socket", one.socket_path).stdout
    assert f"consumer {process}\n" in ibvcap("why", "lidar", "--socket", one.socket_path).stdout
    assert reader.finish(signal.SIGTERM)[0] == 0


@needs_nspawn
def test_the_daemon_admits_no_number_that_only_the_container_knows(daemon, wire, root, tmp):
    one = daemon([testbed.stream(wire, users=["1"])])
    code, _, err = finish(contained(root, tmp, "/usr/bin/ibvcap", "recv", "lidar", "--socket",
                                    f"/run/ibvcapd/{one.socket_path.name}"))
    assert code == 77 and "lidar" in err, err


# ---- the manifest --------------------------------------------------------------------------------------------------


def documents():
    return pytest.importorskip("yaml").safe_load_all(MANIFEST.read_text())


def test_the_manifest_is_what_kubernetes_knows():
    """Each object becomes one of Kubernetes' own types, and has the same keys and values when it is written again."""
    if not pathlib.Path("/usr/lib/python3/dist-packages/kubernetes").is_dir():
        pytest.skip("there is no schema of Kubernetes: apt install python3-kubernetes")
    from kubernetes import client  # pylint: disable=import-error,import-outside-toplevel
    api = client.ApiClient()
    kinds = []
    for document in documents():
        kinds.append(document["kind"])
        made = api._ApiClient__deserialize(document, f"V1{document['kind']}")  # pylint: disable=protected-access
        assert api.sanitize_for_serialization(made) == document
    assert kinds == ["ConfigMap", "DaemonSet", "Pod"]


def test_the_daemon_runs_with_the_capabilities_and_the_configuration_of_the_manifest(start_daemon, wire, tmp):
    configuration, daemon_set, pod = documents()
    container = daemon_set["spec"]["template"]["spec"]["containers"][0]
    names = [f"+{name.lower()}" for name in container["securityContext"]["capabilities"]["add"]]
    if testbed.BACKEND == "xdp":
        names += ["+net_admin", "+bpf"]
    directory = tmp / "run"
    directory.mkdir()
    os.chown(directory, testbed.NOBODY.pw_uid, testbed.NOBODY.pw_gid)
    one = start_daemon([testbed.stream(wire)], user="nobody", control={"socket": str(directory / "control.sock")},
                       prefix=["setpriv", "--bounding-set", ",".join(["-all", *names])])
    one.socket_path = directory / "control.sock"
    one.wait_ready()
    status = pathlib.Path(f"/proc/{one.pid()}/status").read_text()
    assert re.search(rf"^Uid:\t{testbed.NOBODY.pw_uid}\t", status, re.M)
    text = configuration["data"]["ibvcapd.conf"]
    user = pod["spec"]["containers"][0]["securityContext"]["runAsUser"]
    assert f'users = [ "{user}" ]' in text
    (tmp / "manifest.conf").write_text(text.replace("eth0", wire.interface))
    done = subprocess.run([testbed.BUILD / "daemon/ibvcapd", "--dump-config", "--config", tmp / "manifest.conf"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_and_the_manifest_name_what_is_there():
    text = (testbed.ROOT / "doc/containers.md").read_text()
    add = list(documents())[1]["spec"]["template"]["spec"]["containers"][0]["securityContext"]["capabilities"]["add"]
    needed = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)?\b", " ".join(re.findall(r"^\| ([A-Z].*?) \|", text, re.M))))
    assert set(add) == needed - {"NET_ADMIN", "BPF"}
    for name in re.findall(r"\]\(\.\./(.*?)\)", text):
        assert (testbed.ROOT / name).exists(), name
