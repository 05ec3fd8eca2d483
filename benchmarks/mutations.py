"""Mutations: sixty small faults planted one at a time, and which of them the tests let through.

Run: ``python benchmarks/mutations.py [--only WORD] [--out results/mutations/after.csv] [--root PATH] [--seconds 150]``.
Each fault is a place (room, function), a pattern inside that function and what stands there instead. It is planted in a
copy of the sources, the named tests run against the copy in one process, and a fault under which they all pass has
survived. A function that has moved is looked for in its room, then everywhere; a fault whose text is gone is said to be
gone, and not counted. Names of tests that are not there are passed over, so that a list may name old and new ones.
Tests that fail without any fault show nothing: name them with ``--deselect``, and look at what a fault was seen ``by``.
"""

import argparse
import ast
import csv
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
HEADER = ("fault", "place", "outcome", "by", "seconds")


@dataclass(frozen=True)
class Fault:
    """A law that is broken, where, by which exchange of text, and the files of tests that should see it."""

    law: str
    room: str
    function: str
    pattern: str
    instead: str
    tests: str


FAULTS = tuple(
    Fault(*row)
    for row in (
        # ---- foundations ---------------------------------------------------------------------------------------
        ("a seed below zero is taken", "seeds", "seed_of", r'"random_state", minimum=0', '"random_state", minimum=-9',
         "test_seeds.py test_seeds_and_streams.py"),
        ("the purpose of a stream is ignored", "seeds", "_entropy", r"repr\(address\)", "repr(address[0])",
         "test_seeds.py test_seeds_and_streams.py"),
        ("the caller's thread count is not given back", "threads", "for_work", r"get_num_threads\(\) != before",
         "get_num_threads() == before", "test_threads.py test_global_state.py"),
        ("NaN passes", "checks", "table", r"\n    _finite\(array, name\)", "\n    pass",
         "test_checks.py test_one_sentence.py"),
        ("masked entries pass", "checks", "unmasked", r"masked == 0,", "masked >= 0,",
         "test_checks.py test_one_sentence.py"),
        ("float32 is widened", "checks", "_numeric", r"dtype == np\.float32", "dtype == np.float16",
         "test_checks.py test_number_types.py"),
        ("blocks may be coarser", "ambiguity", "_finer", r"set\(b\) <= set\(c\)", "set(b) >= set(c)",
         "test_ambiguity.py"),
        ("the share explained is not squared", "ambiguity", "align", r"1 - error\*\*2", "1 - error",
         "test_ambiguity.py"),
        ("a pushed covariance is transposed", "mixtures", "pushed", r"A @ self\.covariances @ A\.T",
         "A.T @ self.covariances @ A", "test_mixtures.py"),
        ("tolerance of ranks is dropped", "mixtures", "ranks", r"variances > tolerance \* variances\.max\(\)",
         "variances > 0", "test_mixtures.py"),
        ("borderline entries are the clear ones", "structure", "borderline", r"_distance < ", "_distance > ",
         "test_structure.py test_estimated_structure.py"),
        ("extra dependencies do not count", "structure", "hamming", r"self\.missing \+ self\.extra", "self.missing",
         "test_structure.py test_estimated_structure.py"),
        # ---- derivatives, penalties, nets ------------------------------------------------------------------------
        ("differences of any order have one step", "derivatives", "mixed_differences", r"step\*\*order", "step",
         "test_mixed.py"),
        ("the slope of GELU misses a factor", "derivatives", "_gelu", r"\+ h \* torch\.exp", "+ torch.exp",
         "test_tangents.py"),
        ("BatchNorm without statistics is taken", "derivatives", "_unsettled", r" or layer\.running_mean is None", "",
         "test_derivatives.py"),
        ("probes of rows are those of columns", "derivatives", "rows", r"J\.shape\[1\]\) @ J",
         "J.shape[1]).flip(1) @ J",
         "test_sampling.py"),
        ("the ramp does not end at one", "penalties", "ramped", r"\.clamp\(max=1\)", "", "test_sparsity.py"),
        ("half is counted at another size", "penalties", "dependency_l0", r"scale\*\*2", "scale", "test_sparsity.py"),
        ("the estimate over probes is biased", "penalties", "orojar_of_probes", r"var\(dim=-1\)",
         "var(dim=-1, correction=0)", "test_orthogonality.py"),
        ("IMA overflows", "penalties", "ima_contrast", r"J = J / torch\.where", "J = J * 1 if True else torch.where",
         "test_orthogonality.py"),
        ("start below scale is taken", "penalties", "CountsDependencies.__post_init__", r"minimum=self\.scale",
         "minimum=0", "test_sparsity.py test_penalties.py test_one_sentence.py"),
        ("the scales of a coupling are not centred", "nets", "_read", r"centred\(s\) if self\.balanced",
         "s if self.balanced",
         "test_couplings.py"),
        ("frames keep rounding errors", "nets", "frame", r"1\.5 \* Q - 0\.5 \* Q @ \(Q\.mT @ Q\)", "1.0 * Q",
         "test_orthogonal.py"),
        ("pixels are placed at their corners", "nets", "pixel_line", r"\+ 0\.5\)", "+ 0.0)", "test_pooled.py"),
        ("convolutions start at another scale", "nets", "scaled|kaiming_normal", r"\) \*\* 2", ")", "test_conv.py"),
        # ---- metrics ---------------------------------------------------------------------------------------------
        ("signs are chosen on the judged half", "metrics/correlation", "_matched", r"np\.sign\(chosen\) \* judged",
         "np.abs(judged)", "test_correlation.py"),
        ("the seed of the chance is ignored", "metrics/correlation", "_measured", r'\(seed, "chance of mcc"\)',
         '(0, "chance of mcc")', "test_correlation.py test_scores.py"),
        ("a constant target counts one", "metrics", "explained|r2_scores|_r2", r"(1 - residual / [^\n]*), 0\.0\)",
         r"\1, 1.0)",
            "test_regression.py test_scores.py"),
        ("judged rows are fitted too", "metrics", "split|split_rows", r"order\[held:\], order\[:held\]",
         "order, order[:held]", "test_regression.py"),
        ("halves are all rows", "metrics/record", "surrounded", r"\[: n // 2\]", "[:n]",
         "test_record.py test_scores.py"),
        ("an infinite number reaches JSON", "metrics/record", "plain", r"not math\.isfinite\(value\)", "value != value",
         "test_record.py test_scores.py"),
        ("exclusiveness is not corrected for chance", "metrics/information", "exclusiveness",
         r"\(share - 1 / k\) / \(1 - 1 / k\)", "share", "test_information.py test_infomec.py"),
        ("a constant latent is active", "metrics/factor_vae", "_score", r"\(spread > 0\) & ~pruned",
         "(spread >= 0) & ~pruned",
         "test_factor_vae_score.py test_votes.py test_scores.py"),
        ("factors that never repeat are classes", "metrics/factors", "factors_of", r"levels < len\(values\)",
         "levels <= len(values)", "test_kinds_of_factors.py test_one_sentence.py"),
        ("a turned edge is an extra one", "metrics/causal", "_differences",
         r"differs & (?:there & found|in_truth & in_learned)\)",
         "differs & ~differs)", "test_causal.py"),
        ("a lone latent leaks to nothing", "metrics/blocks", "_judged", r"if matrix\.shape\[1\] > 1",
         "if matrix.shape[1] > 0",
         "test_block_r2.py"),
        ("shuffles below zero are taken", "metrics/mixings", "amari_distance", r'"shuffles", minimum=0',
         '"shuffles", minimum=-5',
         "test_amari.py test_one_sentence.py"),
        # ---- worlds and data -------------------------------------------------------------------------------------
        ("weights of edges are all positive", "worlds", "random_graph", r"rng\.choice\(\[-1\.0, 1\.0\]",
         "rng.choice([1.0, 1.0]",
         "test_random_graphs.py test_worlds.py"),
        ("laws lose unit variance", "worlds", "_laplace", r" / sqrt\(2\)", "", "test_laws.py test_families.py"),
        ("a mixing is not Haar", "worlds", "orthogonal", r"Q \* np\.sign\(np\.diag\(R\)\)", "Q", "test_mixings.py"),
        ("a torn member is mapped", "data/archives", "", r'raise ValueError\(f"\{name\} has [^\n]*', "pass",
         "test_archives.py"),
        ("a number beyond the columns is taken", "data", "", r"0 <= number < width", "0 <= number <= width",
         "test_tables.py test_readers.py test_tables_prepared.py"),
        ("numbers outside an HDF5 file are followed", "data", "", r"not outside,", "True,",
         "test_readers.py test_security.py"),
        ("azimuths may be odd", "data", "", r"odd\.size == 0", "odd.size >= 0", "test_refused_benchmarks.py"),
        # ---- estimators ------------------------------------------------------------------------------------------
        ("held-out rows are trained on", "estimators", "_rows|split", r"order\[n_held(?:_out)?:\]\.numpy\(\)",
         "order.numpy()",
         "test_global_state.py test_rows_and_pictures.py"),
        ("all seeds are one", "estimators/base", "", r"self\.seeds_ = \[seed \+ k for", "self.seeds_ = [seed for",
         "test_training.py::test_seeds_differ_from_each_other"),
        ("a checkpoint of another fit goes on", "estimators", "load", r'facts\.get\("fingerprint"\) == fingerprint',
         "True", "test_training_interruptions.py::test_a_checkpoint_of_another_fit_is_refused"),
        ("the encoder feels the adversary", "estimators/factor_vae", "", r"latents\[-half:\]\.detach\(\)",
         "latents[-half:]",
         "test_factor_vae.py"),
        ("total correlation and information trade places", "estimators/tcvae", "decomposed_kl",
         r"Decomposed\(own - joint, joint - alone", "Decomposed(joint - alone, own - joint", "test_tcvae.py"),
        ("a run of changed files is loaded", "estimators/save", "", r"checks\.require\(same,",
         "checks.require(True,",
         "test_runs.py test_save.py test_strangers_files_of_fits.py"),
        ("a young average forgets nothing", "estimators/loop", "_update",
         r"min\(self\.plan\.average, \(1 \+ self\.step\) / [^)]*\)\)",
         "self.plan.average", "test_training.py::test_a_young_average_forgets_faster"),
        # ---- guarantees ------------------------------------------------------------------------------------------
        ("an unknown premise proves", "guarantees", "unproved_premises|missing",
         r"\(\*self\.broken_premises, \*doubtful\)|tuple\(name for name in theorem\.open if [^\n]*", "()",
         "test_theorem.py test_diversity.py test_queries.py"),
        ("a gap of zero separates", "guarantees/certificate", "separates", r"self\.bound > 0", "self.bound >= 0",
         "test_certify.py"),
        ("few points support connectedness", "guarantees/spread", "", r'CONNECTED, "unknown", f"\{n\} points',
         'CONNECTED, "supported", f"{n} points', "test_spread.py"),
        ("no full rank supports a positive gap", "guarantees/sparsity_gap", "", r'SPARSEST, "unknown", "no point',
         'SPARSEST, "supported", "no point', "test_sparsity_gap.py test_gap_bounds.py"),
        ("rows too few for ICA do", "guarantees/components", "", r"max\(ROWS_PER_LATENT \* z\.shape\[1\], LEAST_ROWS\)",
         "min(ROWS_PER_LATENT * z.shape[1], LEAST_ROWS)", "test_components.py"),
        ("costs of zero are positive", "guarantees/occam", "", r"if cost <= 0\)", "if cost < 0)", "test_occam.py"),
        # ---- audits, deconfounding, extraction, studies ----------------------------------------------------------
        ("any group agrees", "audits/rule", "beats_twin|equally_good", r"2 \* lost\.std\(\)", "20 * lost.std()",
         "test_audit_rule.py"),
        ("the label is not held fixed", "deconfounding/carriers", "shuffled", r"draw\.permutation\((own|rows)\)",
         r"\1", "test_carriers.py"),
        ("a row is lost on resume", "studies", "_merged", r"not before or not record\.failed",
         "not before and not record.failed",
         "test_store.py test_resume.py"),
        ("equal figures are better", "studies/claims", "verdict", r"not abs\(difference\) > self\.within \+ ROUNDING",
         "not abs(difference) > 0", "test_claims.py test_other_claims.py test_all_studies.py"),
        ("a padded token is averaged", "extraction", "_check_mask", r"checks\.require\(not empty",
         "checks.require(True",
         "test_representations.py"),
    )
)  # fmt: skip


