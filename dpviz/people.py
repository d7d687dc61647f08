"""People who have several rows of a table: which rows are kept, so that nobody has more than a declared number."""

import hashlib

import numpy as np
from numpy.typing import ArrayLike


def rows_kept(people: ArrayLike, rows_per_person: int, seed: int = 0) -> np.ndarray:
    """Return the indices of the rows to keep, ascending, so that no person has more than k = `rows_per_person` of them.

    people : (n,) the person of each row: numbers or texts. seed : of the choice, which is public. Rows are chosen as if
        at random among those of a person, by a hash of the person and of the row's number among theirs: no other column
        counts, and no other person. If the number of rows is public, so is the number of rows that are kept.
    """
    index_of: dict[str, int] = {}  # by name
    names = map(str, np.asarray(people).tolist())
    person = np.array([index_of.setdefault(name, len(index_of)) for name in names], dtype=np.int64)  # of each row
    counts = np.bincount(person, minlength=len(index_of))  # of each person's rows
    # With the rows sorted by person, in any order within: the number of each row, from 0, among those of its person.
    first_of_person = np.cumsum(counts) - counts  # index of each person's first row in that order
    number_in_order = np.arange(len(person)) - np.repeat(first_of_person, counts)
    number = np.empty(len(person), dtype=np.uint64)  # of each row, in the order of the table
    number[np.argsort(person, kind="stable")] = number_in_order
    has_more = counts > rows_per_person  # the others need no hashes, as all of their rows are kept
    starts = [_hashed(f"{seed} {name}") if more else 0 for name, more in zip(index_of, has_more, strict=True)]
    hashes = _mixed(np.array(starts, dtype=np.uint64)[person], number)
    by_hash = np.lexsort((hashes, person))  # the rows sorted by person, each person's by their hash
    return np.sort(by_hash[number_in_order < rows_per_person])  # the first k of each person


def _hashed(text: str) -> int:
    """Return a hash of a text, 64 bits; also of one that is no valid Unicode."""
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest())


def _mixed(starts: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the number numbers[i] of the random sequence (SplitMix64) that begins at starts[i], for each i, uint64."""
    # All sums and products are modulo 2^64, as the sequence is defined.
    z = starts + (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
