"""A class in one room: a lecturer asks on a projector, phones answer, and the projector shows what the class said.

A room lives in the memory of the server and nowhere else. It knows phones by a random identifier that each chose
itself: one answer per phone and question, which is no proof of one person.
"""

import json
import math
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from dpviz.errors import UserError

LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZ"  # without I, L and O, which a hall takes for digits
CODE = 5  # letters of a code: 6.4 million codes
MAX_PHONES = 500  # in a room
MAX_ROOMS = 50  # open at once on a server
LASTS = 3 * 3600.0  # seconds after which a room ends by itself
MAX_ID = 64  # letters of a phone's identifier
# How many codes may be wrong at once, and the seconds after which one more may be: of an address, and in all, as behind
# a proxy all phones may have one address. So 10,000 guesses take five hours, and codes live for three.
GUESSES, ALL_GUESSES = (20, 10.0), (100, 2.0)
MAX_CLIENTS = 1000  # addresses whose wrong codes are counted
ANSWERS = (20, 0.05)  # as GUESSES, for the answers of one phone: no finger is so quick


class TooOften(Exception):
    """Raised where something was tried too often. seconds : after which it may be tried again."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"try again in {seconds:.0f} seconds")
        self.seconds = seconds


class _Bucket:
    """A bucket with a token for each act that may happen now. size : tokens if full. every : seconds for a new one."""

    def __init__(self, size: float, every: float) -> None:
        self._size, self._every = size, every
        self._tokens, self._filled_at = size, -math.inf  # full when first used

    def seconds_to_wait(self, now: float) -> float:
        """Add the tokens since the last call, and return the seconds until there is one, 0 if there is one now."""
        self._tokens = min(self._size, self._tokens + (now - self._filled_at) / self._every)
        self._filled_at = now
        return max(0.0, (1 - self._tokens) * self._every)

    def take(self, now: float) -> None:
        """Take a token. Raises TooOften if there is none."""
        seconds = self.seconds_to_wait(now)
        if seconds > 0:
            raise TooOften(seconds)
        self._tokens -= 1


class Question(ABC):
    """A question that phones answer, without any text of their own.

    kind : the name by which the page of a phone knows how to ask. title : the question itself.
    """

    kind: ClassVar[str]
    title: str

    @abstractmethod
    def facts(self, seat: int) -> Mapping[str, Any]:
        """Return all that the phone with this seat needs to ask the question, as JSON; never the right answer."""

    @abstractmethod
    def parse(self, answer: object) -> Any:
        """Return an answer that came over the network, in its own type; raise ValueError if it is none."""


@dataclass(frozen=True)
class Choice(Question):
    """A choice among options; its answer is the index of one."""

    kind: ClassVar[str] = "choice"
    title: str
    options: tuple[str, ...]

    def facts(self, seat: int) -> Mapping[str, Any]:
        return {"options": self.options}

    def parse(self, answer: object) -> int:
        return _index(answer, len(self.options))


@dataclass(frozen=True)
class Drawing(Question):
    """A curve that is drawn by moving handles; its answer is their heights, as shares of the sheet from 0 to 1.

    handles : the horizontal positions of the handles, from 0 to 1. old : the curve before the change, as points (x, y)
        of the unit square. x, y : titles of the axes. x_ticks, y_ticks : their marks, as (position from 0 to 1, text).
    """

    kind: ClassVar[str] = "drawing"
    title: str
    handles: tuple[float, ...]
    old: tuple[tuple[float, float], ...]
    x: str
    y: str
    x_ticks: tuple[tuple[float, str], ...] = ()
    y_ticks: tuple[tuple[float, str], ...] = ()

    def facts(self, seat: int) -> Mapping[str, Any]:
        axes = {"x": self.x, "y": self.y, "x_ticks": self.x_ticks, "y_ticks": self.y_ticks}
        return axes | {"handles": self.handles, "old": self.old}

    def parse(self, answer: object) -> tuple[float, ...]:
        if not isinstance(answer, list) or len(answer) != len(self.handles):
            raise ValueError("a drawing has one height for each handle")
        return tuple(_share(height) for height in answer)


@dataclass(frozen=True)
class Threshold(Question):
    """A place on a score's axis, as a share of it from 0 to 1.

    bars : by the name of a group, the heights of its histogram, from 0 to 1, in bins of equal width along the axis.
    x : title of the axis. x_ticks : its marks, as (position from 0 to 1, text).
    """

    kind: ClassVar[str] = "threshold"
    title: str
    bars: Mapping[str, tuple[float, ...]]
    x: str
    x_ticks: tuple[tuple[float, str], ...] = ()

    def facts(self, seat: int) -> Mapping[str, Any]:
        return {"bars": self.bars, "x": self.x, "x_ticks": self.x_ticks}

    def parse(self, answer: object) -> float:
        return _share(answer)


@dataclass(frozen=True)
class OwnRun(Question):
    """A run for each phone; its answer says that the phone has opened it.

    ends : the value at which each run ends, in the unit that `label` names; the phone with seat s has run s. The class
        is told when there are fewer runs than phones: seats begin again with the first run then.
    """

    kind: ClassVar[str] = "run"
    title: str
    label: str
    ends: tuple[float, ...]

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, self.ends)):
            raise ValueError("a phone cannot show an end that is not finite")

    def facts(self, seat: int) -> Mapping[str, Any]:
        return {"label": self.label, "run": seat % len(self.ends) + 1, "end": self.ends[seat % len(self.ends)]}

    def parse(self, answer: object) -> bool:
        if answer is not True:
            raise ValueError("the only answer is true")
        return True


@dataclass(frozen=True)
class RandomisedQuestion(Question):
    """A question to which the phone answers by randomised response; its answer is the index of the reported option.

    The phone draws the coins: with probability `truth` it reports the true option, else one of all options, each with
    the same probability. The true option never leaves it.
    """

    kind: ClassVar[str] = "coins"
    title: str
    options: tuple[str, ...]
    epsilon: float
    truth: float

    def facts(self, seat: int) -> Mapping[str, Any]:
        return {"options": self.options, "epsilon": self.epsilon, "truth": self.truth}

    def parse(self, answer: object) -> int:
        return _index(answer, len(self.options))


@dataclass(frozen=True)
class MembershipGame(Question):
    """A game: was the person in the count? Its answer is the list of a phone's guesses, in the order of the rounds.

    others : the number of people in the count without the person, which the attacker knows. counts : the noisy counts
    of each seat's rounds, (seats, rounds). present : true where the person was in, (seats, rounds). Where there are
    more phones than that, seats begin again with the first.
    """

    kind: ClassVar[str] = "odds"
    title: str
    epsilon: float
    others: int
    counts: Sequence[Sequence[float]] = field(repr=False)
    present: Sequence[Sequence[bool]] = field(repr=False)

    def facts(self, seat: int) -> Mapping[str, Any]:
        return {"epsilon": self.epsilon, "others": self.others, "counts": list(self.counts[seat % len(self.counts)])}

    def parse(self, answer: object) -> tuple[bool, ...]:
        rounds = len(self.counts[0])
        if not isinstance(answer, list) or len(answer) != rounds or not all(type(guess) is bool for guess in answer):
            raise ValueError("the game has one guess, true or false, for each round")
        return tuple(answer)

    def count_right(self, seat: int, guesses: Sequence[bool]) -> int:
        """Return how many of the guesses of the phone with this seat are right."""
        present = self.present[seat % len(self.present)]
        return sum(guess == truth for guess, truth in zip(guesses, present, strict=True))


def _index(answer: object, options: int) -> int:
    """Return an answer that is an index below the number `options`; raise ValueError for any other."""
    if type(answer) is not int or not 0 <= answer < options:
        raise ValueError("the answer is no option of this question")
    return answer


def _share(answer: object) -> float:
    """Return an answer that is a number from 0 to 1; raise ValueError for any other."""
    if isinstance(answer, bool) or not isinstance(answer, int | float) or not 0 <= answer <= 1:
        raise ValueError("the answer is no number from 0 to 1")  # also for NaN, of which no comparison is true
    return float(answer)


@dataclass(eq=False)
class Ballot:
    """A question that the lecturer has asked, with the answers to it.

    number : 1 for the first of the room. answers : those that count, by seat. removed : those that count no more: their
    phones show them still, so nobody can tell whose they are. is_open : true while phones may answer. result : all that
    phones are told once it is revealed, None before. by_seat : returns what only the phone with that seat is told then.
    """

    number: int
    question: Question
    answers: dict[int, Any] = field(default_factory=dict)
    removed: dict[int, Any] = field(default_factory=dict)
    is_open: bool = True
    result: Mapping[str, Any] | None = None
    by_seat: Callable[[int], Mapping[str, Any]] | None = None


class Room:
    """A class. Every method may be called from any thread; the lecturer's are those below the line.

    code : the letters by which phones find it. key : the secret by which the lecturer's page finds it.
    lecturer : the secret name of the tab that drew the lecturer's page last, "" before the first.
    questions : all that was asked, in order; the last one is what phones show, unless `show_text` came after it.
    scene : grows with every change of what phones show, which another phone's answer is not.
    log : the lecturer's acts: seconds since the room was opened, the act, and the number of the question.
    """

    def __init__(self, code: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.code, self.key, self.lecturer = code, secrets.token_urlsafe(16), ""
        self.questions: list[Ballot] = []
        self.log: list[tuple[float, str, int]] = []
        self.scene = 0
        self.has_ended = False
        self._clock, self._opened = clock, clock()
        self._seats: dict[str, int] = {}  # by the identifier of a phone
        self._text = "Look up"  # shown by phones when nothing is asked
        self._is_asking = False
        self._lock = threading.RLock()
        self._answer_buckets: dict[int, _Bucket] = {}  # by seat
        self._listeners: set[Callable[[], None]] = set()

    @property
    def phones(self) -> int:
        """Number of phones that have joined."""
        return len(self._seats)

    @property
    def is_over(self) -> bool:
        """True if the lecturer has ended the class, or its time is over."""
        return self.has_ended or self._clock() - self._opened >= LASTS

    @property
    def current(self) -> Ballot | None:
        """The question that phones show; None if they are told to look up."""
        return self.questions[-1] if self._is_asking else None

    def join(self, phone: str) -> int:
        """Return the seat of a phone, from 0; the same one when it comes again.

        Raises ValueError if its identifier is empty or too long, UserError if the room is full or over.
        """
        if not 0 < len(phone) <= MAX_ID:
            raise ValueError("a phone names itself by 1 to 64 letters")
        with self._lock:
            if self.is_over:
                raise UserError("This class is over.", title="The class is over")
            if phone not in self._seats:
                if self.phones >= MAX_PHONES:
                    raise UserError(
                        f"This class has {MAX_PHONES} phones, and takes no more.", title="The class is full"
                    )
                self._seats[phone] = self.phones  # the next seat
            return self._seats[phone]

    def seat(self, phone: str) -> int | None:
        """Return the seat of a phone, None if it has not joined."""
        return self._seats.get(phone)

    def answer(self, phone: str, number: int, answer: object) -> bool:
        """Store a phone's answer to the question with this number; return false if it had answered before.

        Raises ValueError if the phone has not joined, the question is not the open one, or has no such answer, and
        TooOften if the phone answers without end.
        """
        with self._lock:
            seat, ballot = self.seat(phone), self.current
            if seat is None:
                raise ValueError("this phone has not joined")
            self._answer_buckets.setdefault(seat, _Bucket(*ANSWERS)).take(self._clock())
            if self.is_over or ballot is None or ballot.number != number or not ballot.is_open:
                raise ValueError("this question is not open")
            value = ballot.question.parse(answer)
            if seat in ballot.answers or seat in ballot.removed:
                return False
            ballot.answers[seat] = value
            return True

    def state(self, phone: str) -> dict[str, Any]:
        """Return what the phone shows now, as JSON: `over`, or `text`, or a question with the phone's own answer.

        Raises ValueError if the phone has not joined.
        """
        with self._lock:
            seat, ballot = self.seat(phone), self.current
            if self.is_over:  # checked first, since `end` forgets seats
                return {"scene": self.scene, "over": True}
            if seat is None:
                raise ValueError("this phone has not joined")
            if ballot is None:
                return {"scene": self.scene, "text": self._text}
            question = ballot.question
            state = {
                "scene": self.scene,
                "number": ballot.number,
                "kind": question.kind,
                "title": question.title,
                "open": ballot.is_open,
                "answer": ballot.answers.get(seat, ballot.removed.get(seat)),
                **question.facts(seat),
            }
            if ballot.result is not None:
                for_this_phone = ballot.by_seat(seat) if ballot.by_seat else {}
                state["result"] = {**ballot.result, **for_this_phone}
            return state

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have `listener` called, from any thread, after every change of what phones show; return the function that
        removes it."""
        self._listeners.add(listener)
        return partial(self._listeners.discard, listener)

    # ------------------------------------------------------------------------------------------------- the lecturer's

    def show_text(self, text: str = "Look up") -> None:
        """Have phones show a short text in place of a question."""
        with self._lock:
            if self._is_asking or text != self._text:
                self._text, self._is_asking = text, False
                self._change()

    def ask(self, question: Question, anew: bool = False) -> Ballot:
        """Have phones ask a question; one that equals the last one goes on, with its answers.

        anew : true to ask it once more if the last one is closed. Raises ValueError, as `reveal` does, for numbers that
        phones cannot read: those that are not finite.
        """
        # Raises the ValueError. The first seat stands for all others; `OwnRun` checks the ends of all runs itself.
        json.dumps(question.facts(0), allow_nan=False)
        with self._lock:
            last = self.questions[-1] if self.questions else None
            if last is None or last.question != question or (anew and not last.is_open):
                self.questions.append(Ballot(len(self.questions) + 1, question))
                self._note("asked", len(self.questions))
            elif self._is_asking:  # phones show it already
                return self.questions[-1]
            self._is_asking = True
            self._change()
            return self.questions[-1]

    def close(self, ballot: Ballot) -> None:
        """Take no more answers to a question, before its result is computed from them; `reveal` follows."""
        with self._lock:
            ballot.is_open = False

    def reveal(
        self, ballot: Ballot, result: Mapping[str, Any], by_seat: Callable[[int], Mapping[str, Any]] | None = None
    ) -> None:
        """Close a question, and have phones show its result.

        result, by_seat : what the page of a phone knows of it: `text`, a sentence; `counts`, how often each option of a
            choice was taken; `right`, the index of the right one, or how many guesses of a game were right; `is_right`,
            true for a phone whose drawing was right; `median`, heights at the handles; `curve`, the points (x, y) of
            the real curve; `best`, the attacker's threshold; `estimates`, the shares of options behind coins.
        """
        json.dumps(result, allow_nan=False)  # raises ValueError, as `ask` does
        with self._lock:
            if ballot.result is None:
                self._note("revealed", ballot.number)
            ballot.is_open, ballot.result, ballot.by_seat = False, result, by_seat
            self._change()

    def remove_one(self, ballot: Ballot) -> None:
        """Take the answer of one random phone out of those that count, to compare results with and without it."""
        with self._lock:
            if ballot.answers:
                seat = secrets.choice(list(ballot.answers))
                ballot.removed[seat] = ballot.answers.pop(seat)
                self._note("removed one", ballot.number)

    def end(self) -> None:
        """End the class, and forget its phones and answers."""
        with self._lock:
            self.has_ended = True
            self.questions, self._is_asking, self._seats, self._answer_buckets = [], False, {}, {}
            self._change()

    def _note(self, act: str, number: int) -> None:
        """Add an act of the lecturer to the log. number : of the question that it is about."""
        self.log.append((self._clock() - self._opened, act, number))

    def _change(self) -> None:
        """Count a change of what phones show, and call the listeners."""
        self.scene += 1
        for listener in tuple(self._listeners):
            listener()


