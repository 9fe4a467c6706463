"""Memory of ATen's own convolutions: im2col and a matrix product.

There are five: of images, all of them unfolded at once; of volumes, the same,
but several groups at once; dilated ones, an image at a time; transposed images,
all at once forward, one at a time backward; transposed volumes, one at a time.
All but the second run group by group, on copies.
"""

from collections.abc import Sequence
from math import prod

from shardwright.profile.opaque.convolution.shape import Box, Shape, bias, of_one_group
from shardwright.profile.opaque.scratch import Alternative, Condition, Part

__all__ = ["backward", "forward"]


def forward(shape: Shape, has_bias: bool, contiguous: bool = True) -> list[Alternative]:
    if _is_volumetric(shape):
        return [Alternative((shape.out, *_columns_of_volumes(shape)))]
    if shape.transposed and shape.volumes:
        return _transposed_volumes(shape, (*_columns(shape), *_ones(shape, has_bias)))
    out, unfolded = shape.out, _columns(shape)
    if shape.one_group:
        return [Alternative((out, *unfolded))]
    found = [Alternative((out, out))]
    for copied, box in _copied(shape, contiguous, shape.x):
        found.append(Alternative((out, *copied, *unfolded), box))
    return found


def _transposed_volumes(shape: Shape, scratch: tuple[Part, ...]) -> list[Alternative]:
    """The result is made like the data, and again if it is larger."""
    x, out = shape.x, shape.out
    found = [Alternative((x, out))]
    if not shape.one_group:
        found += [
            Alternative((out, out)),
            Alternative((out, *_copied(shape, True, x)[1][0])),
        ]
    for copied, box in _copied(shape, True, x):
        found.append(Alternative((out, *copied, *scratch), box))
        found.append(Alternative((x, *copied, *scratch), box))
    return found


def _copied(
    shape: Shape, contiguous: bool, *parts: Part
) -> list[tuple[tuple[Part, ...], Box]]:
    """A group's operands are copied, unless there is one group, or one image
    whose channels lie one after the other."""
    if shape.one_group:
        return [((), ())]
    copies = tuple(of_one_group(part) for part in parts)
    if not contiguous:
        return [(copies, ())]
    one, several = Condition(shape.batch, 1, 1), Condition(shape.batch, 2)
    return [((), (one,)), (copies, (several,))]


def backward(
    shape: Shape, mask: Sequence[bool], contiguous: bool = True
) -> list[Alternative]:
    kept = [shape.x] if mask[0] else []
    made = [shape.w] if mask[1] else []
    of_bias = bias(shape, mask)
    if _is_volumetric(shape):
        unfolded = _columns_of_volumes(shape)
        if shape.pointwise and shape.one_group and mask[0]:
            unfolded = (_all_columns(shape),)  # made even where they are the data
        return [Alternative((*kept, *made, *of_bias, *unfolded))]
    # Kernels of images unfold for the weight only.
    unfolds = mask[1] or shape.dilated or shape.transposed
    unfolded = _columns_in_backward(shape) if unfolds else ()
    again = of_bias if shape.dilated and not shape.transposed else ()
    all_made = (*kept, *made, *of_bias)
    found = [
        Alternative((*all_made, *copied, *unfolded, *again), box)
        for copied, box in _copied(shape, contiguous, shape.x, shape.out)
    ]
    if not shape.one_group:
        found.append(Alternative((*all_made, *all_made)))
    return found


def _is_volumetric(shape: Shape) -> bool:
    return shape.volumes and not shape.transposed and not shape.dilated


def _columns_of_volumes(shape: Shape) -> tuple[Part, ...]:
    if shape.pointwise and shape.one_group:
        return ()
    one = _all_columns(shape)
    return (Part(one.scale, (*one.dims, shape.groups)),)


def _columns(shape: Shape) -> tuple[Part, ...]:
    if shape.transposed:
        return (_one_image(shape) if shape.volumes else _all_columns(shape),)
    if shape.dilated:
        return (_one_image(shape),)
    return () if shape.pointwise else (_all_columns(shape),)


def _columns_in_backward(shape: Shape) -> tuple[Part, ...]:
    if shape.dilated or (shape.transposed and not shape.pointwise):
        return (_one_image(shape),)
    return () if shape.pointwise else (_all_columns(shape),)


def _one_image(shape: Shape) -> Part:
    places = shape.data_sizes if shape.transposed else shape.result_sizes
    channels = shape.result if shape.transposed else shape.data
    return Part(shape.item * shape.num_taps * prod(places), (channels,))


def _all_columns(shape: Shape) -> Part:
    one = _one_image(shape)
    return Part(one.scale, (*one.dims, shape.batch))


def _ones(shape: Shape, has_bias: bool) -> tuple[Part, ...]:
    """What spreads a bias over a volume."""
    return (Part(shape.item * prod(shape.result_sizes)),) if has_bias else ()
