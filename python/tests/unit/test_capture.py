"""What a captured graph looks like, and what is refused by name."""

import dataclasses
import json
import random

import models
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from shardwright.capture import capture, rebuild_batch, step_loss
from shardwright.errors import CaptureError


class Lambda(nn.Module):
    """A model with one weight whose forward is a function of (self, x)."""

    def __init__(self, function, width=4):
        super().__init__()
        self.function = function
        self.linear = nn.Linear(width, width)
        self.register_buffer("seen", torch.zeros(width))

    def forward(self, x):
        return self.function(self, self.linear(x))


def graph_of(function, width=4):
    return capture(Lambda(function, width), torch.randn(4, width)).graph


def names(graph):
    return [op["name"].split(".")[1] for op in graph["ops"]]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return 7 * g


bound_before = Doubled.apply

REFUSED = {
    "number read from values": (
        lambda m, y: (y * m.linear.weight.sum().item()).sum(),
        r"item.* cannot run without values",
    ),
    "hook on an activation": (
        lambda m, y: (y.register_hook(lambda g: 2 * g), y.sum())[1],
        r"puts the hook .* on a tensor",
    ),
    "autograd function": (lambda m, y: bound_before(y).sum(), r"Doubled.*custom_op"),
    "reentrant checkpoint": (
        lambda m, y: checkpoint(m.linear, y, use_reentrant=True).sum(),
        "use_reentrant=False",
    ),
    "value dependent branch": (
        lambda m, y: y.sum() if y.mean() > 0 else y.prod(),
        r"depends on tensor values \(test_capture.py:\d+",
    ),
    "value dependent shape": (
        lambda m, y: y[y > 0].sum(),
        r"(test_capture.py:\d+).*depend on tensor values",
    ),
    "python random": (lambda m, y: (y * random.random()).sum(), "draws from random"),
    "parameter's data changed": (
        lambda m, y: (m.linear.weight.data.mul_(2), y.sum())[1],
        r"slips past the trace.*detach",
    ),
    "parameter changed": (
        lambda m, y: (_doubled_weight(m), y.sum())[1],
        r"parameter 'linear\.weight' in place",
    ),
    "part of a buffer changed": (
        lambda m, y: (m.seen[:2].add_(1), y.sum())[1],
        "part of the buffer 'seen'",
    ),
    "no loss": (lambda m, y: y, r"no loss found.*labels"),
    "no gradient": (lambda m, y: y.detach().sum(), "does not depend on any parameter"),
    "unknown output": (lambda m, y: {"loss": y.sum(), "x": object()}, "object"),
    "split changed in place": (
        lambda m, y: _changed_part(y).sum(),
        "in-place op",
    ),
}


def _doubled_weight(m):
    with torch.no_grad():
        m.linear.weight.mul_(2)


def _changed_part(y):
    left, _ = y.detach().split(2, -1)
    left.mul_(2.0)
    return y + left.sum()


@pytest.mark.parametrize("what", REFUSED)
def test_refused_by_name(what):
    function, message = REFUSED[what]
    with pytest.raises(CaptureError, match=message):
        graph_of(function)


def test_numpy_random_is_refused_and_the_state_kept():
    numpy = pytest.importorskip("numpy")
    numpy.random.seed(3)
    expected = numpy.random.rand()
    numpy.random.seed(3)
    with pytest.raises(CaptureError, match=r"numpy\.random"):
        graph_of(lambda m, y: (y * numpy.random.rand()).sum())
    assert numpy.random.rand() == expected


@pytest.mark.parametrize("what", ["value dependent branch", "number read from values"])
def test_a_failed_capture_prints_nothing(what, capfd):
    with pytest.raises(CaptureError):
        graph_of(REFUSED[what][0])
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (lambda m: m.weight.register_hook(print), "'0.weight' has the gradient hook"),
        (
            lambda m: m.weight.register_post_accumulate_grad_hook(print),
            "'0.weight' has the gradient hook print",
        ),
        (lambda m: m.register_full_backward_hook(print), "module has a backward hook"),
    ],
)
def test_hooks_on_gradients_are_refused(register, message):
    model = nn.Sequential(nn.Linear(4, 4))
    register(model[0])
    with pytest.raises(CaptureError, match=message):
        capture(model, torch.randn(3, 4), loss=lambda y: y.sum())


def test_masks_of_transformer_are_not_examined():
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True)
            self.layers = nn.TransformerDecoder(layer, 1)

        def forward(self, x):
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
            return self.layers(x, x, tgt_mask=mask)

    model, x = Decoder(), torch.randn(2, 5, 8)
    captured = capture(model, x, loss=lambda y: y.square().mean())
    _, output = captured.module(x)
    torch.testing.assert_close(output, model(x))


