"""Breaks the engine in one place at a time and looks whether a test notices. Run by hand:

    python tests/mutants.py --count 60 --seed 1 --only sensitivity

Each mutant is made in a copy of the project. It flips a comparison, min and max, `is None`, `and` and `or`,
floor and ceil, or drops a clamp, a bound, a `+ 1` or a condition in SQL. The tests that stand for the file
run until one fails. What survives is printed, to be killed by a new test or shown to be equivalent.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("sensitivity", "mechanisms", "budget", "planner", "executor", "privacy")
LEFT_OUT = ("sampler_opendp.py", "inventory.py", "csv_file.py", "data_check.py", "staging.py")

SENSITIVITY = """
    unit/test_sensitivity_delta.py unit/test_sensitivity_drift.py unit/test_sensitivity_blocks.py
    unit/test_sides.py unit/test_one_point.py unit/test_adjacency_answers.py unit/test_fan_out.py
    golden/test_plans.py property/test_oracle_witnesses.py property/test_oracle_kept_witnesses.py
    property/test_oracle.py property/test_recorded.py property/test_oracle_kept.py
    property/test_oracle_witnesses_family.py property/test_oracle_family.py
    property/test_oracle_blocks.py property/test_oracle_sampled.py property/test_oracle_vectors.py
    property/test_sampled.py property/test_sets_joint.py property/test_unit_local.py
    property/test_unit_local_family.py attack/test_a_sensitivity.py attack/test_a_units.py
"""
LOWERING = """
    property/test_lowering_measures.py property/test_lowering_sums.py
    property/test_lowering_total.py property/test_lowering_pairs.py
    property/test_lowering_vectors.py property/test_lowering_nested.py property/test_recorded.py
    property/test_oracle.py property/test_equals_duckdb.py property/test_oracle_family.py
    property/test_noninterference.py unit/test_executor_sources.py unit/test_executor_keys.py
    unit/test_lower_distinct.py unit/test_grouping_sets.py unit/test_fan_out.py
    property/test_noninterference_family.py property/test_oracle_meaning.py
    property/test_oracle_vectors.py property/test_oracle_sampled.py property/test_oracle_blocks.py
    property/test_groups_of_nulls.py property/test_sampled.py property/test_unit_local.py
    property/test_unit_local_family.py golden/test_plans.py
"""
MECHANISMS = """
    statistical/test_release_audit.py property/test_keys_exact.py property/test_recorded.py
    property/test_sets_joint.py attack/test_e_mechanisms.py attack/test_b_noise.py
    attack/test_b_sources.py property/test_equals_duckdb.py statistical/test_keys_audit.py
    statistical/test_sql_audit.py
"""
BUDGET = """
    unit/test_budget_accountant.py unit/test_budget_left.py unit/test_budget_taken.py
    contract/test_ledger_contract.py contract/test_ledger_raise.py
    contract/test_ledger_damage.py contract/test_ledger_layouts.py
    property/test_budget_filters.py property/test_ledger_history.py attack/test_d_budget.py
    unit/test_connection_accountants.py
"""
PLANNER = """
    golden/test_plans.py unit/test_planner_keys.py unit/test_planner_selection.py unit/test_planner_pairs.py
    unit/test_planner_written.py unit/test_grouping_sets.py property/test_oracle.py
    property/test_recorded.py property/test_equals_duckdb.py attack/test_a_sensitivity.py
    attack/test_c_answers.py property/test_keys_exact.py property/test_oracle_family.py
    unit/test_planner_choices.py unit/test_sides.py unit/test_joined.py unit/test_one_point.py
    unit/test_pairs_shared.py unit/test_keys_crossing.py unit/test_sampling.py
    property/test_oracle_witnesses.py property/test_oracle_kept.py property/test_oracle_blocks.py
    property/test_oracle_sampled.py property/test_oracle_vectors.py property/test_sampled.py
    property/test_sets_joint.py property/test_noninterference.py property/test_unit_local.py
