"""The data set as tensors, in memory or mapped from a file: every sample once, whoever holds it."""

from __future__ import annotations

import mmap
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from feddiv.data.encoding.material import Originals
from feddiv.data.sample_names import SampleNames
from feddiv.data.scaling import Scaling
from feddiv.data.transform import AsTheyAre, Augment, Transform
from feddiv.encoders.choice import EncoderChoice


@dataclass(frozen=True, eq=False)
class Split:
    """Samples and their labels.

    Images stay uint8 [N,H,W,C]: a gathered batch, permuted to NCHW, already is channels_last.
    Feature vectors are float32 [N,D]. Labels are int64 [N]. Where `inputs` is a view of a mapped
    file, `pages` is the mapping: such data may be larger than memory and is never copied whole.

    What an encoder made is float16 [M,D], perhaps with vectors of other samples among them:
    `places` says which rows are these samples' own, int64 [N,V], one for each view of a sample.
    """

    inputs: torch.Tensor
    labels: torch.Tensor
    pages: mmap.mmap | None = None
    places: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, index: torch.Tensor | slice) -> torch.Tensor:
        """The inputs of these samples; of several views the first, the sample as it is."""
        if self.places is None:
            return self.inputs[index]
        return self.inputs.index_select(0, self.places[index, 0])

    def on(self, device: torch.device) -> Split:
        """The same samples on this device; mapped ones stay, and go there batch by batch."""
        inputs = self.inputs if self.pages is not None else self.inputs.to(device)
        places = None if self.places is None else self.places.to(inputs.device)
        return Split(inputs, self.labels.to(device), self.pages, places)

    def let_go(self) -> None:
        """Give back the pages that this process has touched; they are mapped again when needed."""
        if self.pages is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.pages.madvise(mmap.MADV_DONTNEED)

    def chosen(self, rows: torch.Tensor) -> Split:
        """These samples only."""
        if self.places is not None:
            return replace(self, labels=self.labels[rows], places=self.places[rows])
        return Split(self.inputs[rows], self.labels[rows])

    def in_memory(self) -> Split:
        """The same samples, all views of them, in memory of their own and nothing else there."""
        if self.places is None:
            return replace(self, inputs=self.inputs.clone(), pages=None)
        own = torch.arange(self.places.numel()).view(self.places.shape)
        inputs = self.inputs.index_select(0, self.places.flatten())
        return Split(inputs, self.labels, None, own)


@dataclass(frozen=True, eq=False)
class Dataset:
    """What a source gives: training and test samples, and how to normalise and augment them.

    `train.labels` are the labels as the source gives them; `truth` holds the true labels of the
    training samples, or None where nobody knows them. Where the data itself says which client a
    training sample belongs to, `clients` has their names and `holder` the number of each sample's,
    int64 [N]. `rows` says which of the source's training samples these are, int64 [N], or None for
    all of them in its order. Training images may be stored larger than the net's input: `window` is
    the height and width that is cut out of them. `notes` are lines for the owner of the data.
    Where samples are what a net eats already, float32 of any shape, `own` is how they are seen.
    `split_here` says that the test samples were held out by us, not given as such. `columns` names
    those of a table that samples are made of, in order: features, or one of paths of images.
    `names` are what the owner calls the training samples; None where their numbers say it.
    Where samples are feature vectors that an encoder made, `encoder` is which, everything about it
    filled in, `image_shape` the (height, width, channels) of the images that it was given, and
    `originals` are these samples themselves, read when somebody asks; None where they are mixed
    with others. A source of texts gives originals alone: inputs are [N,0] until an encoder has made
    vectors.
    """

    name: str
    classes: tuple[str, ...]
    train: Split
    test: Split
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augment: Augment
    truth: torch.Tensor | None
    clients: tuple[str, ...] = ()
    holder: torch.Tensor | None = None
    rows: torch.Tensor | None = None
    window: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()
    own: AsTheyAre | None = None
    split_here: bool = False
    columns: tuple[str, ...] = ()
    names: SampleNames | None = None
    encoder: EncoderChoice | None = None
    image_shape: tuple[int, int, int] | None = None
    originals: Originals | None = None

    @property
    def origin(self) -> torch.Tensor:
        """The number that each training sample has in the source, int64 [N]."""
        return torch.arange(len(self.train)) if self.rows is None else self.rows

    @property
    def input_shape(self) -> tuple[int, ...]:
        """One sample as a net sees it: (C,H,W) for images, (D,) for feature vectors."""
        shape = tuple(self.train.inputs.shape[1:])
        if len(shape) != 3 or self.own is not None:
            return shape
        height, width = self.window or shape[:2]
        return (shape[2], height, width)

    @property
    def only_texts(self) -> bool:
        """Whether samples are texts that no encoder has made vectors of yet."""
        return self.originals is not None and self.encoder is None

    @property
    def transform(self) -> Transform:
        """From stored rows of this data set to the input of a net."""
        if self.own is not None:
            return self.own
        return Transform(self.mean, self.std, self.augment, self.window)

    def name_of(self, row: int) -> str:
        """What the owner calls a training sample: its file, or its row."""
        return str(int(self.origin[row])) if self.names is None else self.names.name(row)

    def held_by(self, clients: tuple[str, ...], holder: torch.Tensor) -> Dataset:
        """The same data, saying which client each training sample belongs to."""
        return replace(self, clients=clients, holder=holder)

    def scaled_by(self, scaling: Scaling) -> Dataset:
        """The same vectors, standardised by these numbers."""
        mean, std = tuple(map(float, scaling.mean)), tuple(map(float, scaling.std))
        return replace(self, mean=mean, std=std)

    def unscaled(self) -> Dataset:
        """The same vectors as they are stored."""
        width = self.input_shape[0]
        return self.scaled_by(Scaling(np.zeros(width), np.ones(width)))

    def on(self, device: torch.device) -> Dataset:
        """The same data with its tensors on this device."""
        return replace(self, train=self.train.on(device), test=self.test.on(device))

    def chosen(self, rows: torch.Tensor) -> Dataset:
        """The same data with these training samples only."""
        return replace(
            self,
            train=self.train.chosen(rows),
            truth=None if self.truth is None else self.truth[rows],
            holder=None if self.holder is None else self.holder[rows],
            rows=self.origin[rows],
            names=None if self.names is None else self.names.chosen(rows.cpu().numpy()),
            originals=None if self.originals is None else self.originals.chosen(rows.numpy()),
        )

    def chosen_test(self, rows: torch.Tensor) -> Dataset:
        """The same data with these test samples only."""
        originals = None if self.originals is None else self.originals.chosen_test(rows.numpy())
        return replace(self, test=self.test.chosen(rows), originals=originals)

    def tested_on(self, test: Split) -> Dataset:
        """The same data with other test samples."""
        return replace(self, test=test)

    def text(self, row: int) -> str | None:
        """A training sample as a text; None where samples are none."""
        found = None if self.originals is None else self.originals.train.shown(row)
        return found if isinstance(found, str) else None

    def picture(self, row: int) -> npt.NDArray[np.uint8] | None:
        """A training sample as an image, uint8 [H,W,C]; None where samples are none."""
        if self.originals is not None:
            found = self.originals.train.shown(row)
            return found if isinstance(found, np.ndarray) else None
        inputs = self.train.inputs
        is_image = inputs.dim() == 4 and inputs.dtype == torch.uint8
        return inputs[row].cpu().numpy() if is_image else None
