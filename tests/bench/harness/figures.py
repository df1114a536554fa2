"""Figures of rounds: spread, ratios, targets, the table."""
import collections

# figure: (title, scale, unit, True when less is better)
SHOWN = {
    "worker.cpu_s_per_1m_tok": ("CPU per 1M tokens", 1, "s", True),
    "worker.cpu_s_per_1k_req": ("CPU per 1,000 requests", 1, "s", True),
    "worker.rss_kb": ("RSS afterwards", 1 / 1024, "MiB", True),
    "worker.anon_kb": ("anonymous afterwards", 1 / 1024, "MiB", True),
    "worker.threads": ("threads", 1, "", True),
    "req_s": ("requests per s", 1, "", False),
    "tok_s": ("tokens per s", 1, "", False),
    "ttft_us.p50": ("first token p50", 1e-3, "ms", True),
    "ttft_us.p99": ("first token p99", 1e-3, "ms", True),
    "itl_us.mean": ("between tokens, mean", 1e-3, "ms", True),
    "itl_us.sd": ("between tokens, sd", 1e-3, "ms", True),
    "itl_us.p99": ("between tokens p99", 1e-3, "ms", True),
    "latency_us.p50": ("whole request p50", 1e-3, "ms", True),
    "latency_us.p99": ("whole request p99", 1e-3, "ms", True),
    "itl_error_pct": ("mean gap against model", 1, "%", True),
    "itl_core_error_pct": ("mean gap against own passes", 1, "%", True),
    "start_ms": ("start to registered", 1, "ms", True),
    "stop_ms": ("SIGTERM to end", 1, "ms", True),
    "idle_rss_kb": ("RSS idle", 1 / 1024, "MiB", True),
    "idle_anon_kb": ("anonymous memory idle", 1 / 1024, "MiB", True),
    "threads": ("threads", 1, "", True),
    "handoff_ms.p50": ("hand-off beyond transfer p50", 1, "ms", True),
    "handoff_ms.p90": ("hand-off beyond transfer p90", 1, "ms", True),
    "handoff_ms.p99": ("hand-off beyond transfer p99", 1, "ms", True),
    "wall_s": ("wall time", 1, "s", True),
    "cpu_s": ("CPU time", 1, "s", True),
    "rss_max_kb": ("RSS at most", 1 / 1024, "MiB", True),
    "cpu_ns_per_token": ("CPU per output token", 1, "ns", True),
    "duration_ms": ("simulated time", 1e-3, "s", True),
    "mean_ttft_ms": ("simulated TTFT, mean", 1, "ms", True),
    "prefix_cache_reused_ratio": ("cache reuse", 100, "%", False),
    "passes_per_s": ("passes per s", 1, "", False),
    "ns_per_sequence_pass": ("per sequence and pass", 1, "ns", True),
    "cpu_s_per_1m_events": ("CPU per 1M events", 1, "s", True),
    "events_s": ("events per s", 1, "", False),
    "missing": ("events missing", 1, "", True),
    "lost_batches": ("batches counted as lost", 1, "", True),
    "late_us.p50": ("engine to event plane p50", 1e-3, "ms", True),
    "late_us.p99": ("engine to event plane p99", 1e-3, "ms", True),
    "rss_kb_third": ("RSS after a third", 1 / 1024, "MiB", True),
    "rss_kb_end": ("RSS at the end", 1 / 1024, "MiB", True),
    "self_cpu_s": ("load generator's own CPU", 1, "s", True),
}

# By scenario: the figures that say something there.
COLUMNS = {
    "real_time": ["worker.cpu_s_per_1m_tok", "worker.cpu_s_per_1k_req", "worker.rss_kb", "worker.anon_kb", "worker.threads",
                  "ttft_us.p50", "itl_us.mean", "itl_us.sd", "itl_us.p99", "latency_us.p50", "latency_us.p99"],
    "free_running": ["worker.cpu_s_per_1m_tok", "worker.cpu_s_per_1k_req", "req_s", "tok_s", "worker.rss_kb", "worker.anon_kb",
                     "ttft_us.p50", "ttft_us.p99", "latency_us.p50", "latency_us.p99", "self_cpu_s"],
    "inter_token": ["itl_error_pct", "itl_core_error_pct", "itl_us.sd", "itl_us.p99", "ttft_us.p50", "worker.cpu_s_per_1m_tok"],
    "replay": ["wall_s", "cpu_s", "rss_max_kb", "cpu_ns_per_token", "duration_ms", "mean_ttft_ms", "prefix_cache_reused_ratio"],
    "engine": ["passes_per_s", "ns_per_sequence_pass"],
    "handoff": ["handoff_ms.p50", "handoff_ms.p90", "handoff_ms.p99"],
    "relay": ["cpu_s_per_1m_events", "events_s", "missing", "lost_batches", "late_us.p50", "late_us.p99",
              "rss_kb_third", "rss_kb_end"],
    "start_up": ["start_ms", "stop_ms", "idle_rss_kb", "idle_anon_kb", "threads"],
}