def test_keys_names_and_sources():
    graph = capture(*models.mlp()).graph
    assert [op["key"] for op in graph["ops"]] == [
        "inner:linear:0", ":relu:0", "outer:linear:0", ":mse_loss:0",
    ]  # fmt: skip
    linear = graph["ops"][0]
    assert linear["name"] == "aten.linear.default"
    assert linear["operand_args"] == ["input", "weight", "bias"]
    assert linear["source"].startswith("models.py:")
    assert graph["values"][linear["results"][0]]["name"] == "inner:linear:0#0"
    assert graph["ops"][3]["attrs"] == {"reduction": 1}
    json.dumps(graph, allow_nan=False)


def test_tied_weights_are_one_value_with_all_names():
    captured = capture(*models.gpt2(layers=1))
    (tied,) = (v for v in captured.graph["values"] if len(v.get("names", ())) > 1)
    assert tied["names"] == ["transformer.wte.weight", "lm_head.weight"]


def test_one_tensor_given_twice_is_two_inputs():
    captured = capture(*models.gpt2(layers=1))  # labels is input_ids
    readers = {
        captured.graph["values"][v]["name"]
        for op in captured.graph["ops"]
        for v in op["operands"]
    }
    assert {"input_ids", "labels"} <= readers


def test_identities_guards_and_dead_ops_are_gone():
    def forward(m, y):
        y.exp()  # dead
        y = F.dropout(y, 0.0).contiguous().to(torch.float32).view(4, 4)[:, :]
        return y.alias().mean() if hasattr(y, "alias") else y.mean()

    assert names(graph_of(forward)) == ["linear", "mean"]


def test_sizes_and_scalars_are_explicit():
    graph = graph_of(lambda m, y: (y.view(2, -1) * 0.5)[:, 1:].sum())
    view, mul, cut = graph["ops"][1:4]
    assert (view["attrs"]["size"], view["shape_args"]) == ([2, 8], ["size"])
    assert mul["attrs"] == {"other": 0.5}
    assert (cut["attrs"]["start"], cut["attrs"]["end"]) == (1, 8)


def test_infinite_constants_are_texts():
    graph = graph_of(
        lambda m, y: y.masked_fill(y > 0, float("-inf")).softmax(-1).square().sum()
    )
    assert graph["ops"][2]["attrs"]["value"] == "-inf"


def test_in_place_writes_are_carried_to_the_whole():
    def forward(m, y):
        z = torch.zeros(4, 4)
        z[:, 1:] = y[:, :-1]
        z[0].mul_(2.0)
        return (z * z).sum()

    model = Lambda(forward)
    x = torch.randn(4, 4)
    captured = capture(model, x)
    assert not any(
        op["name"].split(".")[1].endswith("_") for op in captured.graph["ops"]
    )
    assert torch.equal(captured.module(x)[0], model(x))


def test_buffer_changes_stay_as_effects():
    def forward(m, y):
        m.seen.add_(1.0)
        return (y * m.seen).sum()

    model = Lambda(forward)
    captured = capture(model, torch.randn(4, 4))
    effect = captured.graph["ops"][1]
    assert (effect["name"], effect["effect"]) == ("aten.add_.Tensor", True)
    assert model.seen.sum() == 0  # tracing changed nothing
    captured.module(torch.randn(4, 4))
    assert model.seen.sum() == 4


def test_batch_norm_is_an_effect_and_dropout_random():
    graph = capture(*models.resnet()).graph
    norms = [op for op in graph["ops"] if op["name"] == "aten.batch_norm.default"]
    assert norms
    assert all(op["effect"] for op in norms)
    graph = capture(models.Mlp(dropout=0.5), models.mlp()[1]).graph
    assert [op["random"] for op in graph["ops"]] == [False, False, True, False, False]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_recurrent_layers_are_random_only_with_dropout(dropout):
    layer = nn.GRU(4, 4, num_layers=2, dropout=dropout)
    graph = capture(layer, torch.randn(3, 2, 4), loss=lambda out: out[0].sum()).graph
    (op,) = [op for op in graph["ops"] if op["name"].startswith("aten.gru")]
    assert op["random"] == (dropout > 0)


def test_no_grad_regions_stand_behind_detach():
    def forward(m, y):
        with torch.no_grad():
            scale = y.abs().amax()
        return (y / scale).sum()

    graph = graph_of(forward)
    assert names(graph) == ["linear", "detach", "abs", "amax", "div", "sum"]
    assert not graph["values"][graph["ops"][2]["results"][0]]["requires_grad"]


def test_ops_whose_gradients_lead_nowhere_stand_behind_detach():
    def forward(m, y):
        nearest = torch.cdist(y, m.linear.weight).detach().argmin(-1)
        return (y - m.linear.weight[nearest]).square().sum()

    graph = graph_of(forward)
    assert names(graph)[:5] == ["linear", "detach", "detach", "cdist", "argmin"]
    carried = {
        op["name"].split(".")[1]: graph["values"][op["results"][0]]["requires_grad"]
        for op in graph["ops"]
    }
    assert not carried["cdist"]
    assert all(carried[name] for name in ("linear", "index", "sub"))


