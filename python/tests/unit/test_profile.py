"""Records against numbers worked out by hand."""

from math import prod

import pytest
import torch
import torch.nn.functional as F
from replay import evaluate
from torch import nn

from shardwright.capture import capture
from shardwright.errors import InvalidGraphError
from shardwright.profile import make_records
from shardwright.profile.expressions import NotProportional, Scaling
from shardwright.profile.layout import Layout, memory_order, scaled_strides

NO_RULE = {"rule": None, "factors": []}


def factor_map(factors, operands, results, **extra):
    """`factors`: name -> size; a dim is a name, or a number for a fixed size."""
    order = list(factors)

    def dims(tensors):
        return [
            [
                {"factor": order.index(dim), "times": 1}
                if isinstance(dim, str)
                else {"factor": -1, "times": dim}
                for dim in tensor
            ]
            for tensor in tensors
        ]

    return {
        "rule": "test",
        "factors": [{"name": name, "size": size} for name, size in factors.items()],
        "operands": dims(operands),
        "results": dims(results),
        "attr_factors": {},
        "variants": [],
    } | extra


class Step(nn.Module):
    """Runs `function` on a matrix made of the input and a weight."""

    def __init__(self, function, *shapes):
        super().__init__()
        self.function = function
        self.weights = nn.ParameterList(torch.randn(shape) for shape in shapes)

    def forward(self, x):
        return self.function(x, *self.weights).sum()


def record_of(step, x, name, the_map, variants=None):
    """The record of the first op called `name`; other ops have no rule."""
    captured = capture(step, x)
    ops = captured.graph["ops"]
    index = [op["name"].split(".")[1] for op in ops].index(name)
    maps = [NO_RULE] * len(ops)
    maps[index] = the_map
    make_records(captured, maps, variants)
    return captured.graph["records"][ops[index]["record"]]


def records(model, *batch):
    """The captured graph with records; no op has a rule."""
    captured = capture(model, batch)
    make_records(captured, [NO_RULE] * len(captured.graph["ops"]))
    return captured.graph


def flops(record, phase="kernels_forward"):
    return [k["flops"] for k in record[phase] if k["flops"]["c"]]


def test_linear():
    sizes = {"b": 8, "t": 4, "i": 16, "o": 32}
    record = record_of(
        Step(lambda x, w, v: F.linear(x * w, v), (16,), (32, 16)),
        torch.randn(8, 4, 16),
        "linear",
        factor_map(sizes, [["b", "t", "i"], ["o", "i"]], [["b", "t", "o"]]),
    )
    assert record["scalable"]
    assert record["sizes"] == [
        {"c": 4, "f": [0, 1, 3]}, {"c": 4, "f": [2, 3]}, {"c": 4, "f": [0, 1, 2]},
    ]  # fmt: skip
    assert record["results"] == ["n0"]
    assert sorted(record["saved"]) == ["i0", "i1"]
    assert record["gradients"] == ["n2", "n1"]
    assert flops(record) == [{"c": 2, "f": [0, 1, 2, 3]}]
    assert flops(record, "kernels_backward") == [{"c": 2, "f": [0, 1, 2, 3]}] * 2
    (kernel,) = record["kernels_forward"]
    assert kernel["class"] == "gemm"
    assert kernel["read"] == [{"c": 4, "f": [0, 1, 2]}, {"c": 4, "f": [2, 3]}]
    assert kernel["write"] == {"c": 4, "f": [0, 1, 3]}


def test_addmm_keeps_a_broadcast_bias():
    sizes = {"m": 8, "k": 16, "n": 32}
    record = record_of(
        Step(lambda x, b, w: torch.addmm(b, x, w), (32,), (16, 32)),
        torch.randn(8, 16),
        "addmm",
        factor_map(sizes, [["n"], ["m", "k"], ["k", "n"]], [["m", "n"]]),
    )
    assert record["scalable"]
    assert flops(record) == [{"c": 2, "f": [0, 1, 2]}]
    assert record["gradients"][1] is None  # the input has no gradient


def test_embedding_has_a_dense_gradient_and_reads_only_its_rows():
    sizes = {"b": 2, "t": 6, "v": 50, "d": 8}
    record = record_of(
        Step(F.embedding, (50, 8)),
        torch.randint(0, 50, (2, 6)),
        "embedding",
        factor_map(sizes, [["v", "d"], ["b", "t"]], [["b", "t", "d"]]),
    )
    assert record["scalable"]
    assert record["sizes"][1] == {"c": 4, "f": [2, 3]}
    assert record["saved"] == ["i1"]
    (kernel,) = record["kernels_forward"]
    assert kernel["read"] == [{"c": 4, "f": [0, 1, 3]}, {"c": 8, "f": [0, 1]}]


