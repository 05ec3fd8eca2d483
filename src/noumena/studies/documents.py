"""Documents that quote studies: the parts that come from rows are written from rows.

In a Markdown page the block of text after `` `results/NAME/rows.csv` `` is what the study's ``compare`` says, and what
stands between ``<!-- verdicts by paper -->`` or ``<!-- verdicts by study -->`` and ``<!-- end -->`` are counts of
verdicts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from noumena.studies import claims as verdicts
from noumena.studies.claims import HELD, VERDICTS
from noumena.studies.pages import paper
from noumena.studies.study import Study, get, names

_BLOCK = re.compile(r"(`results/([\w/]+)/rows\.csv`\n\n```text\n)(?:.*?\n)??(```)", flags=re.DOTALL)
_COUNTS = re.compile(r"(<!-- verdicts by (paper|study) -->\n).*?(<!-- end -->)", flags=re.DOTALL)


def refreshed(text: str, results: str | Path = "results") -> str:
    """A page with the tables that the rows give today."""
    text = _BLOCK.sub(lambda found: found[1] + get(found[2], results).compare() + "\n" + found[3], text)
    if not _COUNTS.search(text):
        return text
    studies = [study for study in (get(name, results) for name in names()) if study.published]
    tables = {"paper": counts_table(studies, paper, "paper"), "study": counts_table(studies, _linked, "study")}
    return _COUNTS.sub(lambda found: f"{found[1]}\n{tables[found[2]]}\n\n{found[3]}", text)


def counts_table(studies: Sequence[Study], named: Callable[[Study], str], title: str) -> str:
    """Counts of verdicts as a Markdown table, one line for each name that studies share."""
    groups: dict[str, list[verdicts.Claim]] = {}
    for study in studies:
        groups.setdefault(named(study), []).extend(study.claims())
    groups = {name: claims for name, claims in groups.items() if claims}
    groups["**all**"] = [claim for claims in groups.values() for claim in claims]
    header = [title, "published figures", *VERDICTS, "better or reproduced, and `x`, PCA or ICA as good"]
    lines = [
        [name, len(claims), *verdicts.counted(claims).values(), sum(c.trivial and c.verdict in HELD for c in claims)]
        for name, claims in groups.items()
    ]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [header, ["---"] * len(header), *lines])


def _linked(study: Study) -> str:
    return f"`{study.name}`: {study.title.rstrip('.')}"
