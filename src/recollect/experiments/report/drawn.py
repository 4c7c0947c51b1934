"""Figures that need work of their own: what `recollect figures --format json` wrote, for the page.

All other figures of the page are drawn from the runs themselves.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from recollect.errors import DataError, InputError
from recollect.experiments.checks import (
    Check,
    between,
    list_of,
    number,
    text,
    whole,
)
from recollect.experiments.figures.fisher import ALIKE, SIDES
from recollect.experiments.figures.look import title_of
from recollect.experiments.figures.mnist360 import Shown, mosaic
from recollect.streams.mnist360 import DIGITS

__all__ = ["drawn_in"]

POINTS = 80
ALIKE_NAMES = {kind.name: name for kind, name in ALIKE.items()}


def drawn_in(folder: Path) -> dict[str, Any]:
    """The data of every figure that is in a folder, as the page wants them; each by its name."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {str(folder)!r}: correct --figures")
    found = {
        name: make(_read(folder / f"{name}.json", form))
        for name, (form, make) in FORMS.items()
        if (folder / f"{name}.json").exists()
    }
    if not found:
        raise InputError(
            f"{str(folder)!r} has no data of figures: run recollect figures {' '.join(FORMS)} "
            f"--format json --out {folder}"
        )
    return found


def _read(path: Path, form: Mapping[str, Check]) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        raise DataError(f"{path} cannot be read as JSON") from None
    if not isinstance(data, dict):
        raise DataError(f"{path} holds no figure as recollect figures writes it")
    for name, good in form.items():
        if name not in data or not good(data[name]):
            raise DataError(
                f"{path} holds no figure as recollect figures writes it: {name!r} is missing or "
                f"not as it should be"
            )
    return data


def _fisher(data: dict[str, Any]) -> dict[str, Any]:
    """The curves with fewer points and digits, and which of them are compared with each other."""
    return {
        "benchmark": data["benchmark"],
        "rate": data["rate"],
        "seeds": data["seeds"],
        "ends": data["ends"],
        "sides": {what: list(methods) for what, methods in SIDES.items()},
        "curves": [
            {
                "method": curve["method"],
                "like": ALIKE_NAMES.get(curve["method"], curve["method"]),
                "title": title_of(curve["method"]),
                "buffer": curve["buffer"],
                "accuracy": [round(curve["accuracy"], 2), round(curve["accuracy_std"], 2)],
                **{name: _thinned(curve[name]) for name in ("steps", "mean", "std")},
            }
            for curve in data["curves"]
        ],
    }


def _wall_clock(data: dict[str, Any]) -> dict[str, Any]:
    return {
        "note": data["note"],
        "panels": [
            {
                "title": panel["title"],
                "unit": panel["unit"],
                "bars": [
                    [bar["method"], title_of(bar["method"]), bar["least"], bar["most"]]
                    for bar in panel["bars"]
                ],
            }
            for panel in data["panels"]
        ],
    }


def _batches(data: dict[str, Any]) -> dict[str, Any]:
    """The images of each batch as one picture: black ink on nothing, for light and dark pages."""
    return {
        "benchmark": data["benchmark"],
        "seed": data["seed"],
        "across": DIGITS,
        "batches": [
            {"picture": _picture(batch), "labels": batch["labels"]} for batch in data["batches"]
        ],
    }


def _picture(batch: dict[str, Any]) -> str:
    from PIL import Image

    ink = mosaic(Shown(batch["images"], batch["labels"]))
    file = io.BytesIO()
    Image.fromarray(np.stack([np.zeros_like(ink), ink], axis=2)).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _thinned(values: list[float]) -> list[float]:
    """So many points at most, the last one among them, with four digits.

    >>> _thinned([0.123456, 123456.0])
    [0.1235, 123500.0]
    """
    step = math.ceil(len(values) / POINTS)
    return [float(f"{value:.4g}") for value in values[::-1][::step][::-1]]


def _form(**fields: Check) -> Check:
    """An object with these fields, each as it should be."""
    return lambda value: (
        isinstance(value, dict)
        and all(name in value and good(value[name]) for name, good in fields.items())
    )


_image = list_of(list_of(whole(0)))
_positive = between(1e-12, 1e12)
_curve_fields = _form(
    method=text, buffer=whole(1), steps=list_of(whole(1)), mean=list_of(_positive),
    std=list_of(between(0, 1e12)), accuracy=between(0, 100), accuracy_std=between(0, 100),
)  # fmt: skip
_bar = _form(method=text, least=_positive, most=_positive)


def _curve(value: Any) -> bool:
    return _curve_fields(value) and len(value["steps"]) == len(value["mean"]) == len(value["std"])


def _batch(value: Any) -> bool:
    """Nine images at most, all of one shape, with a label each."""
    if not _form(images=list_of(_image), labels=list_of(whole(0)))(value):
        return False
    images = value["images"]
    shapes = {(len(image), len(row)) for image in images for row in image}
    dark = max(pixel for image in images for row in image for pixel in row)
    return len(images) == len(value["labels"]) <= 9 and len(shapes) == 1 and dark <= 255


FORMS: dict[str, tuple[dict[str, Check], Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "fisher": (
        {"benchmark": text, "rate": number, "seeds": whole(1), "ends": list_of(whole(1)),
         "curves": list_of(_curve)},
        _fisher,
    ),
    "mnist-360": (
        {"benchmark": text, "seed": whole(0), "batches": list_of(_batch)},
        _batches,
    ),
    "wall-clock": (
        {"note": text, "panels": list_of(_form(title=text, unit=text, bars=list_of(_bar)))},
        _wall_clock,
    ),
}  # fmt: skip
