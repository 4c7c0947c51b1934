import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from recollect.errors import DataError
from recollect.streams.data.formats import parse_pickled

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 7), dtype=np.uint8)


def batch(code: bytes = b"u1", labels: bytes = b"K\x04K\x00K\x09", size: int = 21) -> bytes:
    """A batch as Python 2 and the numpy of its time wrote it, but for the sizes."""
    return b"".join(
        (
            b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x15training batch 1 of 5q\x03",
            b"U\x06labelsq\x04]q\x05(" + labels + b"eU\x04dataq\x06",
            b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08",
            b"K\x00\x85U\x01b\x87Rq\t(K\x01K\x03K\x07\x86",
            b"cnumpy\ndtype\nq\nU\x02" + code + b"K\x00K\x01\x87Rq\x0b",
            b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89",
            b"T" + struct.pack("<i", size) + PIXELS.tobytes()[:size],
            b"tbU\tfilenamesq\x0c]q\r(U\x05a.pngq\x0eU\x05b.pngq\x0feu.",
        )
    )


def test_a_batch_is_read_as_numpy_would_read_it() -> None:
    x, y = parse_pickled(batch(), "data_batch_1")
    assert np.array_equal(x, PIXELS)
    assert y.tolist() == [4, 0, 9]
    original = pickle.loads(batch(), encoding="bytes")
    assert np.array_equal(x, original[b"data"])
    assert y.tolist() == original[b"labels"]


class Evil:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_nothing_that_a_pickle_names_is_run(tmp_path: Path, protocol: int) -> None:
    data = pickle.dumps({"data": Evil(tmp_path / "harm"), "labels": []}, protocol)
    with pytest.raises(DataError, match=r"it names \w+.system, which is not allowed"):
        parse_pickled(data, "data_batch_1")
    assert not (tmp_path / "harm").exists()
    pickle.loads(data)
    assert (tmp_path / "harm").exists(), "it would have been run"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"text",
        batch()[:200],
        batch(code=b"f4"),
        batch(labels=b"K\x01"),
        batch(size=20),
        pickle.dumps([1, 2], 2),
        pickle.dumps({b"labels": [1], b"data": 5}, 4),
        b"cnumpy\ndtype\n(K\x01K\x02tb.",
        b"cnumpy\nndarray\n)Rcos\nsystem\nb.",
    ],
)
def test_what_is_no_batch_is_refused(data: bytes) -> None:
    with pytest.raises(DataError, match="data_batch_1 is not a pickled batch of CIFAR"):
        parse_pickled(data, "data_batch_1")
