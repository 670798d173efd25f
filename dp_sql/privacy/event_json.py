"""Events as JSON text, for ledgers: words and layout don't change once a ledger holds them.

    {"v": 1, "event": "laplace", "scale": "1600", "profiles": [[["16", "2"]]]}
    {"v": 1, "event": "gaussian", "sigma": "1024", "l2_squared": "512"}
    {"v": 1, "event": "key_selection", "noise": {…}, "delta": "1/1000000000"}  (noise: one of the others)
    {"v": 1, "event": "pure", "epsilon": "1/10"}
    {"v": 1, "event": "approximate", "epsilon": "1/10", "delta": "1/1000000000"}
    {"v": 1, "event": "sampled", "rate": "1/100", "noises": [{…}]}

Integers are texts of decimal digits, since many readers of JSON keep no more than 53 bits, and
fractions are "p/q" in lowest terms. A change of layout takes another number under "v".
"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import assert_never

from dp_sql.privacy.contribution import Change, Profile
from dp_sql.privacy.event import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    KeySelectionEvent,
    LaplaceEvent,
    PureEvent,
    SampledEvent,
)

_VERSION = 1
_INTEGER = re.compile(r"0|[1-9][0-9]*")
_FRACTION = re.compile(r"(0|[1-9][0-9]*)/([1-9][0-9]*)")


def event_to_json(event: Event) -> str:
    """Return the event as one line of ASCII JSON; equal events give equal text."""
    return json.dumps(_to_words(event), separators=(",", ":"))


def event_from_json(text: str) -> Event:
    """Return the event that `event_to_json` wrote as `text`.

    Raises ValueError for everything that it wouldn't write: other words, missing or extra keys,
    numbers that aren't text, another version.
    """
    return _from_words(json.loads(text))


def events_to_json(events: tuple[Event, ...]) -> str:
    """Return the events as one line of ASCII JSON, a list of what `event_to_json` writes."""
    return json.dumps([_to_words(event) for event in events], separators=(",", ":"))


def events_from_json(text: str) -> tuple[Event, ...]:
    """Return the events that `events_to_json` wrote as `text`; ValueError as `event_from_json`."""
    match json.loads(text):
        case list() as words:
            return tuple(map(_from_words, words))
        case _:
            raise ValueError("these words are no list of events")


def _to_words(event: Event) -> dict[str, object]:
    match event:
        case LaplaceEvent(scale=scale, change=change):
            profiles = [[[str(s), str(n)] for s, n in profile] for profile in change.profiles]
            return {"v": _VERSION, "event": "laplace", "scale": str(scale), "profiles": profiles}
        case GaussianEvent(sigma=sigma, l2_squared=l2_squared):
            sizes = {"sigma": str(sigma), "l2_squared": str(l2_squared)}
            return {"v": _VERSION, "event": "gaussian", **sizes}
        case KeySelectionEvent(noise=noise, delta=delta):
            words = {"v": _VERSION, "event": "key_selection", "noise": _to_words(noise)}
            return {**words, "delta": _ratio(delta)}
        case PureEvent(epsilon=epsilon):
            return {"v": _VERSION, "event": "pure", "epsilon": _ratio(epsilon)}
        case ApproximateEvent(epsilon=epsilon, delta=delta):
            amounts = {"epsilon": _ratio(epsilon), "delta": _ratio(delta)}
            return {"v": _VERSION, "event": "approximate", **amounts}
        case SampledEvent(rate=rate, noises=noises):
            listed = [_to_words(noise) for noise in noises]
            return {"v": _VERSION, "event": "sampled", "rate": _ratio(rate), "noises": listed}
        case _:
            assert_never(event)


def _from_words(words: object) -> Event:
    match words:
        case {"v": 1, "event": "laplace", "scale": scale, "profiles": list(profiles), **rest}:
            event: Event = LaplaceEvent(_integer(scale), Change(tuple(map(_profile, profiles))))
        case {"v": 1, "event": "gaussian", "sigma": sigma, "l2_squared": l2_squared, **rest}:
            event = GaussianEvent(_integer(sigma), _integer(l2_squared))
        case {"v": 1, "event": "key_selection", "noise": noise_words, "delta": delta, **rest}:
            event = KeySelectionEvent(_noise(noise_words), _fraction(delta))
        case {"v": 1, "event": "pure", "epsilon": epsilon, **rest}:
            event = PureEvent(_fraction(epsilon))
        case {"v": 1, "event": "approximate", "epsilon": epsilon, "delta": delta, **rest}:
            event = ApproximateEvent(_fraction(epsilon), _fraction(delta))
        case {"v": 1, "event": "sampled", "rate": rate, "noises": list(listed), **rest}:
            event = SampledEvent(_fraction(rate), tuple(map(_plain, listed)))
        case _:
            raise ValueError("these words are no event of a version known here")
    if rest:
        raise ValueError("an event has more words than its version knows")
    return event


def _noise(words: object) -> LaplaceEvent | GaussianEvent | PureEvent:
    match _from_words(words):
        case LaplaceEvent() | GaussianEvent() | PureEvent() as noise:
            return noise
        case _:
            raise ValueError("a key selection isn't made of another one")


def _plain(words: object) -> LaplaceEvent | GaussianEvent:
    match _from_words(words):
        case LaplaceEvent() | GaussianEvent() as noise:
            return noise
        case _:
            raise ValueError("the noise on a sample is Laplace or Gaussian noise")


def _profile(pairs: object) -> Profile:
    match pairs:
        case list():
            return tuple(_entry(pair) for pair in pairs)
        case _:
            raise ValueError("a profile is a list of pairs")


def _entry(pair: object) -> tuple[int, int]:
    match pair:
        case [shift, coordinates]:
            return _integer(shift), _integer(coordinates)
        case _:
            raise ValueError("an entry of a profile is a pair")


def _ratio(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"


def _integer(text: object) -> int:
    if not isinstance(text, str) or not _INTEGER.fullmatch(text):
        raise ValueError("an integer of an event is a text of decimal digits")
    return int(text)


def _fraction(text: object) -> Fraction:
    found = _FRACTION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError("a fraction of an event is a text p/q")
    return Fraction(int(found[1]), int(found[2]))
