"""A class in one room: a lecturer asks on a projector, phones answer, and the projector shows what the class said.

A room lives in the memory of the server and nowhere else. It knows phones by a random identifier that each chose
itself: one answer per phone and question, which is no proof of one person.
"""

import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpviz.errors import UserError

LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZ"  # without I, L and O, which a hall takes for digits
CODE = 5  # letters of a code: 6.4 million codes
MAX_PHONES = 500  # in a room
MAX_ROOMS = 50  # open at once on a server
LASTS = 3 * 3600.0  # seconds after which a room ends by itself
MAX_ID = 64  # letters of a phone's identifier


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
    def checked(self, answer: object) -> Any:
        """Return an answer that came over the network, in its own type; raise ValueError if it is none."""


@dataclass(frozen=True)
class Choice(Question):
    """A choice among options; its answer is the index of one."""

    kind: ClassVar[str] = "choice"
    title: str
    options: tuple[str, ...]

    def facts(self, seat: int) -> Mapping[str, Any]:
        return {"options": self.options}

    def checked(self, answer: object) -> int:
        return _index(answer, len(self.options))


@dataclass(frozen=True)
class Drawing(Question):
    """A curve that is drawn by moving handles; its answer is their heights, as shares of the sheet from 0 to 1.

    handles : the horizontal places of the handles, from 0 to 1. old : the curve before the change, as points (x, y) of
        the unit square. x, y : titles of the axes. x_ticks, y_ticks : their marks, by place from 0 to 1.
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

    def checked(self, answer: object) -> tuple[float, ...]:
        if not isinstance(answer, list) or len(answer) != len(self.handles):
            raise ValueError("a drawing has one height for each handle")
        return tuple(_share(height) for height in answer)


@dataclass(frozen=True)
class Threshold(Question):
    """A place on a score's axis, as a share of it from 0 to 1.

    bars : by the name of a group, the heights of its histogram, from 0 to 1, in bins of equal width along the axis.
    x : title of the axis. x_ticks : its marks, by place from 0 to 1.
    """

    kind: ClassVar[str] = "threshold"
    title: str
    bars: Mapping[str, tuple[float, ...]]
    x: str
    x_ticks: tuple[tuple[float, str], ...] = ()

    def facts(self, seat: int) -> Mapping[str, Any]:
        return {"bars": self.bars, "x": self.x, "x_ticks": self.x_ticks}

    def checked(self, answer: object) -> float:
        return _share(answer)


@dataclass(frozen=True)
class OwnRun(Question):
    """A run for each phone, with noise of its own; its answer says that the phone has opened it.

    ends : the value at which each run ends, in the unit that `label` names; the phone with seat s has run s. The class
        is told when there are fewer runs than phones: seats begin again with the first run then.
    """

    kind: ClassVar[str] = "run"
    title: str
    label: str
    ends: tuple[float, ...]

    def facts(self, seat: int) -> Mapping[str, Any]:
        return {"label": self.label, "run": seat % len(self.ends) + 1, "end": self.ends[seat % len(self.ends)]}

    def checked(self, answer: object) -> bool:
        if answer is not True:
            raise ValueError("the only answer is true")
        return True


@dataclass(frozen=True)
class Coins(Question):
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

    def checked(self, answer: object) -> int:
        return _index(answer, len(self.options))


@dataclass(frozen=True)
class Odds(Question):
    """A game: was the person in the count? Its answer is the list of a phone's guesses, in the order of the rounds.

    others : the number of people in the count without the person, which the attacker knows. counts : the noisy counts
    of each seat's rounds, (seats, rounds). present : true where the person was in, (seats, rounds).
    """

    kind: ClassVar[str] = "odds"
    title: str
    epsilon: float
    others: int
    counts: Sequence[Sequence[float]] = field(repr=False)
    present: Sequence[Sequence[bool]] = field(repr=False)

    def facts(self, seat: int) -> Mapping[str, Any]:
        return {"epsilon": self.epsilon, "others": self.others, "counts": list(self.counts[seat])}

    def checked(self, answer: object) -> tuple[bool, ...]:
        if not isinstance(answer, list) or len(answer) != len(self.counts[0]) or {type(x) for x in answer} != {bool}:
            raise ValueError("the game has one guess, true or false, for each round")
        return tuple(answer)

    def right(self, seat: int, guesses: Sequence[bool]) -> int:
        """Return how many of the guesses of the phone with this seat are right."""
        return sum(guess == truth for guess, truth in zip(guesses, self.present[seat], strict=True))


def _index(answer: object, options: int) -> int:
    """Return an answer that is the index of one of so many options; raise ValueError for any other."""
    if type(answer) is not int or not 0 <= answer < options:
        raise ValueError("the answer is no option of this question")
    return answer


def _share(answer: object) -> float:
    """Return an answer that is a number from 0 to 1; raise ValueError for any other."""
    if isinstance(answer, bool) or not isinstance(answer, int | float) or not 0 <= answer <= 1:
        raise ValueError("the answer is no number from 0 to 1")  # not a number fails both comparisons
    return float(answer)


@dataclass(eq=False)
class Asked:
    """A question that the lecturer has asked.

    number : 1 for the first of the room. answers : by seat. is_open : true while phones may answer. result : all that
    phones are told once it is revealed, None before. by_seat : returns what only the phone with that seat is told then.
    """

    number: int
    question: Question
    answers: dict[int, Any] = field(default_factory=dict)
    is_open: bool = True
    result: Mapping[str, Any] | None = None
    by_seat: Callable[[int], Mapping[str, Any]] | None = None


class Room:
    """A class. Every method may be called from any thread; the lecturer's are those below the line.

    code : the letters by which phones find it. key : the secret by which the lecturer's page finds it.
    questions : all that was asked, in order; the last one is what phones show, unless `look_up` came after it.
    version : grows with every change that phones or the projector see.
    log : the lecturer's acts: seconds since the room was opened, the act, and the number of the question.
    """

    def __init__(self, code: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.code, self.key = code, secrets.token_urlsafe(16)
        self.questions: list[Asked] = []
        self.log: list[tuple[float, str, int]] = []
        self.version = 0
        self.has_ended = False
        self._clock, self._opened = clock, clock()
        self._seats: dict[str, int] = {}  # by the identifier of a phone
        self._text = "Look up"  # shown by phones when nothing is asked
        self._is_asking = False
        self._lock = threading.RLock()
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
    def current(self) -> Asked | None:
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
                self._seats[phone] = self.phones
                self._change()
            return self._seats[phone]

    def seat(self, phone: str) -> int | None:
        """Return the seat of a phone, None if it has not joined."""
        return self._seats.get(phone)

    def answer(self, phone: str, number: int, answer: object) -> bool:
        """Store a phone's answer to the question with this number; return false if it had answered before.

        Raises ValueError if the phone has not joined, the question is not the open one, or the answer is none of its.
        """
        with self._lock:
            seat, asked = self.seat(phone), self.current
            if seat is None:
                raise ValueError("this phone has not joined")
            if self.is_over or asked is None or asked.number != number or not asked.is_open:
                raise ValueError("this question is not open")
            value = asked.question.checked(answer)
            if seat in asked.answers:
                return False
            asked.answers[seat] = value
            self._change()
            return True

    def state(self, phone: str) -> dict[str, Any]:
        """Return what the phone shows now, as JSON: `over`, or `text`, or a question with the phone's own answer.

        Raises ValueError if the phone has not joined.
        """
        with self._lock:
            seat, asked = self.seat(phone), self.current
            if seat is None:
                raise ValueError("this phone has not joined")
            if self.is_over:
                return {"version": self.version, "over": True}
            if asked is None:
                return {"version": self.version, "text": self._text}
            question = asked.question
            state = {
                "version": self.version,
                "number": asked.number,
                "kind": question.kind,
                "title": question.title,
                "open": asked.is_open,
                "answer": asked.answers.get(seat),
                **question.facts(seat),
            }
            if asked.result is not None:
                own = asked.by_seat(seat) if asked.by_seat else {}
                state["result"] = {**asked.result, **own}
            return state

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have `listener` called, from any thread, after every change; return the function that ends this."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    # ------------------------------------------------------------------------------------------------- the lecturer's

    def look_up(self, text: str = "Look up") -> None:
        """Have phones show a short text in place of a question."""
        with self._lock:
            if self._is_asking or text != self._text:
                self._text, self._is_asking = text, False
                self._change()

    def ask(self, question: Question) -> Asked:
        """Have phones ask a question; one that equals the last one goes on, with its answers."""
        with self._lock:
            if not self.questions or self.questions[-1].question != question:
                self.questions.append(Asked(len(self.questions) + 1, question))
                self._note("asked", len(self.questions))
            elif self._is_asking:
                return self.questions[-1]
            self._is_asking = True
            self._change()
            return self.questions[-1]

    def reveal(
        self, asked: Asked, result: Mapping[str, Any], by_seat: Callable[[int], Mapping[str, Any]] | None = None
    ) -> None:
        """Close a question, and have phones show its result."""
        with self._lock:
            if asked.is_open:
                self._note("revealed", asked.number)
            asked.is_open, asked.result, asked.by_seat = False, result, by_seat
            self._change()

    def remove_one(self, asked: Asked) -> None:
        """Forget the answer of one phone, drawn at random."""
        with self._lock:
            if asked.answers:
                del asked.answers[secrets.choice(list(asked.answers))]
                self._note("removed one", asked.number)
                self._change()

    def end(self) -> None:
        """End the class, and forget its phones and answers."""
        with self._lock:
            self.has_ended = True
            self.questions, self._is_asking = [], False
            self._change()

    def _note(self, act: str, number: int) -> None:
        """Add an act of the lecturer to the log. number : of the question that it is about."""
        self.log.append((self._clock() - self._opened, act, number))

    def _change(self) -> None:
        """Count a change, and call all listeners."""
        self.version += 1
        for listener in tuple(self._listeners):
            listener()


class Rooms:
    """All rooms of a server."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_code: dict[str, Room] = {}
        self._lock = threading.Lock()

    def open(self) -> Room:
        """Open a room, with a code that no other room has. Raises UserError if too many are open."""
        with self._lock:
            self._tidy()
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
            self._tidy()
            rooms = (room for room in self._by_code.values() if room.key == key)
            return next(rooms, None)

    def with_code(self, code: str) -> Room | None:
        """Return the room with this code, None if there is none or it is over."""
        with self._lock:
            self._tidy()
            return self._by_code.get(code.strip().upper())

    def _tidy(self) -> None:
        """Forget rooms that are over."""
        for code, room in tuple(self._by_code.items()):
            if room.is_over:
                room.end()
                del self._by_code[code]


def _code() -> str:
    """Return a code, drawn by the operating system."""
    return "".join(secrets.choice(LETTERS) for _ in range(CODE))


ROOMS = Rooms()  # of this server; process-wide on purpose
