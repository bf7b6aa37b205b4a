"""Bodies that the description does not allow and a parser may take: arrays in place of objects, and
durations without their unit. The tool loads this file; a body with one of them must be refused.

A header cannot be repeated here, because the tool keeps headers by name: the fuzzer of duly-server's
tests does it.
"""

import re

import schemathesis
from hypothesis import strategies as st

DURATION = re.compile(r"[1-9][0-9]{0,9}(ms|s|m|h|d)")
# A payload is any JSON, so nothing in it is a mistake.
ANYTHING = {"payload"}


class Positional(list):
    """An array that stands for an object: its values, and nulls."""


class Bare(int):
    """A duration without its unit."""


def places(value):
    """The paths of what can be changed."""
    if isinstance(value, dict):
        yield ()
        for key, inner in value.items():
            if key not in ANYTHING:
                yield from ((key, *rest) for rest in places(inner))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from ((number, *rest) for rest in places(inner))
    elif isinstance(value, str) and DURATION.fullmatch(value):
        yield ()


def changed(value, path, nulls):
    """The value with the one place changed."""
    if path:
        first, *rest = path
        inner = changed(value[first], rest, nulls)
        if isinstance(value, dict):
            return {**value, first: inner}
        return [*value[:first], inner, *value[first + 1 :]]
    if isinstance(value, dict):
        return Positional([*value.values(), *[None] * nulls])
    return Bare(re.match("[0-9]+", value).group())


def is_mutated(value):
    if isinstance(value, (Positional, Bare)):
        return True
    if isinstance(value, dict):
        return any(map(is_mutated, value.values()))
    return isinstance(value, list) and any(map(is_mutated, value))


@schemathesis.hook
def flatmap_body(context, body):
    found = list(places(body))
    if not found:
        return st.just(body)
    mutated = st.builds(lambda path, nulls: changed(body, path, nulls), st.sampled_from(found), st.integers(0, 5))
    return st.one_of(st.just(body), mutated)


@schemathesis.check
def mutations_are_refused(context, response, case):
    if is_mutated(case.body):
        # An item of a batch is refused by itself, in an answer with status 200.
        is_refused = response.status_code >= 400 or '"error"' in response.text
        assert is_refused, f"taken: {case.body}"