# (scenario, figure): a test of the median ratio reference / ours, or of the median of ours.
TARGETS = {
    ("real_time/no-events", "worker.cpu_s_per_1m_tok"): ("at least 4x less", "ratio", 4),
    ("free_running/no-events", "worker.cpu_s_per_1m_tok"): ("at least 10x less", "ratio", 10),
    ("real_time/no-events", "worker.rss_kb"): ("at most a tenth", "ratio", 10),
    ("replay/1-worker", "wall_s"): ("at least 5x less", "ratio", 5),
    ("replay/8-workers-kv", "wall_s"): ("at least 5x less", "ratio", 5),
    ("relay/busy", "cpu_s_per_1m_events"): ("at least 3x less", "ratio", 3),
    ("relay/paced", "late_us.p99"): ("under 2 ms", "below", 2000),
    ("start_up", "start_ms"): ("under 150 ms", "below", 150),
    ("handoff", "handoff_ms.p50"): ("under 2 ms", "below", 2),
    ("inter_token/1", "itl_error_pct"): ("within 0.1 %", "within", 0.1),
    ("inter_token/16", "itl_error_pct"): ("within 0.1 %", "within", 0.1),
    ("inter_token/1", "itl_core_error_pct"): ("within 0.1 %", "within", 0.1),
    ("inter_token/16", "itl_core_error_pct"): ("within 0.1 %", "within", 0.1),
}


def spread(values):
    """min, median, max."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return {"min": ordered[0], "median": median, "max": ordered[-1]}


def summarise(results):
    """{peer: [flat figures per round]} to {figure: {"peers": {peer: spread}, "ratios": {peer: spread}}}.

    Ratios are peer / ours inside a round: above 1 means that ours needs less (or, for rates, does less).
    """
    figures = collections.defaultdict(lambda: {"peers": {}, "ratios": {}})
    for peer, rounds in results.items():
        for key in rounds[0] if rounds else []:
            figures[key]["peers"][peer] = spread([row[key] for row in rounds])
            pairs = zip(rounds, results.get("ours", []))
            ratios = [row[key] / own[key] for row, own in pairs if own.get(key)]
            if peer != "ours" and ratios:
                figures[key]["ratios"][peer] = spread(ratios)
    return dict(figures)


def verdict(scenario, key, figure):
    """(what was asked, True/False) for a figure with a target; None when there is none or ours was not run."""
    if (scenario, key) not in TARGETS or "ours" not in figure["peers"]:
        return None
    text, kind, limit = TARGETS[scenario, key]
    if kind == "ratio":
        ratio = figure["ratios"].get("reference")
        return (text, ratio["median"] >= limit) if ratio else None
    median = figure["peers"]["ours"]["median"]
    return text, (median < limit if kind == "below" else abs(median) <= limit)


def number(value):
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def triple(values, scale=1):
    return " / ".join(number(values[part] * scale) for part in ("min", "median", "max"))


def table(report):
    """The report as aligned text."""
    lines = []
    for scenario, figures in report["scenarios"].items():
        peers = report["peers"]
        lines += ["", f"{scenario}    min / median / max over {report['rounds']} rounds"]
        lines.append("  " + "".join(f"{cell:<28}" for cell in ["", *peers.values(), "ratio to ours"]))
        for key in COLUMNS[scenario.split("/")[0]]:
            if key not in figures:
                continue
            title, scale, unit, _ = SHOWN[key]
            cells = [f"{title}{', ' + unit if unit else ''}"]
            measured = figures[key]["peers"]
            cells += [triple(measured[peer], scale) if peer in measured else "-" for peer in peers]
            ratios = figures[key]["ratios"].values() if not key.endswith("error_pct") else []
            cells.append("; ".join(triple(ratio) for ratio in ratios))
            if asked := verdict(scenario, key, figures[key]):
                cells.append(f"{asked[0]}: {'met' if asked[1] else 'NOT met'}")
            lines.append("  " + "".join(f"{cell:<28}" for cell in cells).rstrip())
    for title, rows in report["many_workers"].items():
        lines += ["", f"many workers in one process, {title}"]
        keys = list(next(iter(rows.values())))
        lines.append("  " + "".join(f"{cell:<22}" for cell in ["", *rows]))
        for key in keys:
            lines.append("  " + "".join(f"{cell:<22}" for cell in [key, *(number(row[key]) for row in rows.values())]))
    return "\n".join(lines)


def missed(report):
    """One line per target that was measured and not met."""
    lines = []
    for scenario, figures in report["scenarios"].items():
        for key, figure in figures.items():
            asked = verdict(scenario, key, figure)
            if asked and not asked[1]:
                own = triple(figure["peers"]["ours"], SHOWN[key][1])
                ratio = triple(figure["ratios"]["reference"]) if "reference" in figure["ratios"] else "-"
                lines.append(f"{scenario} {SHOWN[key][0]}: {asked[0]}; ours {own} {SHOWN[key][2]}, ratio {ratio}")
    return lines
