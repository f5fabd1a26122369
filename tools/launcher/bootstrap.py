"""The agent as ssh brings it: what launch.py writes first into the connection, and the one command that reads it.

The command has to be the same for every login shell (sh, tcsh, fish, ...): single quotes, and nothing that one of them minds in
them. Whatever differs, arguments and secrets above all, comes through the connection.
"""
import pathlib

MODULES = ("python_version", "errors", "limits", "descendants", "channel", "programs", "processes", "agent")  # each needs those before it alone; the first ends an old Python
READ = r"""exec python3 -I -c 'import os; exec(b"".join(iter(lambda: os.read(0, 1) or b"\0", b"\0")))'"""
LOAD = """import sys, types
package = types.ModuleType("launcher")
package.__path__ = []
sys.modules["launcher"] = package
for name, source in {modules!r}:
    module = types.ModuleType("launcher." + name)
    module.__package__ = "launcher"
    sys.modules[module.__name__] = module
    setattr(package, name, module)
    exec(compile(source, "launch.py's " + name + ".py", "exec"), module.__dict__)
sys.exit(package.agent.by_ssh())
"""


def program():
    """What the command reads: ends with its first NUL."""
    folder = pathlib.Path(__file__).parent
    modules = [(name, (folder / f"{name}.py").read_text(encoding="utf-8")) for name in MODULES]
    return LOAD.format(modules=modules).encode() + b"\0"