"""
PRIVACY = """
    unit/test_privacy_renyi.py unit/test_privacy_event.py unit/test_privacy_contribution.py
    unit/test_privacy_concentrated.py unit/test_privacy_sampling.py unit/test_privacy_amount.py
    unit/test_privacy_event_json.py property/test_privacy_renyi_lattice.py
"""
TESTS = {
    "sensitivity": SENSITIVITY, "mechanisms": MECHANISMS, "budget": BUDGET, "planner": PLANNER,
    "executor": LOWERING, "privacy": PRIVACY,
}  # fmt: skip
"""The tests that stand for each folder, the quick ones first; those of a module's own name come before."""

EXERCISED = {
    "sensitivity/blocks": "unit/test_sensitivity_blocks.py unit/test_blocks.py",
    "sensitivity/conditions": "unit/test_sensitivity_blocks.py unit/test_blocks.py",
    "sensitivity/spans": "unit/test_sensitivity_blocks.py property/test_blocks_spanned.py",
    "sensitivity/histogram": "unit/test_adjacency_answers.py unit/test_sampling.py",
    "sensitivity/locality": "unit/test_sensitivity_delta.py attack/test_a_units.py",
    "sensitivity/motion": "property/test_oracle_kept_witnesses.py property/test_oracle_kept.py",
    "sensitivity/multiplicity": "unit/test_fan_out.py property/test_oracle_witnesses_family.py",
    "sensitivity/ownership": "property/test_oracle_witnesses_family.py attack/test_a_units.py",
    "sensitivity/sampling": "unit/test_sampling.py",
    "sensitivity/sides": "unit/test_sides.py",
    "planner/bounded": "unit/test_joined.py golden/test_plans.py",
    "planner/histograms": "unit/test_one_point.py golden/test_plans.py unit/test_bins.py",
    "planner/plan": "golden/test_plans.py",
    "planner/sides": "unit/test_sides.py",
    "planner/selection": "unit/test_planner_selection.py unit/test_keys_crossing.py",
    "planner/written": "unit/test_planner_written.py",
    "executor/lower_histogram": "unit/test_bins.py property/test_ranks_equal_duckdb.py",
    "executor/lower_public": "unit/test_keys_crossing.py unit/test_stages.py",
    "executor/lower_relation": "unit/test_sampling.py unit/test_joined.py unit/test_sides.py",
    "executor/lower_rows": "property/test_frames_total.py unit/test_fan_out.py",
    "executor/lower_sums": "unit/test_planner_pairs.py golden/test_plans.py",
    "executor/lower_vector": "property/test_vectors_equal_duckdb.py",
}
"""Tests that reach a module through others, beside those that import it."""

EQUIVALENT = re.compile(r"raise |hint=|InternalError")
"""Lines that only say something: of a refusal, or of what can't happen."""

ARGUED = {
    # (file, a part of the line): why a change of the line that no test notices isn't wrong
    ("executor/lower_row_aggregate.py", "_EXACT_ROWS} THEN"):
        "at 2^31 rows of |a| <= 2^30, n sum(a^2) and sum(a)^2 are at most 2^122, so both forms are right",
    ("mechanisms/local.py", "* 2 > MAX_SCALE"):
        "of the scales that can be drawn, only the largest one is refused besides",
    ("planner/bounded.py", "few = frame.unit_rows is not None"):
        "how finely weights are cut; the unit of the facts is cut alike, and a weight is rounded down",
    ("planner/sampled.py", "width, largest ="):
        "largest = smallest + width where signs agree, so steps stay below _LARGEST + 2 _STEPS < 2^53",
    ("planner/sets.py", "len(whole) < 2 or"):
        "a list in place of a range, which is the same condition",
    ("planner/histograms.py", "many = len(quantiles)"):
        "which of two mechanisms is better; each is private by its own claim",
    ("planner/selection.py", "coarse = wish.epsilon"): "which rule is tried first; each has its own claim",
    ("planner/selection.py", "most <= _MOST_WEIGHED"): "the largest number of groups that is tried",
    ("planner/distincts.py", "while 2 * caps[-1] < max_rows"):
        "another cap to choose from; noise and cut follow the cap that is chosen",
    ("planner/measures.py", "asking = next("): "whose place in the text an error shows",
    ("planner/measures.py", "text, position = aggregate.place"): "the place in the text that an error shows",
    ("planner/keys.py", 'condition.function == "="'):
        "which public tables are crossed; each condition on them still decides which rows of theirs count",
    ("planner/sets.py", "if key in seen or"):
        "which rows no set counts; every set keeps out by itself what isn't in its domain",
}  # fmt: skip