# ---- where a fault lies --------------------------------------------------------------------------------------------


def functions(text: str, name: str) -> list[tuple[int, int]]:
    """Where functions, methods (``Class.method``) of one of these names begin and end in a text."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []

    def look(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inside = prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inside = f"{prefix}.{child.name}" if prefix else child.name
                wanted = name.split("|")
                if not isinstance(child, ast.ClassDef) and (child.name in wanted or inside in wanted):
                    found.append((starts[child.lineno - 1], starts[child.end_lineno or child.lineno]))
            look(child, inside)

    look(ast.parse(text), "")
    return found


def planted(root: Path, fault: Fault) -> tuple[Path, str] | None:
    """The file of a fault and its text with the fault; ``None`` where its text is gone or there more than once."""
    files = sorted(root.glob("src/**/*.py")) + sorted(root.glob("papers/**/*.py"))
    room = [file for file in files if fault.room in file.as_posix().removeprefix(root.as_posix())]
    for among, whole in ((room, False), (room, True), (files, False)):
        places = []
        for file in among:
            text = file.read_text()
            spans = [(0, len(text))] if whole or not fault.function else functions(text, fault.function)
            for start, end in spans:
                places += [
                    (file, text, start + m.start(), start + m.end(), m.expand(fault.instead))
                    for m in re.finditer(fault.pattern, text[start:end])
                ]
        if len({(file, start) for file, _, start, *_ in places}) == 1:
            file, text, start, end, instead = places[0]
            return file, text[:start] + instead + text[end:]
    return None


# ---- runs ----------------------------------------------------------------------------------------------------------


def tested(root: Path, tests: list[str], red: list[str], log: Path, seconds: float) -> int | None:
    """Exit code of pytest on these files, in a child of this process; ``None`` where it did not end in time."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.setsid()
            os.chdir(root)
            with log.open("w") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            import pytest

            sys.path[:0] = [str(root / "src"), str(root / "benchmarks"), str(root)]
            options = ["-x", "-q", "-p", "no:cacheprovider", "--tb=line", "-rf", "--hypothesis-seed=0"]
            code = int(pytest.main([*options, *(f"--deselect={name}" for name in red), *tests]))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def outcome(root: Path, fault: Fault, red: list[str], log: Path, seconds: float, turn: int) -> tuple[str, str, str]:
    """Place, outcome and the test that saw it."""
    found = planted(root, fault)
    if found is None:
        return "", "gone", ""
    file, text = found
    asked = [name.partition("::") for name in fault.tests.split()]
    tests = [
        f"{path}{at}{name}" for file_, at, name in asked for path in root.glob(f"**/{file_}") if "tests" in path.parts
    ]
    place = str(file.relative_to(root))
    tests.append(str(file))  # its doctests
    before, times = file.read_text(), file.stat()
    try:
        file.write_text(text)
        os.utime(file, (times.st_atime, 10**9 + turn))  # so that no compiled file is taken for this one
        code = tested(root, tests, red, log, seconds)
    finally:
        file.write_text(before)
        os.utime(file, (times.st_atime, times.st_mtime))
    said = re.search(r"^(?:FAILED|ERROR) (\S+)", log.read_text(errors="replace"), flags=re.MULTILINE)
    by = said.group(1).removeprefix("tests/") if said else ""
    return place, {0: "survived", 1: "caught", None: "no end"}.get(code, f"exit {code}"), by


