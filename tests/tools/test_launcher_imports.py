"""Imports of tools/launcher point one way: no file needs, in whatever steps, one that needs it."""
import ast
import pathlib
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def name_of(package, path):
    return ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")


def imports(package):
    """By file, which files of the package it imports, in functions as well."""
    files = {name_of(package, path): path for path in package.rglob("*.py")}
    found = {}
    for name, path in files.items():
        parts = name.split(".")
        found[name] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                levels = len(parts) - node.level + (path.name == "__init__.py")
                base = ".".join([*(parts[:levels] if node.level else []), *([node.module] if node.module else [])])
                names = [f"{base}.{alias.name}" for alias in node.names]
                found[name] |= {one if one in files else base for one in names} & set(files)
            elif isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names} & set(files)
    return found


def circle(graph):
    """The names along a circle of imports; None if there is none."""
    done = set()

    def walk(name, way):
        if name in way:
            return [*way[way.index(name):], name]
        if name not in done:
            for other in sorted(graph[name]):
                found = walk(other, [*way, name])
                if found:
                    return found
            done.add(name)
        return None

    return next(filter(None, (walk(name, []) for name in sorted(graph))), None)


class Imports(unittest.TestCase):
    def graph_of(self, **files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        package = pathlib.Path(folder.name, "package")
        (package / "part").mkdir(parents=True)
        for name, text in {"__init__": "", "part/__init__": "", **files}.items():
            (package / f"{name}.py").write_text(text)
        return imports(package)

    def test_the_launcher_has_no_circle(self):
        graph = imports(ROOT / "tools/launcher")
        self.assertIn("launcher.supervisor", graph["launcher.command_line"])
        self.assertIn("launcher.events", graph["launcher.launchers.base"])
        self.assertIsNone(circle(graph))

    def test_a_circle_is_found_whatever_the_way_to_import(self):
        for text in ("from .part import b", "from .part.b import x", "from package.part import b", "import package.part.b", "def f():\n    from .part import b"):
            with self.subTest(text):
                graph = self.graph_of(**{"a": text, "part/b": "from .c import f", "part/c": "from .. import a"})
                self.assertEqual(circle(graph), ["package.a", "package.part.b", "package.part.c", "package.a"])

    def test_what_two_files_import_is_no_circle(self):
        self.assertIsNone(circle(self.graph_of(a="from .part import b\nfrom . import c", c="from .part.b import x\nimport os", **{"part/b": ""})))


if __name__ == "__main__":
    unittest.main(verbosity=2)
