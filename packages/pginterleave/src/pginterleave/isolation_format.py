"""PostgreSQL's isolation-test format: parses a specification.

    setup { CREATE TABLE … }            # any number of them
    teardown { DROP TABLE … }           # may be left out
    session s1
    setup { BEGIN; }                    # may be left out, as teardown behind the steps
    step s1_read { SELECT … }           # one or more
    permutation s1_read s2_write(*)     # without one, all of them run

A marker behind a step of a permutation says when the step's completion may be reported. `*`: not at
once. The name of another step: not before that step has completed. `name notices 2`: not before the
session of that step has sent two notices. The format is documented in src/test/isolation/README of
PostgreSQL's source.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

KEYWORDS = {"notices", "permutation", "session", "setup", "step", "teardown"}
TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
      | (?P<sql>\{[ \t\r\f]*(?P<text>.*?)[ \t\r\f]*\})
      | (?P<name>"(?P<quoted>(?:[^"\n]|"")*)"|[A-Za-z_\u0080-\U0010ffff][\w$]*)
      | (?P<number>\d+)
      | (?P<sign>[(),*])""",
    re.VERBOSE | re.DOTALL,
)


class SpecError(Exception):
    """A specification cannot be read or run."""


class SpecStep(NamedTuple):
    """A step; `session` is the number of its session, from 0."""

    name: str
    sql: str
    session: int


class SpecSession(NamedTuple):
    """A session: its steps, and the SQL that runs before and after each permutation."""

    name: str
    steps: tuple[SpecStep, ...]
    setup: str | None
    teardown: str | None


class Marker(NamedTuple):
    """The step that the report of another step waits for; `step` is None for `*`."""

    step: SpecStep | None = None
    notices: int = 0


class PermutationStep(NamedTuple):
    step: SpecStep
    markers: tuple[Marker, ...] = ()


class Specification(NamedTuple):
    """A parsed specification; `permutations` has all possible ones if the text names none."""

    sessions: tuple[SpecSession, ...]
    permutations: tuple[tuple[PermutationStep, ...], ...]
    setups: tuple[str, ...]
    teardown: str | None
    unused: tuple[str, ...]  # steps that no permutation names


def parse(text: str) -> Specification:
    """Parse a specification. Raises SpecError, which names the line of a syntax error."""
    return _Parser(text).specification()


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = [*_tokens(text), ("end", "the end", text.count("\n") + 1)]
        self.steps: dict[str, SpecStep] = {}

    def specification(self) -> Specification:
        setups = []
        while (sql := self._block("setup")) is not None:
            setups.append(sql)
        teardown = self._block("teardown")
        self._take("session")
        sessions = [self._session(0)]
        while self._skip("session"):
            sessions.append(self._session(len(sessions)))
        permutations = []
        while self._skip("permutation"):
            permutations.append(self._permutation())
        self._take("end")
        used = {each.step.name for permutation in permutations for each in permutation}
        unused = [name for name in self.steps if name not in used] if permutations else []
        all_or_named = permutations or _all_permutations(sessions)
        return Specification(
            tuple(sessions), tuple(all_or_named), tuple(setups), teardown, tuple(unused)
        )

    def _session(self, number: int) -> SpecSession:
        name = self._take("name")
        setup = self._block("setup")
        self._take("step")
        steps = [self._step(number)]
        while self._skip("step"):
            steps.append(self._step(number))
        return SpecSession(name, tuple(steps), setup, self._block("teardown"))

    def _step(self, session: int) -> SpecStep:
        step = SpecStep(self._take("name"), self._take("sql"), session)
        if step.name in self.steps:
            raise SpecError(f"duplicate step name: {step.name}")
        self.steps[step.name] = step
        return step

    def _permutation(self) -> tuple[PermutationStep, ...]:
        named = [self._named_step()]
        while self.tokens[0][0] == "name":
            named.append(self._named_step())
        here = {each.step.name for each in named}
        for step, markers in named:
            for other in (each.step for each in markers if each.step):
                if other.name not in here:
                    raise SpecError(
                        f'undefined blocking step "{other.name}" referenced in permutation '
                        f'step "{step.name}"'
                    )
                if other.session == step.session:
                    raise SpecError(
                        f'permutation step "{step.name}" cannot block on its own session'
                    )
        return tuple(named)

    def _named_step(self) -> PermutationStep:
        step, markers = self._known_step("specified in permutation"), []
        if self._skip("("):
            markers.append(self._marker())
            while self._skip(","):
                markers.append(self._marker())
            self._take(")")
        return PermutationStep(step, tuple(markers))

    def _marker(self) -> Marker:
        if self._skip("*"):
            return Marker()
        step = self._known_step("referenced in permutation")
        return Marker(step, int(self._take("number")) if self._skip("notices") else 0)

    def _known_step(self, where: str) -> SpecStep:
        name = self._take("name")
        if name not in self.steps:
            raise SpecError(f'undefined step "{name}" {where}')
        return self.steps[name]

    def _block(self, keyword: str) -> str | None:
        return self._take("sql") if self._skip(keyword) else None

    def _skip(self, kind: str) -> bool:
        """Take the next token if it is of this kind; return whether it is."""
        found = self.tokens[0][0] == kind
        if found:
            del self.tokens[0]
        return found

    def _take(self, kind: str) -> str:
        found, value, line = self.tokens.pop(0)
        if found != kind:
            raise SpecError(f"syntax error at line {line}: {kind} was expected, not {value!r}")
        return value


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield the kind, the value and the line of each token; keywords and signs are kinds."""
    at, line = 0, 1
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise SpecError(f"syntax error at line {line}: unexpected {text[at]!r}")
        kind, value = str(match.lastgroup), match[0]
        if match["sql"] is not None:
            yield "sql", match["text"], line
        elif match["quoted"] is not None:
            yield "name", match["quoted"].replace('""', '"'), line
        elif match["space"] is None:
            yield value if value in KEYWORDS or kind == "sign" else kind, value, line
        line += value.count("\n")
        at = match.end()


def _all_permutations(sessions: list[SpecSession]) -> Iterator[tuple[PermutationStep, ...]]:
    """Yield all permutations that keep the order of each session's steps."""
    for order in _orders([number for number, each in enumerate(sessions) for _ in each.steps]):
        steps = [iter(each.steps) for each in sessions]
        yield tuple(PermutationStep(next(steps[number])) for number in order)


def _orders(left: list[int]) -> Iterator[tuple[int, ...]]:
    if not left:
        yield ()
    for place, number in enumerate(left):
        if number not in left[:place]:
            for order in _orders(left[:place] + left[place + 1 :]):
                yield (number, *order)
