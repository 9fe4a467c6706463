"""Factor maps with one factor, the batch, found by capturing two batch sizes.

A dim or a whole-number attribute that differs between the captures is the
batch times a constant. Stands in for the rules where a test wants no core.
"""


def batch_maps(graph, other, batch):
    """Maps of `graph`, captured at `batch`; `other` at a different size."""
    return [
        _map(graph, op, other, twin, batch)
        for op, twin in zip(graph["ops"], other["ops"], strict=True)
    ]


def _map(graph, op, other, twin, batch):
    assert op["key"] == twin["key"]

    def dims(ids, twin_ids):
        return [
            [
                {"factor": -1, "times": size}
                if size == other["values"][t]["shape"][d]
                else {"factor": 0, "times": size // batch}
                for d, size in enumerate(graph["values"][v]["shape"])
            ]
            for v, t in zip(ids, twin_ids, strict=True)
        ]

    operands = dims(op["operands"], twin["operands"])
    results = dims(op["results"], twin["results"])
    attrs = {
        name: {"factor": 0, "times": value // batch}
        for name, value in op["attrs"].items()
        if value != twin["attrs"][name] and name not in op["shape_args"]
    }
    split = any(d["factor"] == 0 for t in operands + results for d in t)
    return {
        "rule": "test",
        "factors": [{"name": "batch", "size": batch}] if split else [],
        "operands": operands,
        "results": results,
        "attr_factors": attrs,
        "variants": [],
    }
