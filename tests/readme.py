#!/usr/bin/env python3
"""README.md shows examples/quickstart.cpp as it is, and only links to files that exist."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
readme = (root / "README.md").read_text()
problems = []
shown = re.search(r"```cpp\n(.*?)```", readme, re.S)
example = (root / "examples/quickstart.cpp").read_text().split("\n", 1)[1]  # without the licence line
if shown is None or shown.group(1) != example:
    problems.append("README.md: the C++ quick start differs from examples/quickstart.cpp")
for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)  # a lambda's [&](x) is no link
    for link in re.findall(r"\]\(([^)#:]+)\)", prose):
        if not (page.parent / link).exists():
            problems.append(f"{page.relative_to(root)}: no {link}")
print("\n".join(problems))
sys.exit(1 if problems else 0)
