"""What figures depend on: the processor, its share of this machine, and the versions of the libraries."""
import glob
import os
import platform
import re
import subprocess

PACKAGES = ("libdnnl2", "libzmq5", "libprotobuf32", "python3-torch", "libopenblas0-openmp", "libopenblas0-pthread")
FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8", "amx_tile")


def cpuinfo(field):
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
        found = re.search(rf"^{field}\s*:\s*(.*)$", lines.read(), re.MULTILINE)
    return found.group(1).strip() if found else "unknown"


def gigabytes():
    with open("/proc/meminfo", encoding="ascii") as lines:
        kilobytes = int(re.search(r"^MemTotal:\s+(\d+)", lines.read(), re.MULTILINE).group(1))
    return kilobytes / 2**20


def caches():
    def read(folder, name):
        with open(os.path.join(folder, name), encoding="ascii") as file:
            return file.read().strip()

    sizes = {}
    for folder in sorted(glob.glob("/sys/devices/system/cpu/cpu0/cache/index*")):
        if read(folder, "type") != "Instruction":
            sizes["L" + read(folder, "level")] = read(folder, "size")
    return ", ".join(f"{level} {size}" for level, size in sizes.items()) or "caches unknown"


def versions():
    try:
        lines = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n", *PACKAGES],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
    except FileNotFoundError:
        return "no dpkg to ask"
    return ", ".join(" ".join(line.split()[:2]) for line in lines.splitlines() if line.endswith(" installed"))


def describe():
    flags = cpuinfo("flags").split()
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    lines = [
        f"{cpuinfo('model name')} (family {cpuinfo('cpu family')}, model {cpuinfo('model')}), {cores} of {os.cpu_count()} cores, {gigabytes():.0f} GiB, {caches()}"
        + (", virtual" if "hypervisor" in flags else ""),
        "has " + " ".join(name for name in FEATURES if name in flags)
        + "; has not " + (" ".join(name for name in FEATURES if name not in flags) or "nothing of that"),
        f"Linux {platform.release()}; {versions()}",
    ]
    if load > 0.5:
        lines.append(f"**Load {load:.1f} before the start: others use these cores, the figures are noise.**")
    return "\n".join(f"- {line}" for line in lines)
