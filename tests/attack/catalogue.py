"""Which attacks the catalogue has, and where those are tested whose number stands in no test of this folder.

The catalogue of attacks is numbered by what is attacked: A sensitivity, B noise, C statements, D budgets,
E mechanisms, F public incidents. Numbers that are missing were dropped from it.
"""

from __future__ import annotations

CATALOGUE = {
    "A": "01 02 04 05 07 08 10 11 13 14 16 17 19 20 22 23 25 26 28 29 31 32 34 35 37 38 40 41 43 44 46",
    "B": "01 02 04 05 07 08 10 11 13 14 16 17 19 20 22",
    "C": (
        "01 02 04 05 07 08 10 11 13 14 16 17 19 20 22 23 25 26 28 29 31 32 34 35 37 38 40 41 43 44 46 "
        "47 49 50 52 53 55 56 58 59 61 62 64 65 67 68 70 71 73 74 76 77 79 80 82 83 85 86 88 89 91 92 "
        "94 95 97 98 100 101 103 104 106 107 109 110 112 113 115 116 118 119 121 122 124 125 127 128"
    ),
    "D": "01 02 04 05 07 08 10 11 13 14 16 17 19 20 22 23 25 26 28 29 31 32 34 35 37",
    "E": "01 02 04 05 07 08 10 11 13 14 16 17 19 20 22 23 25 26 28 29",
    "F": "01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26",
}

ELSEWHERE = {
    # number: (file below tests/, a test in it)
    "B08": ("architecture/test_no_seedable_generators.py", "the_package_imports_no_seedable_generator"),
    "B19": ("unit/test_pace.py", "a_statement_ends_at_a_step_whether_or_not_it_fails"),
    "C122": ("unit/test_pace.py", "an_interrupt_leaves_the_same_traces_whether_or_not_the_answer_was_ready"),
    "C125": ("unit/test_worker.py", "what_does_not_fit_into_memory_spills_and_is_removed"),
    "D01": ("contract/test_ledger_races.py", "processes_and_threads_are_granted_exactly_the_budget"),
    "D02": ("contract/test_ledger_races.py", "no_answer_of_a_killed_process_is_without_its_charge"),
    "D23": ("statistical/test_budget_adversary.py", "no_strategy_exceeds_the_registered_delta"),
    "E02": ("unit/test_mechanisms_calibrate_gaussian.py", "against_dp_accounting_over_1000_pairs"),
    "E05": ("unit/test_mechanisms_ranks.py", "no_neighbour_changes_the_law_of_the_heaviest"),
    "E07": ("unit/test_mechanisms_ranks.py", "the_exponential_mechanism_has_its_law"),
    "E19": ("unit/test_mechanisms_local.py", "smooth_sensitivity_has_the_delta_that_it_states"),
    "E29": ("property/test_recorded.py", "no_neighbour_moves_a_true_value_further_than_its_delta"),
    "F23": ("property/test_recorded.py", "the_statements_of_the_corpus_keep_their_deltas"),
    "F26": ("property/test_equals_duckdb.py", "an_answer_without_noise_is_duckdbs"),
}  # fmt: skip

INCIDENTS = {
    # incident: the attacks that it is a case of
    "F01": "A31 A23 E13 E10",
    "F02": "A05",
    "F03": "A08",
    "F04": "A32 A34",
    "F06": "A25 A26",
    "F07": "E08 C20",
    "F08": "D23 E29",
    "F09": "A20 E22 C17",
    "F10": "B01 E02 B07 A25",
    "F11": "B02 B07 E08",
    "F12": "B02 A20 A44 E10",
    "F13": "A28 A22",
    "F14": "C31 C59 C88 A19",
    "F15": "E10 E11 C56",
    "F16": "A31 A23",
    "F18": "B01 B04",
    "F20": "E20 C56 C58",
    "F22": "C119 C71 D25",
    "F24": "B10 B16",
    "F25": "C103 C10 C11",
}

REASONS = {
    "C121": "no statement is run with TRY: what could fail is written so that it can't",
    "C128": "what is kept between statements is read from public tables alone; the operating system's "
    "caches are among what isn't protected",
    "E17": "no number of persons is estimated from a number of rows",
    "F17": "its attack was dropped from the catalogue; amounts are read by one reader: D08",
    "F19": "there is no sparse vector mechanism",
}
"""Why an attack has no test: at most as many as there are now."""