COMPARISONS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="),
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "ceil": "floor", "floor": "ceil", "any": "all", "all": "any"}
IN_SQL = (
    (" IS NOT NULL", " IS NULL"), ("least(", "greatest("), ("greatest(", "least("), (" <= ", " < "),
    (" < ", " <= "), (" >= ", " > "), ("count(*)", "count(DISTINCT u)"), (" AND ", " OR "),
    ("coalesce(", "nullif("), ("PARTITION BY u ", "PARTITION BY 1 "), (" DESC", ""), ("isfinite", "isnan"),
)  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: of the text between two offsets of a file."""

    file: Path
    start: int
    end: int
    text: str
    what: str
    line: int

    def of(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.end :]


def mutants(file: Path) -> Iterator[Mutant]:
    """Yield the mutants of a file."""
    source = file.read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    tree = ast.parse(source)
    documented = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            documented |= {id(x.value) for x in body if isinstance(x, ast.Expr)}

    def offset(line: int, column: int) -> int:
        ahead = lines[line - 1].encode()[:column].decode()
        return starts[line - 1] + len(ahead)

    def change(node: ast.expr, start: int, end: int, text: str, what: str) -> Iterator[Mutant]:
        if not EQUIVALENT.search(lines[node.lineno - 1]):
            yield Mutant(file, start, end, text, what, node.lineno)

    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            first = offset(node.lineno, node.col_offset)
            last = offset(node.end_lineno or 0, node.end_col_offset or 0)
            for start, end, text, what in _changes(node, source, first, last, offset, documented):
                yield from change(node, start, end, text, what)


def _changes(
    node: ast.expr, source: str, first: int, last: int, offset: object, documented: set[int]
) -> Iterator[tuple[int, int, str, str]]:
    """Yield (start, end, text, what) for the changes of one expression."""
    assert callable(offset)
    text = source[first:last]
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
            start = offset(left.end_lineno, left.end_col_offset)
            end = offset(right.lineno, right.col_offset)
            old, new = COMPARISONS[type(op)]
            yield start, end, source[start:end].replace(old, new, 1), f"{old} becomes {new}"
        case ast.BoolOp(op=ast.And(), values=[*_, a, b]):
            start, end = (offset(a.end_lineno, a.end_col_offset), offset(b.lineno, b.col_offset))
            yield start, end, source[start:end].replace("and", "or"), "and becomes or"
        case ast.BinOp(left=a, op=ast.Add() | ast.Sub(), right=ast.Constant(value=1)):
            end = offset(a.end_lineno, a.end_col_offset)
            yield first, last, source[first:end], "drops a 1"
        case ast.BinOp(left=ast.Constant(value=2), op=ast.Mult(), right=b):
            yield first, last, source[offset(b.lineno, b.col_offset) : last], "drops a factor 2"
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            yield first, first + len(name), NAMES[name], f"{name} becomes {NAMES[name]}"
        case ast.Call(func=ast.Attribute(attr=name, value=owner)) if name in NAMES:
            end = offset(owner.end_lineno, owner.end_col_offset) + 1
            yield end, end + len(name), NAMES[name], f"{name} becomes {NAMES[name]}"
        case ast.UnaryOp(op=ast.Not(), operand=a):
            yield first, last, source[offset(a.lineno, a.col_offset) : last], "drops a not"
        case ast.JoinedStr() | ast.Constant(value=str()) if id(node) not in documented:
            for old, new in IN_SQL:
                for found in re.finditer(re.escape(old), text if text.count("\n") == 0 else ""):
                    start, end = first + found.start(), first + found.end()
                    yield start, end, new, f"SQL: {old.strip()} becomes {new.strip()}"


def argued(mutant: Mutant) -> str | None:
    """Return why a mutant that no test notices isn't wrong, None where nothing is said of its line."""
    line = mutant.file.read_text(encoding="utf-8").splitlines()[mutant.line - 1]
    place = "/".join(mutant.file.parts[-2:])
    return next((why for (f, part), why in ARGUED.items() if f == place and part in line), None)


