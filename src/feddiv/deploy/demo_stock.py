"""What the demonstration's sites have: digits, or postings of four newsgroups."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal

import numpy as np
from PIL import Image

from feddiv.core.arrays import Rows
from feddiv.data.data_options import DataOptions
from feddiv.data.dataset import Split
from feddiv.data.encoding.material import Material
from feddiv.data.sources import digits, newsgroups
from feddiv.deploy.demo_sites import Stock
from feddiv.encoders.choice import EncoderChoice
from feddiv.encoders.registry import make_encoder

DemoKind = Literal["images", "text"]
GROUPS: Final = ("rec.autos", "sci.med", "sci.space", "talk.politics.guns")
TESTED: Final = 400  # postings


def demo_digits() -> Stock:
    """Images of digits, which need no download."""
    data = digits.load(DataOptions(source="digits"))

    def writer(split: Split) -> Callable[[Path, int], None]:
        def write(path: Path, row: int) -> None:
            Image.fromarray(split.inputs[row].numpy()[..., 0], mode="L").save(path)

        return write

    return Stock(
        what="images",
        classes=data.classes,
        labels=data.train.labels.numpy(),
        test_labels=data.test.labels.numpy(),
        ending=".png",
        write=writer(data.train),
        write_test=writer(data.test),
        data={
            "size": data.train.inputs.shape[1],
            "channels": 1,
            "mean": list(data.mean),
            "std": list(data.std),
        },
        model="cnn",
    )


def text_writer(texts: Material) -> Callable[[Path, int], None]:
    """Writes the texts of these rows into files."""

    def write(path: Path, row: int) -> None:
        path.write_bytes(texts.content(row))

    return write


def demo_texts() -> Stock:
    """Postings of four groups, which `feddiv data get newsgroups` fetches.

    The encoder is tried first: better now than at the sites.
    """
    encoder = make_encoder(EncoderChoice("wordllama"), None)
    data = newsgroups.load(DataOptions(source="newsgroups"))
    assert data.originals is not None
    numbers = [data.classes.index(name) for name in GROUPS]

    def some(split: Split, texts: Material, most: int | None) -> tuple[Rows, Material]:
        """Groups by turns, so that the first few have all of them."""
        labels = split.labels.numpy()
        of_each = [np.flatnonzero(labels == number) for number in numbers]
        shortest = min(len(rows) for rows in of_each)
        rows = np.stack([rows[:shortest] for rows in of_each], axis=1).reshape(-1)[:most]
        return np.array([numbers.index(label) for label in labels[rows]]), texts.chosen(rows)

    labels, texts = some(data.train, data.originals.train, None)
    test_labels, tested = some(data.test, data.originals.test, TESTED)
    return Stock(
        what="texts",
        classes=GROUPS,
        labels=labels,
        test_labels=test_labels,
        ending=".txt",
        write=text_writer(texts),
        write_test=text_writer(tested),
        data={"encoder": encoder.choice.name, "encoder_sha256": encoder.sha256},
        model="mlp",
    )


STOCKS: Final[Mapping[DemoKind, Callable[[], Stock]]] = {
    "images": demo_digits,
    "text": demo_texts,
}
