#!/usr/bin/env python3
"""Checks the include graph of src/ against the table of docs/architecture.md, and the walls that the table cannot show.

    layering.py ROOT             prints every breach; exit 1 if there is one
    layering.py ROOT --control   breaks a copy in each way on purpose; exit 1 if a breach goes unseen
"""
import pathlib
import re
import shutil
import sys
import tempfile

MAX_PUBLIC_HEADERS = 13
ROW = re.compile(r"^\| `(\w+)` \|([^|]*)\|([^|]*)\|([^|]*)\|$", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.M)
COMMENT = re.compile(r"//[^\n]*")


def words(cell):
    return set(re.findall(r"[\w.]+", cell)) - {"none"}


def read_table(root):
    """Per module: what it may include, and which public headers are its own."""
    rows = ROW.findall((root / "docs/architecture.md").read_text())
    allowed = {name: words(depends) for name, _, depends, _ in rows}
    headers = {header: name for name, _, _, own in rows for header in words(own)}
    return allowed, headers


def sources(directory):
    return sorted(p for p in directory.rglob("*") if p.suffix in (".cpp", ".hpp"))


def layer_names(root):
    text = "".join(p.read_text() for p in sources(root / "include/surefit/layers"))
    # Words that mean other things too, and InputLayer: it computes nothing, and model files must name it.
    return set(re.findall(r'kClass = "(\w+)"', text)) - {"InputLayer", "Add", "Activation"}


def cycle(allowed):
    state = {}

    def visit(name, path):
        if state.get(name) == "done":
            return None
        if state.get(name) == "open":
            return " -> ".join(path[path.index(name):] + [name])
        state[name] = "open"
        for other in sorted(allowed.get(name, ())):
            found = visit(other, path + [name])
            if found:
                return found
        state[name] = "done"
        return None

    return next((found for name in allowed if (found := visit(name, []))), None)


def check_file(path, module, root, allowed, headers):
    text = path.read_text()
    where = path.relative_to(root)
    for include in INCLUDE.findall(text):
        first = include.split("/")[0]
        if first == "surefit":
            owner = headers.get(include.split("/")[1].removesuffix(".hpp") + ".hpp")
            if owner is None:
                yield f"{where}: {include} has no owner in the table"
            elif owner != module and owner not in allowed[module]:
                yield f"{where}: {module} may not include {include}, which belongs to {owner}"
        elif first in allowed and "/" in include and first != module and first not in allowed[module]:
            yield f"{where}: {module} may not include {include}; the table allows {sorted(allowed[module])}"
        if re.search(r"\bdnnl\w*\.h(pp)?$", include) and module != "engine":
            yield f"{where}: oneDNN belongs to engine alone; got {include}"
        if include == "mpi.h" and module != "dist":
            yield f"{where}: MPI belongs to dist alone"


def check(root):
    allowed, headers = read_table(root)
    if len(allowed) < 10:
        yield "docs/architecture.md: the table of modules was not found"
        return
    if found := cycle(allowed):
        yield f"docs/architecture.md: the table has a cycle: {found}"
    unknown = set().union(*allowed.values()) - set(allowed)
    if unknown:
        yield f"docs/architecture.md: unknown modules {sorted(unknown)}"
    for directory in sorted(p for p in (root / "src").iterdir() if p.is_dir()):
        if directory.name not in allowed:
            yield f"src/{directory.name}: not in the table"
            continue
        for path in sources(directory):
            yield from check_file(path, directory.name, root, allowed, headers)

    # The core never asks what layer it has in hand.
    names = re.compile(r"\b(%s)\b" % "|".join(sorted(layer_names(root))))
    for module in ("graph", "plan", "train"):
        for path in sources(root / "src" / module):
            code = COMMENT.sub("", path.read_text())
            if "dynamic_cast" in code:
                yield f"{path.relative_to(root)}: dynamic_cast; the core must not ask for types"
            if "zoo" not in path.parts and (found := names.search(code)):
                yield f"{path.relative_to(root)}: names the layer {found.group(1)}"

    reach = {name: set(direct) for name, direct in allowed.items()}
    for _ in reach:
        for name in reach:
            reach[name] |= set().union(*(reach[other] for other in reach[name] if other in reach), set())
    for module in ("guard", "cli"):
        if ml := reach[module] & {"graph", "plan", "engine", "nn", "optim", "data", "train", "worker"}:
            yield f"docs/architecture.md: {module} must not reach ML modules; got {sorted(ml)}"

    public = [p for p in sources(root / "include/surefit")]
    entries = {p.relative_to(root / "include/surefit").parts[0].removesuffix(".hpp") for p in public}
    if len(entries) > MAX_PUBLIC_HEADERS:
        yield f"include/surefit: {len(entries)} headers; expected at most {MAX_PUBLIC_HEADERS}"
    for path in public:
        # A folder belongs to the header of its name, which includes what is in it.
        entry = path.relative_to(root / "include/surefit").parts[0].removesuffix(".hpp") + ".hpp"
        owner = headers.get(entry)
        if owner is None:
            yield f"include/surefit/{path.name}: no module owns it in the table"
        else:
            yield from check_file(path, owner, root, allowed, headers)
        for include in INCLUDE.findall(path.read_text()):
            if include.split("/")[0] in allowed and "/" in include:
                yield f"include/surefit/{path.name}: includes the internal header {include}"


def control(root):
    """Each breach, made in a copy, must be seen."""
    def append(path, text):
        return lambda copy: (copy / path).write_text((copy / path).read_text() + text)

    def replace(path, old, new):
        def change(copy):
            text = (copy / path).read_text()
            assert old in text, f"{path} has no '{old}'"
            (copy / path).write_text(text.replace(old, new, 1))
        return change

    breaches = {
        "an arrow upward": append("src/graph/graph.hpp", '#include "train/program.hpp"\n'),
        "a public header upward": append("src/graph/graph.hpp", '#include "surefit/model.hpp"\n'),
        "oneDNN outside the engine": append("src/nn/layer.cpp", "#include <oneapi/dnnl/dnnl.hpp>\n"),
        "ML code in the guard": append("src/guard/words.cpp", '#include "engine/arena.hpp"\n'),
        "a layer's name in the planner": append("src/plan/planner.cpp", "struct Conv2D;\n"),
        "a dynamic_cast in the graph": append("src/graph/fuse.cpp", "// x\nauto y = dynamic_cast<int*>(z);\n"),
        "a cycle in the table": replace("docs/architecture.md", "| `tensor` |", "| `tensor` | x | train | none |\n| `tensor2` |"),
        "a module that is not in the table": lambda copy: (copy / "src/misc").mkdir(),
        "an internal header in a public one": append("include/surefit/zoo.hpp", '#include "train/network.hpp"\n'),
        "too many public headers": lambda copy: [
            (copy / f"include/surefit/more{i}.hpp").write_text("") for i in range(MAX_PUBLIC_HEADERS)],
    }
    unseen = []
    for name, change in breaches.items():
        with tempfile.TemporaryDirectory() as directory:
            copy = pathlib.Path(directory)
            for part in ("src", "include"):
                shutil.copytree(root / part, copy / part)
            (copy / "docs").mkdir()
            shutil.copy(root / "docs/architecture.md", copy / "docs")
            change(copy)
            if not list(check(copy)):
                unseen.append(name)
    return unseen


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    if "--control" in sys.argv[2:]:
        problems = [f"unseen: {name}" for name in control(root)]
    else:
        problems = list(check(root))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