def tests_of(file: Path) -> list[str]:
    """Return the tests that stand for a file, the likeliest to notice first.

    Those of its name, those in `EXERCISED`, those that import it, and those of its folder.
    """
    folder, name = file.parent.name, file.stem
    own = sorted(ROOT.glob(f"tests/unit/test_{folder}_{name}.py"))
    own += sorted(ROOT.glob(f"tests/property/test_{name}*.py"))
    some = [str(path.relative_to(ROOT)) for path in own]
    reached = [f"tests/{one}" for one in EXERCISED.get(f"{folder}/{name}", "").split()]
    others = [f"tests/{one}" for one in TESTS[folder].split()]
    return list(dict.fromkeys([*some, *reached, *importing(file), *others]))


def importing(file: Path) -> list[str]:
    """Return the tests that import or name a module, the quick kinds first."""
    folder, name = file.parent.name, file.stem
    one = rf"dp_sql\.{folder}\.{name}\b"
    read = re.compile(rf"{one}|^from dp_sql\.{folder} import (?:.*\b)?{name}\b", re.MULTILINE)
    kinds = ("unit", "golden", "attack", "contract", "property", "statistical")
    files = [f for kind in kinds for f in sorted((ROOT / "tests" / kind).glob("test_*.py"))]
    return [str(f.relative_to(ROOT)) for f in files if read.search(f.read_text(encoding="utf-8"))]


def tried(copy: Path, mutant: Mutant, seconds: float, most: int) -> tuple[str, str]:
    """Return what becomes of a mutant: killed, survived, or undecided; and the test that killed it."""
    place = copy / mutant.file.relative_to(ROOT)
    source = place.read_text(encoding="utf-8")
    place.write_text(mutant.of(source), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "--tb=no",
    ]
    try:
        done = subprocess.run(
            [*command, *tests_of(mutant.file)[:most]],
            cwd=copy, env=environment, capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
        found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        if done.returncode == 0:
            return "survived", ""
        return "killed", found[1] if found else "it can't start"
    except subprocess.TimeoutExpired:
        return "undecided", f"no test failed in {seconds:.0f} s"
    finally:
        place.write_text(source, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--count", type=int, default=40, help="how many mutants, at random")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", default="", help="a part of the files' paths")
    parser.add_argument("--minutes", type=float, default=600, help="when to stop")
    parser.add_argument("--seconds", type=float, default=900, help="for the tests of one mutant")
    parser.add_argument(
        "--tests", type=int, default=99, help="so many files of tests, the quick ones"
    )
    options = parser.parse_args()
    files = [f for folder in FOLDERS for f in sorted((ROOT / "dp_sql" / folder).glob("*.py"))]
    some = [f for f in files if f.name not in LEFT_OUT and options.only in str(f.relative_to(ROOT))]
    # the parts of an f-string have its place
    known = list(dict.fromkeys(mutant for file in some for mutant in mutants(file)))
    chosen = Random(options.seed).sample(known, min(options.count, len(known)))
    print(f"{len(known)} mutants of {len(some)} files, {len(chosen)} are tried")
    counts: Counter[str] = Counter()
    until = time.monotonic() + 60 * options.minutes
    with TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder) / "copy"
        left = shutil.ignore_patterns(".git", ".*cache", "__pycache__", ".ci-venv", "*.ledger*")
        shutil.copytree(ROOT, copy, ignore=left)
        for mutant in chosen:
            if time.monotonic() > until:
                break
            fate, by = tried(copy, mutant, options.seconds, options.tests)
            reason = argued(mutant)
            if fate != "killed" and reason is not None:
                fate, by = "argued", reason
            counts[fate] += 1
            where = f"{mutant.file.relative_to(ROOT)}:{mutant.line}"
            print(f"{fate:9} {where}: {mutant.what}; {by}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
