"""The documentation holds: its links lead somewhere, and docs/environment.md lists what is read, no more and no less."""
import pathlib
import re
import tempfile
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_OURS = {".git", ".cache", "build", "data", "logs"}  # at the top, and not tracked

FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]\[]*\]\(\s*<?([^()\s>]*)>?[^()]*\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
PATH = re.compile(r"`((?:bench|cmake|docs|examples|include|proto|src|tests|tools)/[\w./-]*\w/?)`")
PAGE = re.compile(r"\bdocs/[\w/-]+\.md\b")

VARIABLE = r"(?:SLUICE|DMLC|PS|MXNET)_[A-Z0-9_]+"
QUOTED = re.compile(rf"[\"']({VARIABLE})[\"']")    # C++ and Python name a variable by a literal of its own
EXPANDED = re.compile(rf"\$\{{?({VARIABLE})")       # shell
LISTED = re.compile(rf"`({VARIABLE})`")


def pages(root):
    return [path for path in sorted(root.rglob("*.md")) if path.relative_to(root).parts[0] not in NOT_OURS]


def anchors(text):
    """Returns the anchors of a page's headings, as GitHub makes them: small letters, dashes for spaces, a number where one comes again."""
    found = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        anchor = base = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        again = 0
        while anchor in found:
            again += 1
            anchor = f"{base}-{again}"
        found.add(anchor)
    return found


def broken_link(root, page, link):
    """Why the link leads nowhere; empty when it does not."""
    if re.match(r"[a-z][a-z0-9+.-]*:", link):
        return ""
    path, _, anchor = urllib.parse.unquote(link).partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.is_relative_to(root.resolve()):
        return "leads out of the repository"
    if not target.exists():
        return "leads to nothing"
    if anchor and target.suffix == ".md" and anchor not in (known := anchors(target.read_text(encoding="utf-8"))):
        return f"has no such heading; there are {sorted(known)}"
    return ""


def broken_links(root):
    found = []
    for page in pages(root):
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        name = page.relative_to(root)
        for link in LINK.findall(CODE.sub("", text)):
            if why := broken_link(root, page.resolve(), link):
                found.append(f"{name}: ({link}) {why}")
        for path in PATH.findall(text):
            if not (root / path).exists():
                found.append(f"{name}: `{path}` is not in the repository")
    for folder in ("include", "src"):
        for source in sorted((root / folder).rglob("*.*")):
            for page in PAGE.findall(source.read_text(encoding="utf-8")):
                if not (root / page).exists():
                    found.append(f"{source.relative_to(root)}: {page} is not in the repository")
    return found


def variables_read(root, *folders):
    found = set()
    for folder in folders:
        for path in (root / folder).rglob("*"):
            if path.suffix in (".h", ".cc", ".py"):
                found.update(QUOTED.findall(path.read_text(encoding="utf-8")))
            elif path.suffix == ".sh":
                found.update(EXPANDED.findall(path.read_text(encoding="utf-8")))
    return found


def variables_listed(root):
    return set(LISTED.findall((root / "docs" / "environment.md").read_text(encoding="utf-8")))


class Project(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        self.assertGreater(len(pages(ROOT)), 10)
        self.assertEqual(broken_links(ROOT), [])

    def test_every_variable_that_is_read_is_listed(self):
        self.assertEqual(variables_read(ROOT, "src", "tools") - variables_listed(ROOT), set())

    def test_every_variable_that_is_listed_is_read(self):
        self.assertEqual(variables_listed(ROOT) - variables_read(ROOT, "src", "tools", "tests"), set())


class Checker(unittest.TestCase):
    """A small repository of its own, with faults planted."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        self.write("docs/a.md", "# The `First` page: one\n\n## Same\n\n## Same\n\n```\n# no heading\n```\n")
        self.write("src/env.cc", 'env.Get("SLUICE_ONE"); Fail("SLUICE_ONE must be set");')

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def test_good_links_pass(self):
        self.write("README.md", "[a](docs/a.md) [b](docs/a.md#the-first-page-one) [c](docs/a.md#same-1) [d](#top) [e](docs/)\n"
                   "[f](https://example.org/x) `[g](nowhere.md)` `src/env.cc`\n# Top\n```\n[h](nowhere.md)\n```\n")
        self.assertEqual(broken_links(self.root), [])

    def test_broken_links_are_found(self):
        for text, word in (
            ("[a](docs/b.md)", "docs/b.md) leads to nothing"),
            ("[a](docs/a.md#second)", "has no such heading"),
            ("[a](docs/a.md#same-2)", "has no such heading"),
            ("[a](docs/a.md#no-heading)", "has no such heading"),
            ("[a](#nowhere)", "has no such heading"),
            ("[a](../outside.md)", "leads out of the repository"),
            ("`src/gone.cc`", "is not in the repository"),
        ):
            with self.subTest(text=text):
                self.write("README.md", f"# Top\n\nText with {text}.\n")
                found = broken_links(self.root)
                self.assertEqual(len(found), 1, found)
                self.assertIn(word, found[0])

    def test_sources_name_pages_that_are_there(self):
        self.write("src/one.h", "// docs/a.md and docs/gone.md\n")
        self.assertEqual(broken_links(self.root), ["src/one.h: docs/gone.md is not in the repository"])

    def test_variables_are_told_from_texts_about_them(self):
        self.write("tools/run.sh", "echo ${SLUICE_TWO:-x} $SLUICE_THREE SLUICE_FOUR")
        self.write("tools/run.py", "os.environ.get('DMLC_FIVE')  # as PS_SIX")
        self.assertEqual(variables_read(self.root, "src", "tools"), {"SLUICE_ONE", "SLUICE_TWO", "SLUICE_THREE", "DMLC_FIVE"})
        self.write("docs/environment.md", "| `SLUICE_ONE`, `PS_SIX` | SLUICE_TWO |")
        self.assertEqual(variables_listed(self.root), {"SLUICE_ONE", "PS_SIX"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
