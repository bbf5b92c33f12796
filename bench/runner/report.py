"""Medians, tables, and the verdict on the targets."""
from statistics import median

from .held import DELAYS
from .interrupted import WINDOW_S, WINDOWS

DIRECT = ("rate", "handoffs", "commands", "inner", "bytes_in", "bytes_out", "reads", "server_us", "client_us",
          "switches", "connections", "longest_run", "overtaken", "commands_handoff", "violations", "lost_updates",
          "drain_s", "commands_all", "messages", "queued", "blocked", "others", "rate_before",
          *("window_%d" % (i + 1) for i in range(WINDOWS)))


def summarize(rounds):
    """One figure of each kind: the median of the rounds; min..max of the rate."""
    summary = {"rounds": len(rounds)}
    for key in DIRECT:
        values = [r[key] for r in rounds if r.get(key) is not None]
        if values:
            summary[key] = median(values)
    for hist in ("acquire", "pair", "handoff"):
        for share in ("p50", "p99", "p999"):
            values = [r[hist][share] for r in rounds if hist in r]
            if values:
                summary["%s_%s" % (hist, share)] = median(values)
    for key in ("rate", "handoffs", "drain_s", "back_s"):
        values = [r[key] for r in rounds if key in r]
        if values:
            summary[key + "_min"], summary[key + "_max"] = min(values), max(values)
    middle = sorted(rounds, key=lambda r: r["rate"])[len(rounds) // 2]
    summary["per_thread"], summary["per_process"] = middle["per_thread"], middle["per_process"]
    return summary


def number(value):
    """About three digits; thousands marked."""
    if value is None:
        return "-"
    size = abs(value)
    if size >= 100 or (size >= 10 and value == int(value)):
        return "{:,.0f}".format(value)
    decimals = 1 if size >= 10 else 2 if size >= 0.1 or size == 0 else 3
    return "{:.{}f}".format(value, decimals)


def table(rows):
    """Columns as wide as needed; the first is left-aligned, the others right-aligned."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for at, row in enumerate(rows):
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells))
        if at == 0:
            lines.append("  ".join("-" * width for width in widths))
    return "\n".join(lines)


def percent(share):
    return "-" if share is None else number(share * 100)


def spread(summary, metric):
    return "%s..%s" % (number(summary[metric + "_min"]), number(summary[metric + "_max"]))


def times_base(summaries, scenario, summary):
    base = summaries.get(scenario.base)
    return number(summary[scenario.metric] / base[scenario.metric]) if base else "-"


def pair_table(scenario, summaries):
    rows = [["peer", "pairs/s", "min..max", "ratio", "acq p50", "pair p50", "pair p99 us", "cmds", "in-script",
             "srv us", "cli us", "cs", "conns", "others %"]]
    for name, s in summaries.items():
        rows.append([name, number(s["rate"]), spread(s, "rate"), times_base(summaries, scenario, s),
                     *(number(s.get(key)) for key in ("acquire_p50", "pair_p50", "pair_p99", "commands", "inner",
                                                      "server_us", "client_us", "switches", "connections")),
                     number(s["others"] * 100)])
    return table(rows)


def halves_table(scenario, summaries):
    rows = [["peer", "pairs/s", "min..max", "ratio", "wait p50 us", "p99 us", "writer's p50 us", "p99 us", "cmds",
             "srv us", "cli us", "cs", "conns", "others %"]]
    for name, s in summaries.items():
        rows.append([name, number(s["rate"]), spread(s, "rate"), times_base(summaries, scenario, s),
                     *(number(s.get(key)) for key in ("acquire_p50", "acquire_p99", "handoff_p50", "handoff_p99",
                                                      "commands", "server_us", "client_us", "switches", "connections")),
                     number(s["others"] * 100)])
    return table(rows)


def shared_table(scenario, summaries):
    rows = [["peer", "hand-overs/s", "min..max", "ratio", "acq/s", "p50 us", "p99 us", "wait p50", "wait p99", "cmds",
             "cmds/hand-over", "srv us", "cli us", "cs", "max run", "overtaken %", "threads min/max", "processes",
             "conns", "viol", "others %"]]
    for name, s in summaries.items():
        threads, processes = s["per_thread"], s["per_process"]
        rows.append([name, number(s["handoffs"]), spread(s, "handoffs"), times_base(summaries, scenario, s),
                     number(s["rate"]),
                     *(number(s.get(key)) for key in ("handoff_p50", "handoff_p99", "acquire_p50", "acquire_p99",
                                                      "commands", "commands_handoff", "server_us", "client_us",
                                                      "switches", "longest_run")),
                     percent(s.get("overtaken")), "%d/%d" % (min(threads), max(threads)),
                     number(min(processes) / max(max(processes), 1)),
                     number(s.get("connections")), number(s["violations"] + s["lost_updates"]),
                     number(s["others"] * 100)])
    return table(rows)


def drain_table(scenario, summaries):
    rows = [["peer", "drained s", "min..max", "ratio", "hand-over p50 us", "p99 us", "cmds", "in-script",
             "cmds with queueing", "messages", "queue entries", "blocked", "srv us", "cli us", "conns", "viol", "others %"]]
    for name, s in summaries.items():
        base = summaries.get(scenario.base)
        rows.append([name, number(s["drain_s"]), spread(s, "drain_s"),
                     number(s["drain_s"] / base["drain_s"]) if base else "-",
                     *(number(s.get(key)) for key in ("handoff_p50", "handoff_p99", "commands", "inner", "commands_all",
                                                      "messages", "queued", "blocked", "server_us", "client_us",
                                                      "connections")),
                     number(s.get("violations", 0) + s.get("lost_updates", 0)), number(s["others"] * 100)])
    return table(rows) + "\ncounts are per waiter, from the first holder's release on; messages: PUBLISH calls"


def interrupted_table(_scenario, summaries):
    windows = range(1, WINDOWS + 1)
    rows = [["peer", "pairs/s before", *("+%.2f s" % (i * WINDOW_S) for i in windows), "back after s, at most",
             "others %"]]
    for name, s in summaries.items():
        rows.append([name, number(s["rate_before"]), *(number(s["window_%d" % i]) for i in windows),
                     number(s["back_s_max"]), number(s["others"] * 100)])
    return table(rows) + "\n+0.25 s: pairs/s in the window that ends that long after the release"


def held_table(scenario, summaries):
    rows = [["peer", "server % of a core", "client % of a core", "cmds/s", "KiB/s in", "take s", "RSS MB", "RSS B/lock",
             "heap B/lock", "server B/lock", "alive", "age p50", "age p99", "age max", "delay p50 ms", "p99 ms",
             "max ms", "late", "others %"]]
    keys = ("server_pct", "client_pct", "commands_s", "kib_s", "take_s", "rss_mb", "rss_each", "heap_each",
            "server_each", "alive", "age_p50", "age_p99", "age_max", "delay_p50", "delay_p99", "delay_max",
            "renewals_late")
    for name, s in summaries.items():
        rows.append([name, *(number(s.get(key)) for key in keys), number(s["others"] * 100)])
    return "\n".join([table(rows), *beside_base(scenario, summaries),
                      "age: since the last renewal, as a share of the lease; a renewal is due at 0.33",
                      "delay: of a renewal, since it was due", "", delay_table(summaries)])


def beside_base(scenario, summaries):
    """A line for each peer: its CPU time beside the floor's."""
    base = summaries.get(scenario.base)
    return ["%s / %s: server %s x, client %s x" % (name, scenario.base, number(s["server_pct"] / base["server_pct"]),
                                                   number(s["client_pct"] / base["client_pct"]))
            for name, s in summaries.items() if base and s is not base]


def delay_table(summaries):
    """The histogram: shares of all renewals that were seen."""
    bounds = ["%.1f %%" % (bound * 100) for bound in DELAYS]
    rows = [["renewals by delay, %", *("< " + bound for bound in bounds), "more"]]
    for name, s in summaries.items():
        counts = s.get("delay_classes")
        rows.append([name, *(number(n / max(sum(counts), 1) * 100) if counts else "-"
                             for n in counts or [0] * len(rows[0][1:]))])
    return table(rows) + "\nclasses are shares of the lease"


def scenario_table(scenario, summaries, noisy):
    """`noisy`: from this share of a core on, other processes invalidate a figure."""
    draw = {"shared": shared_table, "drain": drain_table, "wake": drain_table, "interrupted": interrupted_table,
            "held": held_table, "halves": halves_table}.get(scenario.kind, pair_table)
    disturbed = [name for name, s in summaries.items() if s["others"] > noisy]
    note = "\nDISTURBED, other processes used more than %.0f %% of a core: %s" % (noisy * 100, ", ".join(disturbed))
    return draw(scenario, summaries) + (note if disturbed else "")


def verdict(scenario, summaries):
    """One entry per target of the scenario."""
    entries = []
    for target in scenario.targets:
        entry = {"scenario": scenario.name, "what": target.what, "unit": target.unit, "must": target.must,
                 "aim": target.aim, "at_most": target.at_most}
        try:
            entry["value"] = target.value(summaries)
            entry["must_reached"] = target.reached(entry["value"], target.must)
            entry["aim_reached"] = target.reached(entry["value"], target.aim)
        except KeyError as peer:
            entry["value"] = None
            entry["why"] = "not measured: %s" % peer.args[0]
        entries.append(entry)
    return entries


def bar(entry, key):
    if entry[key] is None:
        return "-"
    return "%s %s" % ("<=" if entry["at_most"] else ">=", number(entry[key]))


def result_text(entry):
    if entry["value"] is None:
        return entry["why"]
    if entry["must"] is not None and not entry["must_reached"]:
        return "NOT REACHED"
    reached = "must reached" if entry["must"] is not None else ""
    if entry["aim"] is not None:
        reached += (", " if reached else "") + ("aim reached" if entry["aim_reached"] else "aim not reached")
    return reached


def targets_table(entries):
    rows = [["workload", "what", "measured", "must", "aim", ""]]
    for entry in entries:
        measured = "-" if entry["value"] is None else "%s %s" % (number(entry["value"]), entry["unit"])
        rows.append([entry["scenario"], entry["what"], measured.strip(), bar(entry, "must"), bar(entry, "aim"),
                     result_text(entry)])
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    lines = []
    for at, row in enumerate(rows):
        lines.append("  ".join([row[0].ljust(widths[0]), row[1].ljust(widths[1]),
                                *(row[i].rjust(widths[i]) for i in (2, 3, 4)), row[5]]).rstrip())
        if at == 0:
            lines.append("  ".join("-" * width for width in widths))
    return "\n".join(lines)
