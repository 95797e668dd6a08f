"""Runs at the start of every Python that `sightline run` starts: this folder is on PYTHONPATH.

It calls the sitecustomize that would have run without it, then waits for torch. It must work in
any Python, also one that has no sightline, and must never be what a program fails of.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _original() -> None:
    """Run the next sitecustomize on the path, as Python would have."""
    import importlib.machinery
    import importlib.util

    rest = [p for p in sys.path if os.path.abspath(p or os.curdir) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _start() -> None:
    if sys.version_info < (3, 10) or "SIGHTLINE_RUN" not in os.environ:
        return
    if os.environ.get("SIGHTLINE_OFF"):
        return
    import importlib.machinery

    # PACKAGE_PARENT/sightline/record/inline/site
    package_parent = os.path.abspath(os.path.join(_HERE, *[os.pardir] * 4))
    if importlib.machinery.PathFinder.find_spec("sightline") is None:

        class Finder:
            """Finds sightline, and nothing else, where this file comes from."""

            @staticmethod
            def find_spec(name: str, path: object = None, target: object = None) -> object:
                if name != "sightline":
                    return None
                return importlib.machinery.PathFinder.find_spec(name, [package_parent])

        sys.meta_path.append(Finder)  # type: ignore[arg-type]
    from sightline.record.inline import hook

    hook.install()


try:
    _start()
except Exception as error:  # the program must run, whatever is wrong with us
    import contextlib

    told = "sightline: cannot record this process: %r\n" % (error,)
    with contextlib.suppress(OSError):  # below Python's buffer, as session.tell_person says
        os.write(2, told.encode("utf-8", "replace"))
# Last, and unguarded: what the user's own file raises is shown by Python as it always is.
_original()
