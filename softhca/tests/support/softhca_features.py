#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of softhca's README, made from what is built: settings, rules, models, and what the device answers to
everything that the kernel's headers name.

softhca_features.py BUILD_DIR [README]   prints them by section, or writes them into the README
"""
import ctypes
import errno
import fcntl
import os
import re
import struct
import subprocess
import sys

INCLUDE = "/usr/include/"
HEADERS = ("rdma/ib_user_verbs.h", "rdma/ib_user_ioctl_cmds.h", "rdma/ib_user_ioctl_verbs.h", "rdma/mlx5-abi.h",
           "rdma/mlx5_user_ioctl_cmds.h", "rdma/mlx5_user_ioctl_verbs.h", "infiniband/verbs.h")
EXTENDED = 1 << 31
RDMA_VERBS_IOCTL = 0xC0181B01
MLX5 = 1  # enum rdma_driver_id
DYNAMIC_UAR = 2  # MLX5_LIB_CAP_DYN_UAR
NAMES = {errno.EOPNOTSUPP: "EOPNOTSUPP"}  # and not ENOTSUP, which is the same
METHODS_OF = {"actions_flow_action_ops": "FLOW_ACTION", "actions_counters_ops": "COUNTERS"}
SPEC_BYTES = {"ETH": 32, "IPV4": 24, "IPV6": 80, "ESP": 16, "TCP": 8, "UDP": 8, "VXLAN_TUNNEL": 8, "GRE": 8, "MPLS": 8,
              "INNER": 32, "ACTION_TAG": 8, "ACTION_DROP": 0, "ACTION_HANDLE": 8, "ACTION_COUNT": 8}
SIZES = {"__u8": 1, "__u16": 2, "__u32": 4, "__aligned_u64": 8, "__be64": 8}
# Fields of flags: the names of their bits.
BITS = {"device_cap_flags": "IBV_DEVICE_", "raw_packet_caps": "IBV_RAW_PACKET_CAP_",
        "odp_caps.general_caps": "IBV_ODP_SUPPORT",
        "flags": "MLX5_IB_QUERY_DEV_RESP_", "tunnel_offloads_caps": "MLX5_IB_TUNNELED_OFFLOADS_",
        "cqe_comp_caps.supported_format": "MLX5_IB_CQE_RES_FORMAT_",
        "sw_parsing_caps.sw_parsing_offloads": "MLX5_IB_SW_PARSING",
        "packet_pacing_caps.cap_flags": "MLX5_IB_PP_", "comp_mask": "MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_"}
SAID_BY_DEVINFO = "ib_uverbs_ex_query_device_resp"
NO_CAPABILITY = re.compile(r"(^|\.)(reserved|response_length|node_guid|sys_image_guid|hw_ver|hca_core_clock_offset)$")


def header_text(header):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", open(INCLUDE + header, encoding="utf-8").read(), flags=re.S)


def structs():
    """{name: body} of the structs in the headers. A struct without a name inside of another gets one."""
    text = "".join(header_text(header) for header in HEADERS if header.startswith("rdma/"))
    text, inner = re.sub(r"struct\s*\{([^{}]*)\}\s*(\w+);", r"struct \2 \2;", text), text
    found = {name: body for body, name in re.findall(r"struct\s*\{([^{}]*)\}\s*(\w+);", inner)}
    return found | dict(re.findall(r"struct\s+(\w+)\s*\{([^{}]*)\};", text))


def layout(bodies, name):
    """([(field, offset, bytes)], bytes, alignment) of a struct as the compiler lays it out. The fields of inner
    structs are named by their path."""
    rows, at, widest = [], 0, 1
    for kind, field, count in re.findall(r"(\w+)\s+(\w+)(?:\[(\w*)\])?;", bodies[name]):
        inner, size, align = layout(bodies, kind) if kind not in SIZES else ([], SIZES[kind], SIZES[kind])
        at, widest = (at + align - 1) // align * align, max(widest, align)
        rows += [(f"{field}.{path}".removeprefix("base."), at + offset, width)
                 for path, offset, width in inner] or [(field, at, size)]
        at += size * (int(count) if count else 1)
    return rows, (at + widest - 1) // widest * widest, widest


def enums():
    """{enum's name or a running number: {enumerator: value}} of the headers."""
    found = {}
    for header in HEADERS:
        for match in re.finditer(r"enum\s*(\w*)\s*\{([^}]*)\}", header_text(header)):
            values, last = {}, -1
            for item in match[2].split(","):
                name, _, expression = (part.strip() for part in item.partition("="))
                if not name:
                    continue
                try:
                    last = eval(re.sub(r"\b(\d+|0x[0-9a-fA-F]+)[UL]+\b", r"\1", expression), {}, known(found, values)) \
                        if expression else last + 1
                except (NameError, SyntaxError):
                    continue
                values[name] = last
            found[match[1] or str(len(found))] = values
    return found


def known(found, values):
    names = {"UVERBS_ID_NS_SHIFT": 12, "IB_USER_VERBS_CMD_THRESHOLD": 50, "IB_UVERBS_ACCESS_OPTIONAL_FIRST": 1 << 20}
    for group in (*found.values(), values):
        names.update(group)
    return names


def with_prefix(groups, prefix):
    return {name[len(prefix):]: value for group in groups.values()
            for name, value in group.items() if name.startswith(prefix)}


def answer(call, *arguments):
    """'there', or the name of the errno. What the call created is destroyed again."""
    try:
        undo = call(*arguments)
    except OSError as error:
        return NAMES.get(error.errno, errno.errorcode[error.errno])
    if undo:
        undo()
    return "there"


class Program:
    """A program that talks to the device without libibverbs."""

    def __init__(self, groups):
        self.fd = os.open("/dev/infiniband/uverbs0", os.O_RDWR | os.O_CLOEXEC)
        self.response = ctypes.create_string_buffer(4096)
        self.memory = ctypes.create_string_buffer(1 << 17)
        self.base = (ctypes.addressof(self.memory) + 4095) & ~4095
        self.commands = with_prefix(groups, "IB_USER_VERBS_CMD_")
        self.extended = with_prefix(groups, "IB_USER_VERBS_EX_CMD_")
        self.plain("GET_CONTEXT", 8, struct.pack("<IIIIBBHIQ", 8, 4, 0, 0, 1, 0, 0, 0, DYNAMIC_UAR), 256)
        self.context = self.response.raw[8:]
        self.pd = self.plain("ALLOC_PD", 4, b"", 8)
        self.cq = self.make_cq()
        self.qp = self.make_qp()

    def plain(self, name, out, rest, driver_out=0, response=True):
        """Sends a plain command; returns the first word of the response, the new object's handle."""
        body = (struct.pack("<Q", ctypes.addressof(self.response)) if response else b"") + rest
        header = struct.pack("<IHH", self.commands[name], (len(body) + 8) // 4, (out + driver_out) // 4)
        os.write(self.fd, header + body)
        return struct.unpack_from("<I", self.response)[0]

    def ex(self, name, core, driver, out, driver_out=0):
        core += bytes(-len(core) % 8)
        header = struct.pack("<IHH", EXTENDED | self.extended[name], len(core) // 8, out // 8)
        place = ctypes.addressof(self.response) if out + driver_out else 0
        os.write(self.fd, header + struct.pack("<QHHI", place, len(driver) // 8, driver_out // 8, 0) + core + driver)
        return struct.unpack_from("<I", self.response)[0]

    def ioctl(self, object_id, method_id, attributes=()):
        data = b"".join(struct.pack("<HHHHQ", *a) for a in attributes)
        call = bytearray(struct.pack("<HHHHQIi", 24 + len(data), object_id, method_id, len(attributes), 0, MLX5,
                                     0) + data)
        fcntl.ioctl(self.fd, RDMA_VERBS_IOCTL, call)
        return [struct.unpack_from("<HHHHQ", call, 24 + 16 * i)[4] for i in range(len(attributes))]

    def destroy(self, name, *fields, out=0):
        if name in self.commands:
            self.plain(name, out, struct.pack(f"<{len(fields)}I", *fields), response=bool(out))
        else:
            self.ex(name, struct.pack(f"<{len(fields)}I", *fields), b"", out)

    def make_cq(self, flags=0, driver_flags=0, compressed=0):
        driver = struct.pack("<QQIBBHHHI", self.base, self.base + 0x8000, 64, compressed, compressed, driver_flags, 0,
                             0, 0)
        return self.ex("CREATE_CQ", struct.pack("<QIIiIII", 0, 15, 0, -1, 0, flags, 0), driver, 16 + 0, 8)

    def make_qp(self, qp_type=8, flags=0, driver_flags=0):
        core = struct.pack("<QIIIIIIIIIBBBBIIII", 0, self.pd, self.cq, self.cq, 0, 8, 8, 1, 1, 0, 0, qp_type, 0, 0, 0,
                           flags, 0, 0)
        driver = struct.pack("<QQIIIIIIQIHH", self.base + 0x1000, self.base + 0x8040, 8, 8, 5, driver_flags, 0xFFFFFF,
                             0, self.base + 0x2000, 0, 0, 0)
        # The handle is what the response starts with.
        return self.ex("CREATE_QP", core, driver, 40, 32)

    def make_wq(self, flags=0, driver_flags=0):
        core = struct.pack("<IIQIIIIII", 0, 0, 0, self.pd, self.cq, 8, 1, flags, 0)
        driver = struct.pack("<QQIIIIIIII", self.base + 0x3000, self.base + 0x8080, 8, 5, 0, driver_flags, 0, 0, 0, 0)
        self.ex("CREATE_WQ", core, driver, 24, 8)
        return struct.unpack_from("<I", self.response, 8)[0]

    def make_mr(self, access):
        return self.plain("REG_MR", 12, struct.pack("<QQQII", self.base + 0x4000, 4096, self.base + 0x4000, self.pd,
                                                    access))

    def make_flow(self, flow_type=0, flags=0, spec=None):
        specs, driver = b"", b""
        if spec:
            kind, size, handle = spec
            specs = struct.pack("<IHH", kind, 8 + size, 0) + (struct.pack("<II", handle,
                                                                          0) if size == 8 and kind >= 0x1000
                                                               else bytes(size))
            if kind == 0x1003:  # counters need a description of what to count
                struct.pack_into("<II", self.memory, 0, 0, 0)
                driver = struct.pack("<IIQII", 1, 0, ctypes.addressof(self.memory), 1, 0)
        attr = struct.pack("<IHHBBBBI", flow_type, len(specs), 0, 1 if spec else 0, 0, 0, 1, flags)
        self.ex("CREATE_FLOW", struct.pack("<II", 0, self.qp) + attr + specs, driver, 8)
        return struct.unpack_from("<I", self.response, 4)[0]


def commands(program, groups):
    """A request without its body is too short for a command that exists: ENOSPC."""
    for name, number in program.commands.items():
        if name in ("THRESHOLD", "COMMAND_MASK", "FLAG_EXTENDED"):
            continue
        said = answer(os.write, program.fd, struct.pack("<IHH", number, 2, 0))
        if said == "ENOSPC" and name.endswith("_MCAST"):  # there, but not for these queue pairs
            said = answer(lambda name=name: program.destroy(name, 0, 0, 0, 0, program.qp, 0))
        yield "write command", name, "there" if said == "ENOSPC" else said
    for name, number in program.extended.items():
        said = answer(os.write, program.fd, struct.pack("<IHH", EXTENDED | number, 0, 0) + bytes(16))
        yield "extended write command", name, "there" if said == "ENOSPC" else said


def methods(program, groups):
    """A call without attributes lacks mandatory ones: EINVAL. If none is mandatory, it succeeds."""
    objects = {**with_prefix(groups, "UVERBS_OBJECT_"), **with_prefix(groups, "MLX5_IB_OBJECT_")}
    for group, values in groups.items():
        for name, number in values.items():
            match = re.match(r"(?:UVERBS|MLX5_IB)_METHOD_(\w+)", name)
            if not match:
                continue
            kind = re.sub(r"^(uverbs_methods?_|mlx5_ib_)|(_obj)?_methods$", "", group)
            kind = METHODS_OF.get(kind, kind.upper())
            kind = kind if kind in objects else kind + "_OBJ"
            said = answer(program.ioctl, objects[kind], number)
            said = "there" if said in ("EINVAL", "there") else said
            driver = "mlx5 " if name.startswith("MLX5") else ""
            yield driver + "ioctl method", f"{kind}.{match[1].removeprefix(kind + '_')}", said


def flags(program, groups):
    qp = lambda **how: (lambda: program.destroy("DESTROY_QP", program.make_qp(**how), 0, out=4))
    cq = lambda **how: (lambda: program.destroy("DESTROY_CQ", program.make_cq(**how), 0, out=16))
    wq = lambda **how: (lambda: program.ex("DESTROY_WQ", struct.pack("<II", 0, program.make_wq(**how)), b"", 16))
    mr = lambda access: (lambda: program.destroy("DEREG_MR", program.make_mr(access)))
    flow = lambda **how: (lambda: program.destroy("DESTROY_FLOW", 0, program.make_flow(**how)))
    context = lambda value: (lambda: second_context(groups, value))
    tables = (
        ("QP type", "IBV_QPT_", lambda v: qp(qp_type=v)), ("QP flag", "IB_UVERBS_QP_CREATE_", lambda v: qp(flags=v)),
        ("mlx5 QP flag", "MLX5_QP_FLAG_", lambda v: qp(driver_flags=v)),
        ("CQ flag", "IB_UVERBS_CQ_FLAGS_", lambda v: cq(flags=v)),
        ("mlx5 CQ flag", "MLX5_IB_CREATE_CQ_FLAGS_", lambda v: cq(driver_flags=v)),
        ("WQ flag", "IB_UVERBS_WQ_FLAGS_", lambda v: wq(flags=v)),
        ("mlx5 WQ flag", "MLX5_WQ_FLAG_", lambda v: wq(driver_flags=v)),
        ("MR access", "IB_UVERBS_ACCESS_", lambda v: mr(v | 1)), ("mlx5 context flag", "MLX5_IB_ALLOC_UCTX_", context),
        ("flow type", "IBV_FLOW_ATTR_", lambda v: flow(flow_type=v) if v in (1, 2) else flow(flow_type=v,
                                                                                             spec=(0x20, 32, 0))
         if v == 0 else flow(flow_type=v)),
        ("flow flag", "IBV_FLOW_ATTR_FLAGS_", lambda v: flow(flags=v, spec=(0x20, 32, 0))))
    for kind, prefix, make in tables:
        for name, value in with_prefix(groups, prefix).items():
            if not name.startswith(("FLAGS_", "OPTIONAL_")):
                yield kind, name, answer(make(value))
    yield "mlx5 CQ flag", "cqe_comp_en", answer(cq(compressed=1))
    handle = program.ioctl(with_prefix(groups, "UVERBS_OBJECT_")["COUNTERS"], 0, [(0, 0, 1, 0, 0)])[0]
    for name, kind in with_prefix(groups, "IBV_FLOW_SPEC_").items():
        if name in SPEC_BYTES:
            spec = (kind | 0x20 if name == "INNER" else kind, SPEC_BYTES[name], handle if name == "ACTION_COUNT" else 1)
            yield "flow spec", name, answer(flow(spec=spec))


def capabilities(program, groups):
    """(struct, field or bit, value) of what the driver and the device report of themselves."""
    bodies = structs()
    core, driver = layout(bodies, SAID_BY_DEVINFO)[1], layout(bodies, "mlx5_ib_query_device_resp")[1]
    program.ex("QUERY_DEVICE", bytes(8), b"", core, (driver + 7) // 8 * 8)
    said = {SAID_BY_DEVINFO: program.response.raw[:core], "mlx5_ib_query_device_resp": program.response.raw[core:],
            "mlx5_ib_alloc_ucontext_resp": program.context}
    for name, data in said.items():
        rows, length, _ = layout(bodies, name)
        for field, offset, size in rows:
            value = int.from_bytes(data[offset:offset + size], "little")
            if field == "response_length" and value != length:
                raise ValueError(f"{name}: {value} bytes, and not {length}")
            if field == "comp_mask" and name != "mlx5_ib_alloc_ucontext_resp" or NO_CAPABILITY.search(field):
                continue
            if field not in BITS:
                yield name, field, str(value)
                continue
            for bit, mask in with_prefix(groups, BITS[field]).items():
                yield name, f"{field}.{bit.strip('_')}".rstrip("."), "yes" if value & mask else "0"


def second_context(groups, value):
    fd = os.open("/dev/infiniband/uverbs0", os.O_RDWR | os.O_CLOEXEC)
    response = ctypes.create_string_buffer(4096)
    body = struct.pack("<QIIIIBBHIQ", ctypes.addressof(response), 8, 4, value, 0, 1, 0, 0, 0, DYNAMIC_UAR)
    try:
        os.write(fd, struct.pack("<IHH", 0, (len(body) + 8) // 4, 66) + body)
    finally:
        os.close(fd)


def ask(what="interface"):
    """Runs below softhca, which is started with this file."""
    groups = enums()
    program = Program(groups)
    rows = {}
    if what == "capabilities":
        for row in capabilities(program, groups):
            print(*row)
        return
    for question in (commands, methods, flags):
        for kind, name, state in question(program, groups):
            rows.setdefault(kind, {}).setdefault(state, []).append(name)
    print("| of the interface | answer | what |\n|---|---|---|")
    for kind, states in rows.items():
        for state in sorted(states, key=lambda s: (s != "there", s)):
            print(f"| {kind} | {state} | {', '.join(states[state])} |")


def lines_of(*command, **environment):
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          env={**os.environ, **environment}).stdout.splitlines()


def interface(softhca):
    return lines_of(softhca, "-i", "lo", "--", "/usr/bin/python3", __file__, "ask", SOFTHCA_KERNEL_DROP="off")


def models(softhca):
    """The lines of ibv_devinfo -v that say something, with a column for each model."""
    names = re.search(r"`SOFTHCA_PROFILE` \| \w+ \| ([^|]+) \|",
                      "\n".join(lines_of(softhca, "--settings")))[1].split(", ")
    seen = {name: dict(facts(softhca, name)) for name in names}
    yield f"| of the device | {' | '.join(names)} |"
    yield "|" + "---|" * (len(names) + 1)
    for key in dict.fromkeys(key for name in names for key in seen[name]):
        values = [seen[name].get(key, "absent") for name in names]
        if set(values) - {"0", "absent"}:
            yield f"| {key} | {' | '.join(values)} |"
    yield from responses(softhca, names)


def responses(softhca, names):
    """What the mlx5 driver's own responses add; and for each response one row with the fields that no model fills."""
    said = [dict(((row[0], row[1]), row[2]) for row in map(str.split, lines_of(
        softhca, "-i", "lo", "-p", name, "--", "/usr/bin/python3", __file__, "ask", "capabilities",
        SOFTHCA_KERNEL_DROP="off")))
            for name in names]
    absent = {}
    for struct_name, field in said[0]:
        values = ["absent" if one[struct_name, field] == "0" else one[struct_name, field] for one in said]
        if set(values) == {"absent"}:
            absent.setdefault(struct_name, []).append(field)
        elif struct_name != SAID_BY_DEVINFO:
            yield f"| {struct_name.removesuffix('_resp')}: {field} | {' | '.join(values)} |"
    for struct_name, fields in absent.items():
        yield f"| {struct_name.removesuffix('_resp')}: {', '.join(fields)} |" + " absent |" * len(names)


def facts(softhca, model):
    group = ""
    for line in lines_of(softhca, "-i", "lo", "-p", model, "--", "ibv_devinfo", "-v")[1:]:
        key, colon, value = (part.strip() for part in line.partition(":"))
        if key == "port":
            return
        if not key or key in ("node_guid", "sys_image_guid", "transport", "hw_ver", "atomic_cap",
                              "device_cap_flags_ex"):
            continue
        if colon:
            group = key
            if value:
                yield key, value
        elif group in ("device_cap_flags", "raw packet caps"):
            yield key, "yes"


def rules(verbs_rules):
    """The rules that verbs_rules tries to break, with a row for each source."""
    sources = {}
    for settings in ([], *([line] for line in lines_of(verbs_rules, "settings"))):
        for line in lines_of(verbs_rules, "list", *settings):
            name, source = line.split("\t")
            sources.setdefault(re.split(r"[:,;]", source)[0], []).append(name)
    yield "| source | rules |"
    yield "|---|---|"
    for source in sorted(sources, key=str.lower):
        yield f"| {source} | {', '.join(sources[source])} |"


def tables(build):
    """{heading in the README: lines}."""
    house = f"{build}/softhca" if os.path.isdir(f"{build}/softhca") else build  # of the whole tree, or alone
    softhca = f"{house}/softhca"
    return {"Settings": lines_of(softhca, "--settings"),
            "Rules": list(rules(f"{house}/tests/support/verbs_rules")),
            "Interface": interface(softhca), "Models": list(models(softhca))}


def write(readme, build):
    text = open(readme, encoding="utf-8").read()
    for heading, lines in tables(build).items():
        text = re.sub(rf"(^## {heading}\n(?:[^|#\n].*\n|\n)*)(?:\|.*\n)+",
                      lambda match: match[1] + "\n".join(lines) + "\n", text, count=1, flags=re.M)
    open(readme, "w", encoding="utf-8").write(text)


def main(arguments):
    if arguments[:1] == ["ask"]:
        ask(*arguments[1:])
    elif len(arguments) == 2:
        write(arguments[1], arguments[0])
    else:
        for heading, lines in tables(arguments[0]).items():
            print("##", heading, *lines, "", sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
