"""Rows of Parquet files, a few at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from recollect.errors import DataError, InputError
from recollect.extras import needs
from recollect.feeds.record import OTHER_FILE, Faults, Layout, Malformed, Position, Record, parts
from recollect.feeds.rows import chosen_columns, numbers, plain_label

__all__ = ["Parquet"]

ROWS = 1024


@final
@dataclass
class Parquet:
    """Reads the rows of a Parquet file: one column is the label, numeric ones are the features.

    A column is named, or given by its number from 1 on; the label is the last one unless it is
    given. One column that holds lists of numbers may be named as the `features`. A record without
    a label has null there. It needs pyarrow: `pip install "recollect[parquet]"`.
    """

    label: str | None = None
    features: Sequence[str] = ()
    ignore: Sequence[str] = ()
    faults: Faults = field(default_factory=Faults)
    layout: Layout | None = None

    def read(self, source: str, position: Position | None = None) -> Iterator[Record]:
        """The records after a position, which is how many rows come before."""
        (start,) = parts(source, position, int)
        pyarrow = _pyarrow()
        try:
            with pyarrow.parquet.ParquetFile(source) as file:
                yield from self._rows(source, file, start)
        except (OSError, pyarrow.ArrowException) as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"cannot read {source} as Parquet: {reason}") from None

    def _rows(self, source: str, file: Any, start: int) -> Iterator[Record]:
        label, features = self._settle(source, file.schema_arrow)
        if file.metadata.num_rows < start:
            raise DataError(f"{source} has fewer rows than were read of it before: {OTHER_FILE}")
        row = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if row + rows <= start:
                row += rows
                continue
            for batch in file.iter_batches(ROWS, [group], [*features, label]):
                skipped = min(max(start - row, 0), len(batch))
                row += skipped
                for x, kind in self._parsed(batch.slice(skipped), features):
                    row += 1
                    try:
                        yield Record(self._checked(x), plain_label(kind), source, (row,))
                    except Malformed as why:
                        self.faults.meet(f"{source}, row {row}", why)

    def _settle(self, source: str, schema: Any) -> tuple[str, list[str]]:
        """The names of the label and the features; all files must have them."""
        names: list[str] = schema.names
        if self.layout is None:
            wanted = self.features or [n for n in names if _is_number(schema.field(n).type)]
            label, chosen = chosen_columns(names, self.label, wanted, self.ignore)
            self.layout = {"label": names[label], "features": [names[n] for n in chosen]}
        missing = {self.layout["label"], *self.layout["features"]} - {*names}
        if missing:
            raise DataError(f"{source} has no column {min(missing)!r} (it has: {', '.join(names)})")
        return self.layout["label"], list(self.layout["features"])

    def _parsed(self, batch: Any, features: list[str]) -> Iterator[tuple[Any, Any]]:
        labels = batch.column(len(features)).to_pylist()
        columns = [batch.column(number) for number in range(len(features))]
        if all(_is_number(each.type) for each in columns):
            table = [each.cast("double").to_numpy(zero_copy_only=False) for each in columns]
            yield from zip(np.stack(table, 1), labels, strict=True)
        elif len(columns) == 1:
            yield from zip(columns[0].to_pylist(), labels, strict=True)
        else:
            raise InputError(
                "the features are several columns of numbers, or one column of lists of numbers"
            )

    def _checked(self, values: Any) -> NDArray[np.float32]:
        assert self.layout is not None
        x = numbers(values, self.layout.get("shape"))
        if x.ndim == 0:
            raise Malformed("its features are not a list of numbers")
        if "shape" not in self.layout:
            self.layout = {**self.layout, "shape": [*x.shape]}
        return x


def _pyarrow() -> Any:
    with needs("pyarrow", extra="parquet", what="reading Parquet files"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow


def _is_number(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))
