"""Errors of the C++ core arrive as the exceptions of shardwright.errors."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

import shardwright
from shardwright import _core


def one_relu() -> dict[str, Any]:
    def value(name: str, kind: str) -> dict[str, Any]:
        return {
            "name": name,
            "kind": kind,
            "shape": [],
            "dtype": "float32",
            "requires_grad": False,
        }

    return {
        "schema": "shardwright.graph",
        "version": 1,
        "name": "OneRelu",
        "torch": "2.13.0",
        "device": "cpu",
        "values": [value("x", "input"), value(":relu:0#0", "activation")],
        "ops": [
            {
                "key": ":relu:0",
                "name": "aten.relu.default",
                "operands": [0],
                "operand_args": ["self"],
                "results": [1],
                "attrs": {},
                "module": "",
                "source": "model.py:1",
                "shape_args": [],
                "random": False,
                "effect": False,
            }
        ],
        "loss": 1,
        "outputs": [1],
        "batch": {},
    }


def test_sha256_of_text() -> None:
    for text in ("", "abc", "größer", "x" * 1000):
        assert _core.sha256(text) == hashlib.sha256(text.encode()).hexdigest()


def test_version_is_that_of_the_package() -> None:
    assert _core.version() == shardwright.__version__


def test_graph_hash_ignores_the_batch() -> None:
    graph = one_relu()
    first = _core.graph_hash(json.dumps(graph))
    graph["batch"] = {"kind": "other"}
    assert _core.graph_hash(json.dumps(graph)) == first
    graph["values"][0]["shape"] = [4, 3]
    assert _core.graph_hash(json.dumps(graph)) != first


def test_graph_text_names_the_op() -> None:
    assert "relu" in _core.graph_text(json.dumps(one_relu()))


def test_text_that_is_no_json() -> None:
    with pytest.raises(shardwright.ShardwrightError, match="graph") as caught:
        _core.graph_hash("{")
    assert type(caught.value) is shardwright.ShardwrightError
    assert caught.value.code == "parse_error"


def test_graph_that_breaks_an_invariant() -> None:
    graph = one_relu()
    graph["ops"][0]["operands"] = [7]
    with pytest.raises(shardwright.InvalidGraphError, match="relu") as caught:
        _core.graph_hash(json.dumps(graph))
    assert isinstance(caught.value, ValueError)
    assert caught.value.code == "invalid_graph"


def test_graph_of_another_version() -> None:
    graph = one_relu()
    graph["version"] = 99
    with pytest.raises(shardwright.VersionMismatchError, match="99") as caught:
        _core.graph_hash(json.dumps(graph))
    assert caught.value.code == "version_mismatch"


def test_broken_invariant_of_ours() -> None:
    with pytest.raises(shardwright.InternalError, match="please report") as caught:
        _core._break_invariant("on purpose")
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.code == "internal"
    assert "on purpose" in str(caught.value)


def test_wrong_argument_type() -> None:
    with pytest.raises(TypeError):
        _core.sha256(3)  # type: ignore[arg-type]
