"""CIFAR-10 from the files of its python version."""

import os
from pathlib import Path
from typing import Final

import numpy as np
import torch

from feddiv.data.options import DataOptions
from feddiv.data.pickles import read_pickle
from feddiv.data.store import Dataset, Split
from feddiv.data.transform import Augment
from feddiv.errors import UserError

FOLDER: Final = "cifar-10-batches-py"
HOME: Final = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
META: Final = "batches.meta"
TEST: Final = "test_batch"
TRAIN: Final = tuple(f"data_batch_{number}" for number in range(1, 6))
MD5: Final = {
    META: "5ff9c542aee3614f3951f8cda6e48888",
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    TEST: "40351d587109b95175f43aff81a1287e",
}

# ImageNet's constants: what FedCorr's and FedDiv's code normalise CIFAR-10 with.
MEAN: Final = (0.485, 0.456, 0.406)
STD: Final = (0.229, 0.224, 0.225)


def load(options: DataOptions) -> Dataset:
    """50,000 training and 10,000 test images of 32x32 pixels, checksums verified."""
    folder = find_folder(options.path)
    for name in MD5:
        if not (folder / name).is_file():
            raise UserError(f"{folder / name}: missing; unpack {HOME} again, or set data.path")
    names = read_pickle(folder / META, "latin1", MD5[META])["label_names"]
    train, test = _read(folder, TRAIN), _read(folder, (TEST,))
    return Dataset(
        name="cifar10",
        classes=tuple(names),
        train=train,
        test=test,
        mean=MEAN,
        std=STD,
        augment=Augment(pad=4, flip=True),
        truth=train.labels,
    )


def find_folder(path: Path | None) -> Path:
    """The folder with the batch files: `path`, else FEDDIV_DATA, or the usual folder in it."""
    named = str(path) if path is not None else os.environ.get("FEDDIV_DATA", "")
    if not named:
        raise UserError(
            f"cifar10: no data folder; set data.path or FEDDIV_DATA to the folder that holds "
            f"{FOLDER} (unpacked from {HOME})"
        )
    key = "data.path" if path is not None else "FEDDIV_DATA"
    base = Path(named).expanduser()
    if not base.is_dir():
        raise UserError(f"{key}={named}: there is no such folder; it has to hold {FOLDER}")
    for folder in (base / FOLDER, base):
        if (folder.name == FOLDER and folder.is_dir()) or (folder / META).is_file():
            return folder
    raise UserError(f"{key}={named}: holds no {FOLDER}; unpack {HOME} there")


def _read(folder: Path, names: tuple[str, ...]) -> Split:
    batches = [read_pickle(folder / name, "latin1", MD5[name]) for name in names]
    planes = np.concatenate([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32)
    images = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
    labels = np.concatenate([batch["labels"] for batch in batches]).astype(np.int64)
    return Split(torch.from_numpy(images), torch.from_numpy(labels))
