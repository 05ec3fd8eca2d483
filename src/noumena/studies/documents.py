"""Documents that quote studies: the parts that come from rows are written from rows.

In a Markdown page the block of text after `` `results/NAME/rows.csv` `` is what the study's ``compare`` says, and what
stands between ``<!-- verdicts by paper -->`` or ``<!-- verdicts by study -->`` and ``<!-- end -->`` are counts of
verdicts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from noumena.studies import claims as verdicts
from noumena.studies.claims import HELD, VERDICTS
from noumena.studies.study import Study

_BLOCK = re.compile(r"(`results/([\w/]+)/rows\.csv`\n\n```text\n)(?:.*?\n)??(```)", flags=re.DOTALL)
_COUNTS = re.compile(r"(<!-- verdicts by (paper|study) -->\n).*?(<!-- end -->)", flags=re.DOTALL)


def refreshed(text: str, studies: Sequence[Study]) -> str:
    """A page with the tables that the rows give today; what it quotes of other studies stays as it is."""
    known = {study.name: study for study in studies}

    def compared(found: re.Match[str]) -> str:
        return f"{found[1]}{known[found[2]].compare()}\n{found[3]}" if found[2] in known else found[0]

    text = _BLOCK.sub(compared, text)
    if not _COUNTS.search(text):
        return text
    published = [study for study in studies if study.published]
    tables = {
        "paper": counts_table(published, lambda study: study.paper, "paper"),
        "study": counts_table(published, _linked, "study"),
    }
    return _COUNTS.sub(lambda found: f"{found[1]}\n{tables[found[2]]}\n\n{found[3]}", text)


def counts_table(studies: Sequence[Study], named: Callable[[Study], str], title: str) -> str:
    """Counts of verdicts as a Markdown table, one line for each name that studies share."""
    groups: dict[str, list[verdicts.StudyClaim]] = {}
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