def test_layer_norm_statistics_do_not_scale_with_the_width():
    sizes = {"b": 4, "t": 6}
    record = record_of(
        Step(lambda x, s, w, b: F.layer_norm(x * s, (8,), w, b), (8,), (8,), (8,)),
        torch.randn(4, 6, 8),
        "layer_norm",
        factor_map(sizes, [["b", "t", 8], [8], [8]], [["b", "t", 8]]),
    )
    assert record["scalable"]
    assert record["sizes"][:3] == [
        {"c": 32, "f": [0, 1]}, {"c": 4, "f": [0, 1]}, {"c": 4, "f": [0, 1]},
    ]  # fmt: skip
    assert sorted(record["saved"]) == ["i0", "i1", "i2", "n1", "n2"]


def test_views_own_nothing_and_hand_their_gradient_on():
    step = Step(lambda x, w: (x * w).view(4, 6, 2, 4).transpose(1, 2) + 1.0, (8,))
    x = torch.randn(4, 6, 8)
    view = factor_map({"b": 4}, [["b", 6, 8]], [["b", 6, 2, 4]])
    record = record_of(step, x, "view", view)
    assert (record["sizes"], record["results"]) == ([], ["i0"])
    # The gradient comes transposed: it fits no view and is copied.
    assert record["gradients"] == ["g0"] or record["backward"]
    swap = factor_map({"b": 4, "t": 6}, [["b", "t", 2, 4]], [["b", 2, "t", 4]])
    record = record_of(step, x, "transpose", swap)
    assert record["scalable"]
    assert (record["results"], record["gradients"]) == (["i0"], ["g0"])
    assert record["kernels_forward"] == record["kernels_backward"] == []
    assert record["gradients_in_place"] == [False]  # a view of the incoming one


def test_add_hands_its_gradient_to_both():
    record = record_of(
        Step(lambda x, w, v: (x * w) + (x * v), (8,), (8,)),
        torch.randn(4, 8),
        "add",
        factor_map({"b": 4, "d": 8}, [["b", "d"]] * 2, [["b", "d"]]),
    )
    assert record["gradients"] == ["g0", "g0"]
    assert record["backward"] == []


def test_cross_entropy():
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(10))

        def forward(self, x, y):
            return F.cross_entropy(x * self.weight, y)

    captured = capture(Loss(), (torch.randn(6, 10), torch.randint(0, 10, (6,))))
    the_map = factor_map({"r": 6, "v": 10}, [["r", "v"], ["r"]], [[]])
    make_records(captured, [NO_RULE, the_map])
    record = captured.graph["records"][captured.graph["ops"][1]["record"]]
    assert record["scalable"]
    bytes_saved = sorted(
        evaluate(record["sizes"][int(handle[1:])], [6, 10])
        for handle in record["saved"]
        if handle.startswith("n")
    )
    assert bytes_saved == [4, 6 * 10 * 4, 6 * 10 * 4]  # weight, log-softmax twice


def test_attention_on_the_cpu_has_flops():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8))

        def forward(self, q, k, v):
            w = self.weight
            return F.scaled_dot_product_attention(q * w, k * w, v * w).sum()

    batch = tuple(torch.randn(2, 3, n, 8) for n in (5, 7, 7))
    captured = capture(Attention(), batch)
    maps = [NO_RULE] * len(captured.graph["ops"])
    maps[3] = factor_map(
        {"b": 2, "h": 3},
        [["b", "h", 5, 8], ["b", "h", 7, 8], ["b", "h", 7, 8]],
        [["b", "h", 5, 8]],
    )
    make_records(captured, maps, threads=1)
    record = captured.graph["records"][captured.graph["ops"][3]["record"]]
    assert record["scalable"]
    assert flops(record) == [{"c": 4 * 5 * 7 * 8, "f": [0, 1]}]
    assert flops(record, "kernels_backward") == [{"c": 10 * 5 * 7 * 8, "f": [0, 1]}]
    assert any(event[0] == "transient" for event in record["forward"])


