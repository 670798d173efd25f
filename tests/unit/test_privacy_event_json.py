from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_sql.privacy.contribution import Change
from dp_sql.privacy.event import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    KeySelectionEvent,
    LaplaceEvent,
    PureEvent,
    SampledEvent,
)
from dp_sql.privacy.event_json import (
    event_from_json,
    event_to_json,
    events_from_json,
    events_to_json,
)

sizes = st.integers(0, 2**200)
profiles = st.lists(st.tuples(sizes, sizes), max_size=4).map(tuple)
noises = st.one_of(
    st.builds(
        LaplaceEvent,
        st.integers(1, 2**200),
        st.lists(profiles, min_size=1, max_size=3).map(lambda found: Change(tuple(found))),
    ),
    st.builds(GaussianEvent, st.integers(1, 2**200), sizes),
)
deltas = st.fractions(0, 1).filter(lambda delta: delta < 1)
pure = st.builds(PureEvent, st.fractions(min_value=0))
sampled = st.builds(
    SampledEvent,
    st.fractions(0, 1).filter(lambda rate: 0 < rate < 1),
    st.lists(noises, min_size=1, max_size=3).map(tuple),
)
approximate = st.builds(ApproximateEvent, st.fractions(min_value=0), deltas)
events = st.one_of(noises, st.builds(KeySelectionEvent, noises, deltas), pure, approximate, sampled)


@settings(deadline=None)
@given(st.lists(events, max_size=4).map(tuple))
def test_every_event_comes_back_as_it_was(found: tuple[Event, ...]) -> None:
    text = events_to_json(found)
    assert text.isascii()
    assert "\n" not in text
    assert events_from_json(text) == found
    assert [event_from_json(event_to_json(event)) for event in found] == list(found)


def test_the_words_are_those_that_old_ledgers_hold() -> None:
    noise = LaplaceEvent(2**70, Change((((16, 2), (3, 1)), ())))
    laplace = (
        '{"v":1,"event":"laplace","scale":"1180591620717411303424",'
        '"profiles":[[["16","2"],["3","1"]],[]]}'
    )
    gaussian = '{"v":1,"event":"gaussian","sigma":"1024","l2_squared":"0"}'
    chosen = '{"v":1,"event":"key_selection","noise":' + gaussian + ',"delta":"1/1000000000"}'
    assert event_to_json(noise) == laplace
    assert event_to_json(GaussianEvent(1024, 0)) == gaussian
    delta = Fraction(1, 10**9)
    assert event_to_json(KeySelectionEvent(GaussianEvent(1024, 0), delta)) == chosen
    pure = '{"v":1,"event":"pure","epsilon":"1/10"}'
    assert event_to_json(PureEvent(Fraction(1, 10))) == pure
    less = '{"v":1,"event":"approximate","epsilon":"1/10","delta":"1/1000000000"}'
    assert event_to_json(ApproximateEvent(Fraction(1, 10), delta)) == less
    some = '{"v":1,"event":"sampled","rate":"1/100","noises":[' + gaussian + "]}"
    assert event_to_json(SampledEvent(Fraction(1, 100), (GaussianEvent(1024, 0),))) == some
    coins = '{"v":1,"event":"key_selection","noise":' + pure + ',"delta":"1/1000000000"}'
    assert event_to_json(KeySelectionEvent(PureEvent(Fraction(1, 10)), delta)) == coins
    for text in (laplace, gaussian, chosen, pure, less, some, coins):
        assert event_to_json(event_from_json(text)) == text


GAUSSIAN = {"v": 1, "event": "gaussian", "sigma": "3", "l2_squared": "4"}
LAPLACE = {"v": 1, "event": "laplace", "scale": "3", "profiles": [[["1", "1"]]]}


@pytest.mark.parametrize(
    "words",
    [
        [],
        "laplace",
        None,
        {},
        {**GAUSSIAN, "v": 2},
        {**GAUSSIAN, "v": True, "event": "gauss"},
        {**GAUSSIAN, "event": "cauchy"},
        {"v": 1, "event": "pure", "epsilon": "0.1"},
        {"v": 1, "event": "pure", "epsilon": "1/10", "delta": "0/1"},
        {"v": 1, "event": "approximate", "epsilon": "1/10"},
        {"v": 1, "event": "approximate", "epsilon": "1/10", "delta": "1/1"},
        {**GAUSSIAN, "more": "1"},
        {"v": 1, "event": "sampled", "rate": "1/10", "noises": []},
        {"v": 1, "event": "sampled", "rate": "1/1", "noises": [GAUSSIAN]},
        {
            "v": 1,
            "event": "sampled",
            "rate": "1/10",
            "noises": [{"v": 1, "event": "pure", "epsilon": "1/2"}],
        },
        {"v": 1, "event": "sampled", "rate": "1/10", "noises": [GAUSSIAN], "more": "1"},
        {**GAUSSIAN, "sigma": 3},
        {**GAUSSIAN, "sigma": "0"},
        {**GAUSSIAN, "sigma": "03"},
        {**GAUSSIAN, "sigma": "3.0"},
        {**GAUSSIAN, "sigma": "-3"},
        {**GAUSSIAN, "sigma": "٣"},
        {**GAUSSIAN, "sigma": "3\n"},
        {**LAPLACE, "profiles": []},
        {**LAPLACE, "profiles": [[["1"]]]},
        {**LAPLACE, "profiles": [[["1", "1", "1"]]]},
        {**LAPLACE, "profiles": [["11"]]},
        {**LAPLACE, "profiles": ["11"]},
        {**LAPLACE, "profiles": "11"},
        {"v": 1, "event": "key_selection", "noise": GAUSSIAN, "delta": "1"},
        {"v": 1, "event": "key_selection", "noise": GAUSSIAN, "delta": "1/0"},
        {"v": 1, "event": "key_selection", "noise": GAUSSIAN, "delta": "2/1"},
        {"v": 1, "event": "key_selection", "noise": GAUSSIAN, "delta": 1e-9},
        {
            "v": 1,
            "event": "key_selection",
            "noise": {"v": 1, "event": "key_selection", "noise": GAUSSIAN, "delta": "0/1"},
            "delta": "0/1",
        },
    ],
)
def test_other_words_are_refused(words: object) -> None:
    with pytest.raises(ValueError, match=r"^(an?|the|these) "):
        event_from_json(json.dumps(words))


@pytest.mark.parametrize("text", ["", "{", "null", "3", '"x"', "{}"])
def test_a_list_of_events_is_a_list(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  JSON's own message or ours
        events_from_json(text)
