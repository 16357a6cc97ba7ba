"""Data that stay at their sites: the server knows what they look like, and has none of them.

It may have a folder of images, or of texts, of its own to test on.
"""

from __future__ import annotations

from typing import Final

import torch

from feddiv.core.errors import UserError
from feddiv.data.classes import in_these_classes
from feddiv.data.data_options import DataOptions
from feddiv.data.dataset import Dataset, Split
from feddiv.data.encoding.to_dataset import check_encoding
from feddiv.data.images.own_listing import refuse_image_keys
from feddiv.data.transform import AsTheyAre, Augment
from feddiv.encoders.contract import Encoder
from feddiv.encoders.registry import find_encoder, make_encoder

TAKES: Final = frozenset(
    {"path", "classes", "size", "channels", "features", "shape", "mean", "std"}
)
IMAGES: Final = (0.5, 0.25)  # mean and std where nobody says: pixels are in [0,1]
VECTORS: Final = (0.0, 1.0)


def described(options: DataOptions, made: Encoder | None = None) -> Dataset:
    """A data set of the run's kind without a single sample; `made` is its encoder, if it has one.

    Without it the encoder is made only to be looked at.
    """
    classes = named_classes(options)
    encoder = made or sites_encoder(options)
    if encoder is not None:
        return _encoded(options, classes, encoder)
    if sum(each is not None for each in (options.size, options.features, options.shape)) != 1:
        raise UserError(
            f"data.size={options.size}, data.features={options.features} and data.shape="
            f"{options.shape}: data.source=sites needs one of them, the side of the images in "
            "pixels, the length of the vectors, or the shape of samples that are taken as they are"
        )
    if options.shape is not None:
        return _as_they_are(options, classes, options.shape)
    shape: tuple[int, ...]
    if options.features is not None:
        shape, width, usual, dtype = (options.features,), options.features, VECTORS, torch.float32
    else:
        assert options.size is not None
        shape, width = (options.size, options.size, options.channels), options.channels
        usual, dtype = IMAGES, torch.uint8
    nothing = Split(torch.empty((0, *shape), dtype=dtype), torch.empty(0, dtype=torch.int64))
    return Dataset(
        name="sites",
        classes=classes,
        train=nothing,
        test=nothing,
        mean=_numbers("mean", options.mean, usual[0], width),
        std=_numbers("std", options.std, usual[1], width),
        augment=options.augment or Augment(),
        truth=None,
    )


def named_classes(options: DataOptions) -> tuple[str, ...]:
    """The classes that all sites have to agree on."""
    classes = options.classes
    if (
        classes is None
        or len(classes) < 2
        or len(set(classes)) < len(classes)
        or not all(name.strip() for name in classes)
    ):
        given = None if classes is None else list(classes)
        raise UserError(f"data.classes={given}: name the classes, two at least and each once")
    return classes


def predictions(
    classes: tuple[str, ...],
    logits: torch.Tensor | None = None,
    labels: torch.Tensor | None = None,
) -> Dataset:
    """Samples that are what a site's classifier says, logits [n, C]; the server has none."""
    width = len(classes)
    nothing = Split(torch.empty((0, width)), torch.empty(0, dtype=torch.int64))
    own = nothing if logits is None or labels is None else Split(logits.float(), labels)
    return Dataset(
        name="sites",
        classes=classes,
        train=own,
        test=nothing,
        mean=(VECTORS[0],) * width,
        std=(VECTORS[1],) * width,
        augment=Augment(),
        truth=None,
    )


def sites_encoder(options: DataOptions) -> Encoder | None:
    """The encoder of the run, if it has one."""
    if options.encoder is None:
        return None
    for key in ("features", "shape"):
        if getattr(options, key) is not None:
            raise UserError(
                f"data.{key}={getattr(options, key)}: with data.encoder samples are its feature "
                f"vectors; leave data.{key} out"
            )
    kind = find_encoder(options.encoder).kind or "images"
    return make_encoder(check_encoding(options, kind), options.size)


def _encoded(options: DataOptions, classes: tuple[str, ...], encoder: Encoder) -> Dataset:
    """Sites turn their own images or texts into vectors of one encoder, whose weights are named."""
    shape = None
    if encoder.kind == "texts":
        refuse_image_keys(options, f"data.encoder={options.encoder}: each site", "texts")
    else:
        side = options.size or encoder.choice.size
        assert side is not None
        shape = (side, side, options.channels)
    mean, std = encoder.usual_scale
    nothing = Split(
        torch.empty((0, encoder.width), dtype=torch.float16),
        torch.empty(0, dtype=torch.int64),
        places=torch.empty((0, encoder.choice.views), dtype=torch.int64),
    )
    return Dataset(
        name="sites",
        classes=classes,
        train=nothing,
        test=nothing,
        mean=_numbers("mean", options.mean, mean, encoder.width),
        std=_numbers("std", options.std, std, encoder.width),
        augment=Augment(),
        truth=None,
        encoder=encoder.choice,
        image_shape=shape,
    )


def _as_they_are(options: DataOptions, classes: tuple[str, ...], shape: tuple[int, ...]) -> Dataset:
    for key in ("mean", "std", "augment", "path"):
        if getattr(options, key) is not None:
            raise UserError(
                f"data.{key}={getattr(options, key)}: with data.shape samples are taken as the "
                f"sites give them, and are all there; leave data.{key} out"
            )
    own = AsTheyAre()
    nothing = Split(torch.empty((0, *shape)), torch.empty(0, dtype=torch.int64))
    return Dataset(
        name="sites",
        classes=classes,
        train=nothing,
        test=nothing,
        mean=own.mean,
        std=own.std,
        augment=own.augment,
        truth=None,
        own=own,
    )


def _numbers(
    key: str, given: tuple[float, ...] | None, usual: float, width: int
) -> tuple[float, ...]:
    if given is None or len(given) == 1:
        return (usual if given is None else given[0],) * width
    if len(given) != width:
        raise UserError(f"data.{key} has {len(given)} numbers; give 1 or {width}")
    return given


def load(options: DataOptions) -> Dataset:
    """What the sites' data look like, and the server's own test samples, if it has any."""
    made = sites_encoder(options)
    dataset = described(options, made)
    if options.path is None or options.test_share == 0.0:  # nobody will look at test samples
        return dataset
    from feddiv.core.randomness import Streams
    from feddiv.data.sources import load_dataset

    folder = DataOptions(
        source="folder", path=options.path, size=options.size, channels=options.channels
    ).encoded_by(dataset.encoder)
    if options.features is not None:
        raise UserError(
            f"data.path={options.path}: vectors are not read from folders; "
            "use evaluation.name=held_out"
        )
    samples = load_dataset(folder, Streams(0), with_test=False, made=made, part=True)
    samples = in_these_classes(samples, dataset.classes, f"data.path={options.path}")
    return dataset.tested_on(samples.train)