def test_ops_whose_gradients_an_output_carries_are_left():
    graph = graph_of(lambda m, y: {"loss": y.sum(), "other": y.exp()})
    assert names(graph) == ["linear", "sum", "exp"]
    assert graph["values"][graph["outputs"][1]]["requires_grad"]


def test_loss_functions():
    model, x = nn.Linear(4, 2), torch.randn(3, 4)
    assert capture(model, x, loss=lambda out: out.square().mean()).graph["outputs"]
    with_batch = capture(model, x, loss=lambda out, batch: (out.sum() * batch).sum())
    inputs = [v["name"] for v in with_batch.graph["values"] if v["kind"] == "input"]
    assert inputs == ["input"]
    assert with_batch.graph["loss"] not in with_batch.graph["outputs"]
    with pytest.raises(CaptureError, match=r"not a loss.*mean"):
        capture(model, x, loss=lambda out: out)


@dataclasses.dataclass
class Named:
    loss: torch.Tensor
    logits: torch.Tensor


# What the models of libraries return, each with the loss y.sum().
LOSS_FORMS = {
    "scalar": lambda m, y: y.sum(),
    "dict": lambda m, y: {"loss": y.sum(), "logits": y},
    "dataclass": lambda m, y: Named(y.sum(), y),
    "tuple": lambda m, y: (y.sum(), y),
    "list": lambda m, y: [y.sum()],
}


@pytest.mark.parametrize("form", LOSS_FORMS)
def test_the_loss_is_taken_alike_by_capture_and_on_one_process(form):
    model, x = Lambda(LOSS_FORMS[form]), torch.randn(4, 4)
    graph = capture(model, x).graph
    (op,) = [op for op in graph["ops"] if op["results"] == [graph["loss"]]]
    assert op["name"] == "aten.sum.default"
    assert torch.equal(step_loss(model, x), model.linear(x).sum())


@pytest.mark.parametrize(
    "function",
    [
        lambda m, y: (y.sum(), y.mean()),  # which, or both?
        lambda m, y: (y, y.sum()),
        lambda m, y: (y.sum(0, keepdim=True), y),
        lambda m, y: {"cost": y.sum()},
        lambda m, y: (),
    ],
)
def test_no_loss_is_guessed(function):
    for taken in (capture, step_loss):
        with pytest.raises(CaptureError, match="no loss found"):
            taken(Lambda(function), torch.randn(4, 4))


def test_one_process_hands_the_loss_function_what_capture_does():
    model, x = nn.Linear(4, 2), torch.randn(3, 4)
    alone = step_loss(model, x, lambda out, batch: (out.sum() * batch).sum())
    assert torch.equal(alone, (model(x).sum() * x).sum())


def test_the_model_is_left_as_it_was():
    model, batch = models.gpt2(layers=1)
    model.config.use_cache = True
    model.calls = 0
    hook = model.register_forward_pre_hook(
        lambda module, args: setattr(module, "calls", module.calls + 1)
    )
    state = torch.get_rng_state()
    capture(model, batch)
    assert model.config.use_cache is True
    assert model.calls == 0
    assert torch.equal(torch.get_rng_state(), state)
    assert list(model._forward_pre_hooks) == [hook.id]


def test_batches_bind_and_rebuild():
    model, batch = models.gpt2(layers=1)
    captured = capture(model, batch)
    assert captured.bind(batch)[0] is batch["input_ids"]
    again = rebuild_batch(json.loads(json.dumps(captured.graph["batch"])))
    assert again["labels"].shape == batch["labels"].shape
    with pytest.raises(CaptureError, match=r"int64\[2, 16\], got int64\[2, 8\]"):
        captured.bind({**batch, "labels": batch["labels"][:, :8]})
    with pytest.raises(CaptureError, match="keys"):
        captured.bind({"input_ids": batch["input_ids"]})
    with pytest.raises(CaptureError, match="form differs"):
        captured.bind((batch["input_ids"],))


def test_unread_parameters_are_values():
    model = Lambda(lambda m, y: y.sum())
    model.spare = nn.Linear(2, 2)
    graph = capture(model, torch.randn(4, 4)).graph
    assert "spare.weight" in [value["name"] for value in graph["values"]]


def test_ambient_autocast_is_kept():
    model, batch = models.mlp()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        captured = capture(model, batch)
    inner = captured.graph["ops"][0]["results"][0]
    assert captured.graph["values"][inner]["dtype"] == "bfloat16"
    assert captured.graph["batch"]["autocast"] == {"device": "cpu", "dtype": "bfloat16"}
    assert captured.autocast.dtype is torch.bfloat16
