"""How many cores the tools may keep busy here."""
import pathlib
import subprocess

PROGRAM = pathlib.Path(__file__).resolve().parent / "cores.sh"


def allowed():
    """What tools/cores.sh says: the cores of the affinity, at most the CPU quota. os.cpu_count() knows neither."""
    return int(subprocess.run([PROGRAM], capture_output=True, text=True, check=True).stdout)
