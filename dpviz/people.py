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
    rows_of: dict[str, list[int]] = {}
    for row, person in enumerate(map(str, np.asarray(people).tolist())):
        rows_of.setdefault(person, []).append(row)
    kept: list[int] = []
    for person, rows in rows_of.items():
        if len(rows) > rows_per_person:
            texts = (f"{seed} {number} {person}" for number in range(len(rows)))
            hashes = (hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest() for text in texts)
            rows = [row for _, row in sorted(zip(hashes, rows, strict=True))[:rows_per_person]]
        kept += rows
    return np.array(sorted(kept), dtype=int)
