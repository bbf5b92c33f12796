#!/usr/bin/env python3
"""sources.py TOP - each file of src has its unit test, or a row in tests/README.md that says which tests show it."""
import fnmatch
import pathlib
import re
import sys


def rows(page):
    table = page.split("## Which test is whose", 1)[1].split("\n## ", 1)[0]
    for line in table.splitlines():
        cells = [re.findall(r"`([^`]+)`", cell) for cell in line.strip("|").split("|")]
        if len(cells) == 2 and cells[0] and cells[1]:
            yield cells


def main():
    top = pathlib.Path(sys.argv[1])
    tests, faults = top / "tests", []
    sources = {str(path.relative_to(top / "src").with_suffix("")) for path in (top / "src").rglob("*.c")}
    without = {name for name in sources if not (tests / "unit" / f"test_{pathlib.PurePath(name).name}.c").exists()}
    shown = set()
    for patterns, files in rows((tests / "README.md").read_text()):
        for pattern in patterns:
            found = set(fnmatch.filter(without, pattern))
            shown |= found
            if not found:
                faults.append(f"tests/README.md: {pattern} is no file of src without a unit test of its name")
        faults += [f"tests/README.md: no tests/{name}" for name in files if not (tests / name).exists()]
    faults += [f"src/{name}.c has no unit test, and no row in tests/README.md" for name in sorted(without - shown)]
    print("\n".join(faults + [f"-- {len(sources)} files of src, {len(faults)} faults"]))
    sys.exit(1 if faults else 0)


main()
