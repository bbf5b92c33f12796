#!/usr/bin/env python3
"""calls.py TOP - calls between C files point down, as includes do (arrows.cmake), and run in no circle.

A layer of src may call its own functions and those of lower layers; upwards only a registered function is called, which
this does not see. In src, cli, demo and bench no files call each other in a circle.
"""
import pathlib
import re
import sys

LAYERS = {"base": 0, "net": 1, "script": 2, "wait": 3, "node": 4, "lease": 5, "kinds": 5, "": 6, "api": 7,
          "quorum": 8, "diagnose": 7}
FUNCTION = re.compile(r"^(?!static|typedef|#)[a-z].*?\b([a-z]\w+)\([^;{]*\)\s*\{", re.M)


def read(top):
    comments_and_strings = re.compile(r"""/\*.*?\*/|'(?:\\.|[^'\\])+'|"(?:\\.|[^"\\])*\"""", re.S)
    return {str(path.relative_to(top)): comments_and_strings.sub("", path.read_text())
            for path in top.rglob("*.c") if "peers" not in path.parts}


def calls(texts):
    """Per file, the files whose functions it calls. A name that two files define (main) says nothing."""
    defined = {}
    for name, text in texts.items():
        for function in set(FUNCTION.findall(text)):
            defined.setdefault(function, set()).add(name)
    where = {function: names.pop() for function, names in defined.items() if len(names) == 1}
    return {name: {where[f] for f in re.findall(r"\b([a-z]\w+)\s*\(", text) if f in where} - {name}
            for name, text in texts.items()}


def reachable(edges, start):
    seen, todo = set(), [start]
    while todo:
        for callee in edges[todo.pop()] - seen:
            seen.add(callee)
            todo.append(callee)
    return seen


def circles(edges):
    reach = {name: reachable(edges, name) for name in edges}
    found = {frozenset(other for other in reach[name] if name in reach[other]) for name in edges} - {frozenset()}
    return ["a circle of calls: " + ", ".join(sorted(circle)) for circle in found]


def upwards(edges):
    layer = {name: LAYERS[str(pathlib.PurePath(name).parent).replace(".", "")] for name in edges}
    return ["%s calls up, into %s" % (caller, callee)
            for caller in sorted(edges) for callee in sorted(edges[caller]) if layer[callee] > layer[caller]]


def main():
    faults, seen = [], 0
    for folder in ("src", "cli", "demo", "bench"):
        edges = calls(read(pathlib.Path(sys.argv[1]) / folder))
        seen += sum(map(len, edges.values()))
        faults += circles(edges) + (upwards(edges) if folder == "src" else [])
    for fault in faults:
        print(fault)
    print("-- %d calls between files looked at, %d faults" % (seen, len(faults)))
    sys.exit(1 if faults else 0)


main()
