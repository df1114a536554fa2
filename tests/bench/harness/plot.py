"""The report as one self-contained page: per figure a bar for each peer on a common scale, with its spread."""
import html

from harness.figures import COLUMNS, SHOWN, number, triple, verdict

WIDTH, BAR, LABEL, VALUE = 900, 18, 190, 210
COLOURS = {"reference": "#8d99ae", "ours": "#2a9d8f"}
STYLE = """body{font:14px/1.5 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:#222;
background:#fff}
h2{margin:2em 0 0;font-size:1.1em}h3{margin:1em 0 .2em;font-size:1em;font-weight:600}small,pre{color:#555}
.met{color:#1b7f5c}.missed{color:#b3261e}svg{display:block;width:100%;height:auto}table{border-collapse:collapse}
td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#1b1b1f}small,pre{color:#aaa}text{fill:#ddd}
td,th{border-color:#444}}"""


def bars(figure, titles, scale, unit):
    """One row per peer; the thin line spans the lowest and the highest round."""
    largest = max(abs(values["max"]) for values in figure["peers"].values()) or 1
    room = WIDTH - LABEL - VALUE
    rows = []
    for index, (peer, values) in enumerate(figure["peers"].items()):
        top = index * (BAR + 8)
        place = lambda value: LABEL + max(0.0, value) / largest * room  # noqa: E731
        middle = top + BAR / 2
        rows.append(
            f'<text x="0" y="{top + 14}" font-size="13">{html.escape(titles[peer])}</text>'
            f'<rect x="{LABEL}" y="{top}" width="{max(1.0, place(values["median"]) - LABEL):.1f}" height="{BAR}" '
            f'rx="2" fill="{COLOURS[peer]}"/>'
            f'<line x1="{place(values["min"]):.1f}" x2="{place(values["max"]):.1f}" y1="{middle}" y2="{middle}" '
            f'stroke="#333" stroke-width="2"/>'
            f'<text x="{WIDTH - VALUE + 12}" y="{top + 14}" font-size="13">{triple(values, scale)} {unit}</text>')
    height = len(figure["peers"]) * (BAR + 8)
    return f'<svg viewBox="0 0 {WIDTH} {height}" fill="currentColor" role="img">{"".join(rows)}</svg>'


def section(scenario, figures, titles):
    parts = [f"<h2>{html.escape(scenario)}</h2>"]
    for key in COLUMNS[scenario.split("/")[0]]:
        if key not in figures:
            continue
        title, scale, unit, _ = SHOWN[key]
        heading = html.escape(title)
        if ratio := figures[key]["ratios"].get("reference"):
            heading += f" <small>ratio {triple(ratio)}</small>" if key != "itl_error_pct" else ""
        if asked := verdict(scenario, key, figures[key]):
            css, word = ("met", "met") if asked[1] else ("missed", "not met")
            heading += f' <span class="{css}">{html.escape(asked[0])}: {word}</span>'
        parts.append(f"<h3>{heading}</h3>{bars(figures[key], titles, scale, unit)}")
    return "".join(parts)


def many(title, rows):
    keys = list(next(iter(rows.values())))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ["", *rows])
    cells = {key: "".join(f"<td>{number(row[key])}</td>" for row in rows.values()) for key in keys}
    body = "".join(f"<tr><th>{html.escape(key)}</th>{cells[key]}</tr>" for key in keys)
    return f"<h2>many workers in one process, {html.escape(title)}</h2><table><tr>{head}</tr>{body}</table>"


def page(report):
    machine = " · ".join(f"{key} {value}" for key, value in report["machine"].items() if value != "")
    parts = [f"<h1>understudy bench</h1><p><small>{html.escape(machine)}</small></p>",
             f"<pre>{html.escape(report['notes'])}</pre>",
             f"<p>Bars: median of {report['rounds']} rounds; line: lowest to highest; figures: min / median / max.</p>"]
    parts += [section(name, figures, report["peers"]) for name, figures in report["scenarios"].items()]
    parts += [many(title, rows) for title, rows in report["many_workers"].items()]
    return (f'<!doctype html><html lang="en"><meta charset="utf-8"><title>understudy bench</title>'
            f"<style>{STYLE}</style>{''.join(parts)}</html>\n")
