"""Switches on the command line: --balanced alone is on; --class-order; tables the paper lacks."""

from __future__ import annotations

import pytest

from recollect.cli.main import main

RUN = ("run", "seq-digits", "er", "--buffer", "20", "--seeds", "1", "--workers", "1")


def test_a_switch_needs_no_value(bare_machine: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--balanced"]) == 0
    assert "balanced 1" in capsys.readouterr().out


def test_both_values_are_two_rows(bare_machine: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--balanced", "0", "1"]) == 0
    rows = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    assert ["buffer", "balanced", "setting"] in rows
    assert ["20", "0", "Class-IL"] in rows
    assert ["20", "1", "Class-IL"] in rows


def test_every_seed_may_have_an_order_of_classes(
    bare_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, "--class-order", "seed"]) == 0
    assert "seq-digits-order-seed" in capsys.readouterr().out
    assert main([*RUN, "--class-order", "sometimes"]) == 2
    assert "class_order is 'sometimes'" in capsys.readouterr().err


def test_there_is_no_table_to_reproduce(
    bare_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "online-cifar100"]) == 2
    assert "the paper has no results on online-cifar100" in capsys.readouterr().err
