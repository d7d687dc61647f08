"""People who have several rows of a table: which rows are kept, so that nobody has more than a declared number."""

import hashlib

import numpy as np
from numpy.typing import ArrayLike


def rows_kept(people: ArrayLike, rows_per_person: int, seed: int = 0) -> np.ndarray:
    """Return the indices of the rows to keep, ascending, so that no person has more than k = `rows_per_person` of them.

    people : (n,) the person of each row: numbers or texts. seed : of the choice, which is public. It is as if at random
        among the rows of a person, by a hash of the person and of the row's number among theirs: it looks at no other
        column, and not at other people. Where the number of rows is public, that of those that remain is, too.
    """
    position: dict[str, int] = {}  # of each person among all
    names = map(str, np.asarray(people).tolist())
    person = np.array([position.setdefault(name, len(position)) for name in names], dtype=np.int64)
    counts = np.bincount(person, minlength=len(position))
    order = np.argsort(person, kind="stable")  # the rows, person by person
    place = np.arange(len(person)) - np.repeat(np.cumsum(counts) - counts, counts)  # of each of them among theirs
    number = np.empty(len(person), dtype=np.uint64)
    number[order] = place
    has_more = counts > rows_per_person
    starts = [_hashed(f"{seed} {name}") if more else 0 for name, more in zip(position, has_more, strict=True)]
    by_key = np.lexsort((_mixed(np.array(starts, dtype=np.uint64)[person], number), person))
    return np.sort(by_key[place < rows_per_person])


def _hashed(text: str) -> int:
    """Return a hash of a text, 64 bits; any text has one."""
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest())


def _mixed(starts: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the number numbers[i] of the random sequence (SplitMix64) that begins at starts[i], for each i, uint64."""
    z = starts + (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