class Rooms:
    """All rooms of a server."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_code: dict[str, Room] = {}
        self._guesses: dict[str, _Bucket] = {}  # by the address of who guessed wrong
        self._all_guesses = _Bucket(*ALL_GUESSES)
        self._lock = threading.RLock()

    def open(self) -> Room:
        """Open a room, with a code that no other room has. Raises UserError if too many are open."""
        with self._lock:
            self.tidy()
            if len(self._by_code) >= MAX_ROOMS:
                raise UserError(f"This server has {MAX_ROOMS} classes open. End one of them.", title="Too many classes")
            code = _code()
            while code in self._by_code:
                code = _code()
            room = self._by_code[code] = Room(code, self._clock)
            return room

    def with_key(self, key: object) -> Room | None:
        """Return the room of the lecturer with this key, None if there is none or it is over."""
        with self._lock:
            self.tidy()
            rooms = (room for room in self._by_code.values() if room.key == key)
            return next(rooms, None)

    def of_lecturer(self, tab: str) -> Room | None:
        """Return the room whose lecturer's page was drawn last in the tab of this name, None if there is none."""
        with self._lock:
            self.tidy()
            rooms = (room for room in self._by_code.values() if tab and room.lecturer == tab)
            return next(rooms, None)

    def with_code(self, code: str) -> Room | None:
        """Return the room with this code, None if there is none or it is over."""
        with self._lock:
            self.tidy()
            return self._by_code.get(code.strip().upper())

    def enter(self, code: str, phone: str, client: str) -> Room | None:
        """Return the room with this code for a phone that wants to join, None if there is none or it is over.

        Raises TooOften, for a right code as well, while too many wrong ones have come from this client or in all; never
        for a phone that has joined.

        client : the address of the phone in the network.
        """
        room, now = self.with_code(code), self._clock()
        # Once a phone has joined, its request is no guess.
        if room is not None and room.seat(phone) is not None:
            return room
        with self._lock:
            client_bucket = self._guesses.get(client) or _Bucket(*GUESSES)
            # Also for a right code: to let it in would tell that it is right.
            for bucket in (client_bucket, self._all_guesses):
                if bucket.seconds_to_wait(now) > 0:
                    raise TooOften(bucket.seconds_to_wait(now))
            if room is None:
                client_bucket.take(now)
                self._all_guesses.take(now)
                if len(self._guesses) >= MAX_CLIENTS and client not in self._guesses:
                    del self._guesses[next(iter(self._guesses))]  # the address that came first
                self._guesses[client] = client_bucket
        return room

    def tidy(self) -> None:
        """Forget rooms that are over."""
        with self._lock:
            for code, room in tuple(self._by_code.items()):
                if room.is_over:
                    room.end()
                    del self._by_code[code]


def _code() -> str:
    """Return a code, drawn by the operating system."""
    return "".join(secrets.choice(LETTERS) for _ in range(CODE))


ROOMS = Rooms()  # of this server; process-wide on purpose
