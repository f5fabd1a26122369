"""Finds programs on the host that runs them."""
import os
import pathlib
import shutil
from dataclasses import dataclass

from .errors import UsageError


@dataclass
class Program:
    """A command that is to be found: by its path, which may be relative to `folder`, or by the PATH. A stock program lies
    beside the workers' or in one of `beside`."""
    command: list
    what: str = "the command"
    stock: bool = False
    beside: tuple = ()
    advice: str = ""  # where one finds Sluice's own programs


def find(program, folder):
    """The command with its program's full path."""
    name = program.command[0]
    found = shutil.which(name if os.sep not in name else os.path.join(folder, name)) if name else None
    if found is None:
        path = pathlib.Path(folder, name)
        why = "does not exist" if os.sep not in name else "is a folder" if path.is_dir() else "is not executable" if path.exists() else "does not exist"
        raise UsageError(f"{program.what} '{name}' {why}{program.advice and '; '}{program.advice}")
    return [os.path.abspath(os.path.join(folder, found)), *program.command[1:]]


def find_stock(program, folder, beside):
    for beside in (*beside, *program.beside, os.path.join(folder, "build", "bin")):
        path = os.path.join(beside, program.command[0])
        if os.access(path, os.X_OK):
            return [path, *program.command[1:]]
    return find(program, folder)


def find_all(programs, folder):
    """Commands of all, the workers' first."""
    if not os.path.isdir(folder):
        raise UsageError(f"the working folder {folder} does not exist")
    found = []
    for program in programs:
        beside = [os.path.dirname(command[0]) for command in found[:1]]
        found.append(find_stock(program, folder, beside) if program.stock else find(program, folder))
    return found
