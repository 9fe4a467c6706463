"""A small reference replay of profile records: bytes over one training step.

Integer reference counts per storage, nothing else; what the C++ judge does,
written apart from it. Parameters, buffers and inputs are not counted.
"""

from math import prod

ITEMSIZE = {
    "float32": 4,
    "float64": 8,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "bool": 1,
    "complex64": 8,
}


def evaluate(expr, local):
    terms = expr if isinstance(expr, list) else [expr]
    value = sum(_term(term, local) for term in terms)
    assert value == int(value), expr
    return int(value)


def _term(term, local):
    for factor, times, low, high in term.get("when", ()):
        if not low <= times * local[factor] <= high:
            return 0
    value = term["c"] * prod(local[f] for f in term["f"])
    for factor, times, unit in term.get("up", ()):
        value *= -(-times * local[factor] // unit) * unit
    return value


class Memory:
    def __init__(self):
        self.size, self.count = {}, {}
        self.now = self.peak = 0

    def alloc(self, size):
        storage = len(self.size)
        self.size[storage], self.count[storage] = size, 1
        self.now += size
        self.peak = max(self.peak, self.now)
        return storage

    def ref(self, storage):
        if storage is not None:
            self.count[storage] += 1

    def unref(self, storage):
        if storage is None:
            return
        self.count[storage] -= 1
        assert self.count[storage] >= 0
        if self.count[storage] == 0:
            self.now -= self.size[storage]


class Replay:
    """`local_factors[op index]`: sizes of the op's factors on the rank;
    `shapes`: value id -> local shape."""

    def __init__(self, graph, local_factors, shapes):
        self.graph, self.factors, self.shapes = graph, local_factors, shapes
        self.memory = Memory()
        self.storage = {}  # value -> storage, None for what is not counted
        self.kept = {}  # op index -> (locations, saved)

    def run(self):
        last = {}
        for index, op in enumerate(self.graph["ops"]):
            for value in op["operands"]:
                last[value] = index
        held = {self.graph["loss"], *self.graph["outputs"]}
        for value in range(len(self.graph["values"])):
            if self.graph["values"][value]["kind"] != "activation":
                self.storage[value] = None
        for index, op in enumerate(self.graph["ops"]):
            self._forward(index, op)
            done = {v for v in op["operands"] if last[v] == index}
            done |= {v for v in op["results"] if v not in last}
            for value in done - held:
                self.memory.unref(self.storage[value])
        self._backward()
        return self.memory

    def _record(self, index, op):
        return self.graph["records"][op["record"]], self.factors[index]

    def _forward(self, index, op):
        record, local = self._record(index, op)
        where = {f"i{k}": self.storage[v] for k, v in enumerate(op["operands"])}
        freed = set()
        for kind, value in record["forward"]:
            if kind == "alloc":
                where[f"n{value}"] = self.memory.alloc(
                    evaluate(record["sizes"][value], local)
                )
            elif kind == "free":
                freed.add(value)
                self.memory.unref(where[f"n{value}"])
            else:
                self._transient(value, local)
        new = [h for h in where if h[0] == "n" and int(h[1:]) not in freed]
        for value, handle in zip(op["results"], record["results"], strict=True):
            self.storage[value] = where[handle]
            self.memory.ref(where[handle])
        for handle in record["saved"]:
            self.memory.ref(where[handle])
        for handle in new:
            self.memory.unref(where[handle])
        self.kept[index] = where

    def _transient(self, expr, local):
        level = self.memory.now + evaluate(expr, local)
        self.memory.peak = max(self.memory.peak, level)

    def _backward(self):
        loss = self.graph["loss"]
        gradient = {loss: (self.memory.alloc(self._bytes(loss)), True)}
        for index in reversed(range(len(self.graph["ops"]))):
            op = self.graph["ops"][index]
            got = [gradient.pop(value, None) for value in op["results"]]
            if any(pair is not None for pair in got):
                storages = [pair[0] if pair else None for pair in got]
                free = [pair is not None and pair[1] for pair in got]
                self._backward_op(index, op, storages, gradient, free)

    def _backward_op(self, index, op, got, gradient, free):
        record, local = self._record(index, op)
        where = self.kept.pop(index)
        where |= {f"g{m}": s for m, s in enumerate(got) if s is not None}
        mine, dropped = set(), set()
        for kind, value in record["backward"]:
            if kind == "alloc":
                where[f"n{value}"] = self.memory.alloc(
                    evaluate(record["sizes"][value], local)
                )
                mine.add(f"n{value}")
            elif kind == "free":
                self.memory.unref(where[f"n{value}"])
                mine.discard(f"n{value}")
            elif kind == "release":
                self.memory.unref(where[record["saved"][value]])
            elif kind == "drop_grad":
                self.memory.unref(where[f"g{value}"])
                dropped.add(value)
            else:
                self._transient(value, local)
        given = [
            (value, where[handle], flag and (handle[0] == "n" or free[int(handle[1:])]))
            for value, handle, flag in zip(
                op["operands"],
                record["gradients"],
                record["gradients_in_place"],
                strict=True,
            )
            if handle is not None
        ]
        for _, storage, _ in given:
            self.memory.ref(storage)
        for handle in mine:
            self.memory.unref(where[handle])
        for m, storage in enumerate(got):
            if storage is not None and m not in dropped:
                self.memory.unref(storage)
        for value, storage, in_place in reversed(given):
            self._deliver(value, storage, in_place, gradient)

    def _deliver(self, value, storage, in_place, gradient):
        if value not in gradient:
            gradient[value] = (storage, in_place)
            return
        before, may_add = gradient[value]
        if may_add and self.memory.count[before] == 1:
            self.memory.unref(storage)
        else:
            gradient[value] = (self.memory.alloc(self._bytes(value)), True)
            self.memory.unref(before)
            self.memory.unref(storage)

    def _bytes(self, value):
        dtype = self.graph["values"][value]["dtype"]
        return prod(self.shapes[value]) * ITEMSIZE[dtype]


def replay(graph, local_factors=None, shapes=None):
    """Memory of one forward and backward, at the graph's sizes by default."""
    sizes = local_factors or [{}] * len(graph["ops"])
    return Replay(graph, sizes, shapes or [v["shape"] for v in graph["values"]]).run()


def measured(module, inputs):
    """(peak, end) bytes above the start, really allocated by a second step."""
    from shardwright.execute.memory import watch

    def step():
        for parameter in module.parameters():
            parameter.grad = None
        outputs = module(*inputs)
        outputs[0].backward()
        return outputs

    step()
    for parameter in module.parameters():
        parameter.grad = None
    held = []
    seen = watch(lambda: held.append(step()))
    return seen.peak_bytes, seen.kept_bytes