@pytest.mark.parametrize("groups", [1, 4])
def test_convolution_flops(groups):
    step = Step(
        lambda x, s, w: F.conv2d(x * s, w, groups=groups), (9,), (12, 8 // groups, 3, 3)
    )
    record = record_of(step, torch.randn(2, 8, 9, 9), "conv2d", NO_RULE)
    one = 2 * prod((2, 12, 7, 7)) * 8 // groups * 9
    assert [f["c"] for f in flops(record)] == [one]
    assert [f["c"] for f in flops(record, "kernels_backward")] == [2 * one]


def test_attributes_follow_their_factor():
    the_map = factor_map({"b": 4, "d": 6}, [["b", "d"]], [["b", "d"], ["b", "d"]])
    the_map["operands"][0][1] = {"factor": 1, "times": 2}
    the_map["attr_factors"] = {"split_size": {"factor": 1, "times": 1}}
    record = record_of(
        Step(lambda x, w: torch.cat((x * w).split(6, 1)), (12,)),
        torch.randn(4, 12),
        "split",
        the_map,
    )
    assert record["scalable"], record


def test_variants_have_records_of_their_own():
    seen = []

    def variant(op, args, kwargs):
        seen.append((str(op), len(args), kwargs))
        return op(*args, **kwargs).clone()

    the_map = factor_map({"b": 4}, [["b", 8]], [["b", 8]], variants=["special"])
    step, x = Step(lambda x, w: (x * w).relu(), (8,)), torch.randn(4, 8)
    record = record_of(step, x, "relu", the_map, {"special": variant})
    assert seen[0] == ("aten.relu.default", 1, {})
    assert len(record["variants"]["special"]["sizes"]) == len(record["sizes"]) + 1

    def refuses(op, args, kwargs):
        raise ValueError("not for floats")

    record = record_of(step, x, "relu", the_map, {"special": refuses})
    assert record["variants"] == {}
    assert record["refused_variants"] == {"special": "not for floats"}
    with pytest.raises(InvalidGraphError, match="no function for variant 'special'"):
        record_of(step, x, "relu", the_map)


def test_numbers_that_do_not_scale_stay_whole():
    # A rule that is wrong about a flattened dim: the record says so.
    wrong = factor_map({"b": 4}, [["b", 8]], [[32]])
    step = Step(lambda x, w: (x * w).flatten(), (8,))
    record = record_of(step, torch.randn(4, 8), "flatten", wrong)
    assert record["scalable"] is False
    assert "the rule says" in record["reason"]


def test_maps_that_do_not_fit_are_refused():
    step, x = Step(lambda x, w: (x * w).relu(), (8,)), torch.randn(4, 8)
    wrong = factor_map({"b": 5}, [["b", 8]], [["b", 8]])
    with pytest.raises(InvalidGraphError, match=r"expected \[\[4, 8\]\], got \[\[5, 8"):
        record_of(step, x, "relu", wrong)
    with pytest.raises(InvalidGraphError, match="expected 3, got 0"):
        make_records(capture(step, x), [])


def test_equal_ops_share_a_record_and_progress_is_told():
    import models

    captured = capture(*models.gpt2(layers=2))
    told = []
    ops = captured.graph["ops"]
    make_records(
        captured,
        [NO_RULE] * len(ops),
        progress=lambda done, total: told.append((done, total)),
    )
    assert told[-1] == (len(ops), len(ops))
    by_key = {op["key"]: op["record"] for op in ops}
    first, second = (by_key[f"transformer.h.{i}.ln_2:layer_norm:0"] for i in (0, 1))
    assert first == second
    assert len(captured.graph["records"]) < len(ops)


def test_expressions():
    scaling = Scaling.of((6, 1, 10))
    assert scaling.primes == (5, 1, 7)
    assert scaling.expression((240,), (240 * 35,)) == {"c": 4, "f": [0, 2]}
    assert scaling.expression((36,), (36 * 25,)) == {"c": 1, "f": [0, 0]}
    assert scaling.expression((3, 6), (3, 30)) == [
        {"c": 3, "f": []},
        {"c": 1, "f": [0]},
    ]
    assert scaling.expression((6, 12), (30, 60)) == {"c": 3, "f": [0]}
    for before, after in ((10, 42), (0, 7), (6, 18)):
        with pytest.raises(NotProportional):
            scaling.expression((before,), (after,))


def test_layouts_of_results_and_gradients():
    """Heads lie [batch, length, heads, size]; a mean gives a contiguous gradient."""

    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(8, 12)

        def forward(self, x):
            heads = self.up(x).view(2, 5, 3, 4).transpose(1, 2)
            return heads.square().mean() + heads[:, :, 1:].sum()

    graph = records(Heads(), torch.randn(2, 5, 8))
    layouts = {
        op["key"].split(":")[1]: graph["records"][op["record"]]["layouts"]
        for op in graph["ops"]
    }
    turned = {"order": [0, 2, 1, 3], "dense": True}
    assert layouts["linear"] == {"results": [None], "gradients": [None]}
    assert layouts["square"] == {"results": [turned], "gradients": [None]}
    assert layouts["slice"]["results"] == [turned | {"dense": False}]
    assert layouts["slice"]["gradients"] == [{"order": [0, 1, 2, 3], "dense": False}]


def test_memory_order():
    x = torch.zeros(2, 3, 4)
    for tensor, order in [
        (x, [0, 1, 2]), (x.transpose(0, 1), [1, 0, 2]), (x.permute(2, 0, 1), [1, 2, 0]),
        (x[:, 1:], [0, 1, 2]), (x[:, 1:].transpose(1, 2), [0, 2, 1]),
        (x[:1].expand(5, 3, 4), [0, 1, 2]),  # shared: as named
        (torch.zeros(2, 1, 4).transpose(1, 2), [0, 1, 2]),  # both ways: as named
    ]:  # fmt: skip
        assert memory_order(Layout.of(tensor)) == order, order
    assert memory_order(Layout.of(x[:, :1]), [1, 0, 2]) == [0, 1, 2]
    assert memory_order(Layout.of(torch.zeros(2, 1, 4)), [1, 0, 2]) == [1, 0, 2]


def test_index_backward_adds_into_one_tensor_of_zeros():
    """Fake tensors would make a second one."""

    class Picks(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(8, 8)

        def forward(self, x):
            y = self.up(x)
            rows = torch.tensor([0, 2, 2])
            return (
                y[:, rows].sum()
                + y.index_select(1, rows).sum()
                + y.gather(1, rows.view(1, 3, 1).expand(2, 3, 8)).sum()
                + y.max(1)[0].sum()
            )

    graph = records(Picks(), torch.randn(2, 5, 8))
    for name in ["index", "index_select", "gather", "max"]:
        op = next(op for op in graph["ops"] if op["key"].split(":")[1] == name)
        record = graph["records"][op["record"]]
        made = [event for event in record["backward"] if event[0] == "alloc"]
        sizes = [evaluate(record["sizes"][number], []) for _, number in made]
        assert sizes.count(2 * 5 * 8 * 4) == 1, (name, sizes)


def test_strides_keep_order_and_gaps():
    # The query of a fused projection [B=2, T=3, 3, H=4, D=5], as [B, H, T, D].
    assert scaled_strides((2, 4, 3, 5), (180, 5, 60, 1), (2, 8, 3, 5)) == (
        360, 5, 120, 1,
    )  # fmt: skip
    assert scaled_strides((4, 3), (1, 4), (8, 3)) == (1, 8)  # transposed
    assert scaled_strides((4, 3), (0, 1), (8, 6)) == (0, 1)  # broadcast


def test_a_shard_of_one_sample_or_head_is_a_view_where_larger_ones_are_copies():
    """Heads before the sequence: two dims of the product lie apart in memory."""
    record = record_of(
        Step(lambda x, w, v: (x * w).transpose(1, 2) @ v, (8,), (8, 8)),
        torch.randn(3, 4, 2, 8),
        "matmul",
        factor_map(
            {"b": 3, "h": 2, "t": 4},
            [["b", "h", "t", 8], [8, 8]],
            [["b", "h", "t", 8]],
        ),
    )
    copied = [saved for saved in record["saved"] if saved.startswith("n")]
    small = {tuple(e["factors"]): e["record"] for e in record["at_one"]}
    assert copied
    assert (1,) in small
    for factors, other in small.items():
        assert sorted(other["saved"]) == ["i0", "i1"], factors
        used = {f for size in other["sizes"] for f in size["f"]}
        assert not used & set(factors)
    # What copies nothing has one record for all shards.
    plain = record_of(
        Step(lambda x, w: (x * w).relu(), (8,)),
        torch.randn(4, 8),
        "relu",
        factor_map({"b": 4}, [["b", 8]], [["b", 8]]),
    )
    assert plain["at_one"] == []
