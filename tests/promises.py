#!/usr/bin/env python3
"""promises.py [--check] - writes docs/promises.md: each promise, and which tests show it.

A promise of docs/protocol.md or docs/safety.md ends with a mark, [P7] or [S13]. The tests name the marks:

    /* Shows: P7, S13 (NO_DRIFT) */    on the line before a test: that test does; elsewhere: the file does
    # Shows: P6                        in a CMakeLists.txt: the tests of its folder do

--check writes nothing. It fails if the page is not what would be written. Both fail if a mark has no test, if two
promises have one mark, if a test names a mark that no promise has, or if a row of safety.md or of section 23 has
neither a mark nor the words "No test: " and why.
"""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[1]
PAGE = TOP / "docs" / "promises.md"
PAGES = {"protocol": ("P", "section: promise"), "safety": ("S", "it does not")}
HEAD = """# Which tests show which promise

`tests/promises.py` writes this page, and `./dev fmt` runs it. The stage lint fails if the page is stale. A mark such as
P7 is at the end of the promise, and in a comment of each test that shows it. A flag of a model in parentheses is a
guard: without it the model fails.
"""
ITEM = r"[A-Z]\d+(?: \([^)]*\))?"
TEST = re.compile(r"[A-Z]\w*\((?:(\w+), )?(\w+)[,)]")


def promises(page, letter, faults):
    """For each mark of the page what is promised: the sentence or row before it, up to a semicolon."""
    found, text = {}, (TOP / "docs" / f"{page}.md").read_text()
    for mark in re.finditer(r"(?<!`)\[([A-Z]\d+)\]", text):
        before = text[:mark.start()]
        promise = re.split(r"\n\| |\n- |\.(?:\*\*)?\s|\n\n", before)[-1].replace(" | ", ": ")
        section = re.findall(r"^## (\d+)\.", before, re.M)[-1:]
        promise = " ".join([f"{number}:" for number in section if number != "23"] + promise.split())
        promise = re.sub("(.{40}.*?); .*", r"\1; ...", promise)
        if mark[1] in found or mark[1][0] != letter:
            faults.append(f"docs/{page}.md: {mark[1]} is " + ("there twice" if mark[1] in found else "no mark of it"))
        found[mark[1]] = promise
    rows = text.split("## 23. Promises")[1].split("\n## ")[0] if "## 23. Promises" in text else text
    for row in re.findall(r"^\| .*", rows, re.M):
        if not re.search(r"\[[A-Z]\d+\] \||No test: |^\| (section|it does not) \|", row):
            faults.append(f"docs/{page}.md: neither a mark nor \"No test: \": {row[:60]}")
    return found


def shown(faults):
    """(mark, file, test or note) for each mark that a test names."""
    files = [path for path in (TOP / "tests").rglob("*") if path.suffix in (".c", ".h", ".pml", ".sh")]
    for path in sorted([*files, *(TOP / "tests").rglob("CMakeLists.txt")]):
        name = str((path.parent if path.name == "CMakeLists.txt" else path).relative_to(TOP))
        lines = path.read_text().splitlines()
        for line, following in zip(lines, lines[1:] + [""]):
            marks = re.match(r"\W*Shows: (.*?)(?: \*/)?$", line)
            test = TEST.match(following)
            if marks and not re.fullmatch(f"{ITEM}(, {ITEM})*", marks[1]):
                faults.append(f"{name}: no list of marks: {marks[1]}")
            for item in re.findall(ITEM, marks[1]) if marks else ():
                mark, _, note = item.partition(" ")
                if test:
                    note = ".".join(test.groups()) if test[1] else f"({test[2]})"
                yield mark, name, note


def one_cell(tests):
    """FILE; FILE: suite.test, suite.test; FILE (note)"""
    return "; ".join(name + (": " if "." in notes[0] else " " if notes[0] else "") + ", ".join(notes)
                     for name, notes in tests.items())


def main():
    faults, tests, text = [], {}, HEAD
    for mark, name, note in shown(faults):
        tests.setdefault(mark, {}).setdefault(name, []).append(note)
    known = {page: promises(page, letter, faults) for page, (letter, _) in PAGES.items()}
    for page, found in known.items():
        text += f"\n## [{page}.md]({page}.md)\n\n| | {PAGES[page][1]} | shown by |\n|---|---|---|\n"
        for mark in sorted(found, key=lambda mark: int(mark[1:])):
            cell = one_cell(tests.pop(mark, {}))
            text += f"| {mark} | {found[mark]} | {cell} |\n"
            faults += [] if cell else [f"docs/{page}.md: no test shows {mark}"]
    faults += [f"{', '.join(names)}: no promise has the mark {mark}" for mark, names in tests.items()]
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        faults.append("docs/promises.md is not what its sources say: tests/promises.py writes it")
    print("\n".join(faults + [f"-- {sum(map(len, known.values()))} promises, {len(faults)} faults"]))
    sys.exit(1 if faults else 0)


main()
