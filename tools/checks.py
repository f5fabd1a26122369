"""The command line that the checks of tools/ share."""
import argparse
import pathlib

PROJECT = pathlib.Path(__file__).resolve().parents[1]


def folder(text):
    if not pathlib.Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder '{text}'")
    return pathlib.Path(text).resolve()


def parser(text):
    """Takes ROOT, by default the project. `text` is the docstring of a check; its paragraph that begins with 'Usage: ' is the usage."""
    paragraphs = text.strip().split("\n\n")
    usage = next(one for one in paragraphs if one.startswith("Usage: "))
    made = argparse.ArgumentParser(usage=usage.removeprefix("Usage: "), description="\n\n".join(one for one in paragraphs if one != usage),
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("root", nargs="?", type=folder, default=PROJECT, metavar="ROOT", help="the folder to look at; the project if there is none")
    return made


def root_of(text, arguments):
    return parser(text).parse_args(arguments).root
