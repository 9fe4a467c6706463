"""The program generator without processes: text, shapes, refusals."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from shardwright.capture import capture
from shardwright.errors import InvalidPlanError
from shardwright.execute import generate, source
from shardwright.execute.specs import Spec, apply_step, local_shape, parse, placements
from tests.support.hand_plan import HandPlan


def test_specs_read_and_print():
    for text in ["[]", "[-]", "[a:b, -]", "[a, -, b] partial{c, d}", "[] partial{a}"]:
        assert str(parse(text)) == text
    assert parse("[a:b, -] partial{c}") == Spec((("a", "b"), ()), frozenset("c"))
    with pytest.raises(InvalidPlanError, match="malformed"):
        parse("a, b")


def test_local_shapes_follow_chunk_axis_by_axis():
    sizes = {"a": 2, "b": 2}
    spec = parse("[a:b]")
    parts = [
        local_shape([6], spec, sizes, {"a": a, "b": b}) for a in (0, 1) for b in (0, 1)
    ]
    assert parts == [[2], [1], [2], [1]]
    assert local_shape([1], spec, sizes, {"a": 1, "b": 0}) == [0]


def test_steps_apply_only_where_they_fit():
    gather = {"kind": "all_gather", "axis": "b", "dim": 0}
    assert str(apply_step(parse("[a:b, -]"), gather)) == "[a, -]"
    move = {"kind": "all_to_all", "axis": "b", "dim": 0, "to_dim": 1}
    assert str(apply_step(parse("[a:b, -]"), move)) == "[a, b]"
    for spec, step in [
        ("[b:a, -]", gather),  # a is the innermost
        ("[-, -]", {"kind": "all_reduce", "axis": "a"}),
        ("[a, -]", {"kind": "slice", "axis": "a", "dim": 1}),
        ("[-, -] partial{a}", {"kind": "make_partial", "axis": "a"}),
        ("[-, -]", {"kind": "send", "axis": "a"}),
    ]:
        with pytest.raises(InvalidPlanError, match="does not apply"):
            apply_step(parse(spec), step)


def test_placements_are_plain_or_refused():
    text = [str(p) for p in placements(parse("[a:b] partial{c}"), ("a", "b", "c"))]
    assert text == ["S(0)", "S(0)", "P(sum)"]
    with pytest.raises(InvalidPlanError, match="no DTensor placements"):
        placements(parse("[b:a]"), ("a", "b"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 6)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        y = self.drop(self.up(x)).view(-1, 3)
        return y.square().sum()


@pytest.fixture(scope="module")
def planned():
    captured = capture(Block(), (torch.ones(5, 4),))
    hand = HandPlan(captured, {"a": 2})
    hand.storage["up.weight"] = "S1"
    hand.op("up:linear:0", ["S0", "D", "D"], ["S0"])
    hand.op("drop:dropout:0", ["S0"], ["S0"], "random", {"axes": ["a"]})
    hand.regions = [("up:linear:0", "drop:dropout:0")]
    return captured, hand.build()


def _imported(text):
    space = {}
    exec(compile(text, "generated", "exec"), space)
    return space["LocalProgram"]()


def test_the_text_reads_well_and_is_the_program(planned):
    captured, plan = planned
    program = generate(captured, plan, {"a": 1})
    text = source(program)
    assert "class Region0(torch.nn.Module):" in text
    assert "from shardwright.runtime.convert import convert" in text
    region = text.split("class LocalProgram")[0]
    for line in [
        "x_as_S0 = convert(x, (('slice', 'a', 0),))",
        "up_weight_as_D = convert(up_weight, (('all_gather', 'a', 1, 4),), "
        "backward = (('reduce_scatter', 'a', 1),))",
        "up_bias_as_D = convert(up_bias, (), backward = (('all_reduce', 'a'),))",
        "random(torch.ops.aten.dropout.default, 'drop:dropout:0', step, ",
        "axes = ('a',))",
    ]:
        assert line in region, (line, text)
    assert "recompute(region_0, (), step, " in text
    assert "[-, -] -> [a, -]" in region  # notes
    module = _imported(text)
    assert list(dict(module.named_children())) == ["region_0"]
    assert program.values == ("up.weight", "up.bias", "x")


def test_program_of_one_rank_equals_the_model():
    model = Block().eval()
    x = torch.randn(5, 4)
    captured = capture(model, (x,))
    plan = HandPlan(captured, {"a": 1}).build()
    program = generate(captured, plan, {"a": 0})
    loss, same = _imported(source(program))(0, model.up.weight, model.up.bias, x)
    assert torch.equal(loss, model(x))
    assert same is loss


def test_shape_arguments_become_local():
    captured = capture(Block(), (torch.ones(6, 4),))
    hand = HandPlan(captured, {"a": 2})
    for key, rest in [("up:linear:0", ["D", "D"]), ("drop:dropout:0", [])]:
        hand.op(key, ["S0", *rest], ["S0"], *(
            ("random", {"axes": ["a"]}) if "drop" in key else ()
        ))  # fmt: skip
    hand.op(":view:0", ["S0"], ["S0"])
    text = source(generate(captured, hand.build(), {"a": 0}))
    assert "torch.ops.aten.reshape.default(drop_dropout_0, [6, 3])" in text


def _broken(plan, change):
    plan = copy.deepcopy(plan)
    change(plan)
    return plan


def _convert_of(plan, value):
    return next(s for s in plan["steps"] if s.get("value") == value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.update(version=9), "not a plan this version can run"),
        (lambda p: p["steps"].pop(0), "read before it exists"),
        (lambda p: _convert_of(p, "x").update(forward=[]), "do not connect"),
        (
            lambda p: _convert_of(p, "up.bias").update(backward=[]),
            "do not connect",
        ),
        (lambda p: p["steps"][3].update(op="no:such:0"), "unknown op"),
        (lambda p: p["steps"][3].update(kind="jump"), "unknown step kind"),
        (
            lambda p: p["steps"][3].update(in_specs=["[-, -]"] * 3),
            "do not connect",
        ),
        (lambda p: p["steps"][-1].update(region=0), "not contiguous"),
        (lambda p: p["outputs"][0].update(spec="[] partial{a}"), "do not connect"),
    ],
)
def test_damaged_plans_are_refused(planned, change, message):
    captured, plan = planned
    with pytest.raises(InvalidPlanError, match=message):
        generate(captured, _broken(plan, change), {"a": 0})