def preloaded() -> None:
    """What all tests import, once, before children are made; nothing that pytest wants to import itself."""
    import pandas  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn.ensemble  # noqa: F401
    import torch

    torch.set_num_threads(1)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--root", type=Path, default=Path(__file__).parents[1], help="the sources to copy")
    options.add_argument("--only", default="", help="faults whose law or place has one of these words, with commas")
    options.add_argument("--deselect", action="append", default=[], help="a test that fails without any fault")
    options.add_argument("--seconds", type=float, default=150, help="most for the tests of one fault")
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    words = given.only.split(",")
    wanted = [fault for fault in FAULTS if any(word in f"{fault.law} {fault.room}" for word in words)]
    preloaded()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "copy"
        here = shutil.ignore_patterns(".git", ".venv", "results", "__pycache__", ".hypothesis")
        shutil.copytree(given.root, root, ignore=here)
        for turn, fault in enumerate(wanted):
            begin = time.monotonic()
            place, ended, by = outcome(root, fault, given.deselect, Path(folder) / "log", given.seconds, turn)
            rows.append((fault.law, place, ended, by, f"{time.monotonic() - begin:.0f}"))
            print(f"{ended:9} {fault.law:50} {place}  {by}  {rows[-1][-1]} s", flush=True)
    print(Counter(row[2] for row in rows))
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        with given.out.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])


if __name__ == "__main__":
    main()
