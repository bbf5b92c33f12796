#!/usr/bin/env python3
"""calls.py TOP - calls between C files point down, as includes do (arrows.cmake), and run in no circle.

A file here is X.c with X.h: inline functions of headers call, and are called, like all others. A layer of src may call
its own functions and those of lower layers; upwards only a registered function is called, which this does not see. In
src, cli, demo and bench no files call each other in a circle. A function that a header of src declares is defined in
the file of that name, and a static function has a name of its own: a backtrace says which one it was.
"""
import pathlib
import re
import sys

LAYERS = {"base": 0, "net": 1, "script": 2, "wait": 3, "node": 4, "lease": 5, "kinds": 5, "": 6,
          "handle": 7, "acquire": 8, "api": 9, "multilock": 10, "semaphore": 10, "quorum": 10, "diagnose": 7}
COMMENT_OR_STRING = re.compile(r"""/\*.*?\*/|'(?:\\.|[^'\\])+'|"(?:\\.|[^"\\])*\"""", re.S)
FUNCTION = re.compile(r"^(?!static (?!inline)|typedef|#)[a-z].*?\b([a-z]\w+)\([^;{]*\)\s*\{", re.M)
STATIC = re.compile(r"^static (?!inline)[^;{}()=]*?\b([a-z]\w+)\([^{};]*\)\s*\{", re.M)
DECLARATION = re.compile(r"^(?!static|typedef|#)[a-z][^;{}()=]*?\b([a-z]\w+)\([^{};]*\)[^{};]*;", re.M)


def read(top):
    return {str(path.relative_to(top)): COMMENT_OR_STRING.sub("", path.read_text())
            for path in sorted(top.rglob("*.[ch]")) if "peers" not in path.parts}


def stem(name):
    return str(pathlib.PurePath(name).with_suffix(""))


def definitions(texts):
    """Where each function is defined. A name that two files define (main) says nothing."""
    defined = {}
    for name, text in texts.items():
        for function in set(FUNCTION.findall(text)):
            defined.setdefault(function, set()).add(name)
    return {function: names.pop() for function, names in defined.items() if len(names) == 1}


def calls(texts, where):
    """Per file, the files whose functions it calls."""
    edges = {stem(name): set() for name in texts}
    for name, text in texts.items():
        code = DECLARATION.sub("", text)
        called = {stem(where[f]) for f in re.findall(r"\b([a-z]\w+)\s*\(", code) if f in where}
        edges[stem(name)] |= called - {stem(name)}
    return edges


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
    return {"circle " + " ".join(sorted(circle)) for circle in found}


def upwards(edges):
    layer = {name: LAYERS[str(pathlib.PurePath(name).parent).replace(".", "")] for name in edges}
    return {"%s calls up, into %s" % (caller, callee)
            for caller in edges for callee in edges[caller] if layer[callee] > layer[caller]}


def elsewhere(texts, where):
    return {"%s declares %s, which is in %s" % (name, function, where[function])
            for name, text in texts.items() if name.endswith(".h")
            for function in DECLARATION.findall(text)
            if function in where and stem(where[function]) != stem(name)}


def twice(texts):
    files = {}
    for name, text in texts.items():
        for function in set(STATIC.findall(text)):
            files.setdefault(function, []).append(name)
    return {"static %s: %s" % (function, " ".join(names)) for function, names in files.items() if len(names) > 1}


def main():
    top, found, seen = pathlib.Path(sys.argv[1]), set(), 0
    for folder in ("src", "cli", "demo", "bench"):
        texts = read(top / folder)
        where = definitions(texts)
        edges = calls(texts, where)
        seen += sum(map(len, edges.values()))
        found |= circles(edges)
        if folder == "src":
            found |= upwards(edges) | elsewhere(texts, where) | twice(texts)
    for fault in sorted(found):
        print(fault)
    print("-- %d calls between files looked at, %d faults" % (seen, len(found)))
    sys.exit(1 if found else 0)


main()
