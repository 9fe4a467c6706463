"""Records and reference counts reproduce the bytes a real step allocates."""

import models
import pytest
import torch
from batch_maps import batch_maps
from replay import measured, replay

from shardwright.capture import capture
from shardwright.profile import make_records

# Share of the peak. A kernel's scalars (4 bytes) are not modelled.
TOLERANCE = 1e-3
BATCH = 8


def _mlp(batch):
    model = models.Mlp(64, 256, dropout=0.1)
    return model, (torch.randn(batch, 64), torch.randn(batch, 64))


def _gpt2(batch):
    return models.gpt2(batch=batch, length=32)


def _gpt2_dropout(batch):
    return models.gpt2(batch=batch, length=32, dropout=0.1)


MODELS = {"mlp": _mlp, "gpt2": _gpt2, "gpt2-dropout": _gpt2_dropout}


@pytest.mark.parametrize("name", MODELS)
def test_peak_is_that_of_a_real_step(name):
    torch.manual_seed(0)
    whole = capture(*MODELS[name](BATCH))
    half = capture(*MODELS[name](BATCH // 2))
    maps = batch_maps(whole.graph, half.graph, BATCH)
    make_records(whole, maps, threads=torch.get_num_threads())
    assert all(record["scalable"] for record in whole.graph["records"])

    _check(whole, whole, replay(whole.graph, _local(maps, BATCH)))
    shapes = [value["shape"] for value in half.graph["values"]]
    _check(whole, half, replay(whole.graph, _local(maps, BATCH // 2), shapes))


@pytest.mark.parametrize("name", ["t5", "llama", "bert", "vit"])
def test_peak_of_other_models(name):
    torch.manual_seed(0)
    captured = capture(*models.CASES[name]())
    make_records(captured, _no_rules(captured), threads=torch.get_num_threads())
    _check(captured, captured, replay(captured.graph))


def test_expressions_are_the_numbers_of_the_half_batch():
    torch.manual_seed(0)
    whole, half = capture(*_gpt2(BATCH)), capture(*_gpt2(BATCH // 2))
    maps = batch_maps(whole.graph, half.graph, BATCH)
    make_records(whole, maps, threads=torch.get_num_threads())
    make_records(half, _no_rules(half), threads=torch.get_num_threads())
    for index, op in enumerate(whole.graph["ops"]):
        twin = half.graph["ops"][index]
        local = _local(maps, BATCH // 2)[index]
        ours = whole.graph["records"][op["record"]]
        theirs = half.graph["records"][twin["record"]]
        assert _numbers(ours, local) == _numbers(theirs, []), op["key"]


def _numbers(record, local):
    from replay import evaluate

    found = [evaluate(size, local) for size in record["sizes"]]
    for kernel in record["kernels_forward"] + record["kernels_backward"]:
        found += [evaluate(kernel[key], local) for key in ("flops", "read", "write")]
    for kind, value in record["forward"] + record["backward"]:
        found.append((kind, evaluate(value, local) if kind == "transient" else value))
    return found


def _local(maps, batch):
    return [[batch] if entry["factors"] else [] for entry in maps]


def _num_ops(captured):
    return len(captured.graph["ops"])


def _check(recorded, run, memory):
    peak, end = measured(run.module, run.bind(_batch(run)))
    assert memory.peak == pytest.approx(peak, rel=TOLERANCE)
    assert memory.now == end
    assert recorded.graph["records"]


def _batch(captured):
    from shardwright.capture import rebuild_batch

    return rebuild_batch(captured.graph["batch"], device="cpu")


def _no_rules(captured):
    return [{"rule": None, "factors": []}] * _num_ops(captured)
